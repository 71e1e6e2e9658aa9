"use strict";
// Text of pairs and judges reaches the page by textContent alone: nothing in it is ever read as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [body, find, view, order, shown, more] =
    ["rows", "find", "view", "order", "shown", "more"].map((id) => document.getElementById(id));
  const heads = [...document.querySelectorAll("#pairs thead th")];
  const barAt = data.columns.findIndex((column) => column.kind === "bar");
  const STEP = 100;
  const MOST_BESIDE = 7; // responses to one prompt
  const blocks = new Map();
  let rows = [];
  let chosen = [];
  let visible = STEP;
  let compare = null;

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  function element(name, text, kind) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  function drawn(name, attributes, kind) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    if (kind) made.setAttribute("class", kind);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function written(value, kind) {
    if (value === null || value === "") return "–";
    if (kind === "score") return value.toFixed(2);
    if (kind === "range") return value.map((end) => end.toFixed(2)).join(value[0] < 0 ? " to " : " – ");
    if (kind === "difference") return (value > 0 ? "+" : "") + value.toFixed(2);
    return typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: 2 }) : value;
  }

  function choose() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = view.selectedIndex - 1;
    chosen = rows.filter(([, , views, , , text]) =>
      (wanted < 0 || views.includes(wanted)) && words.every((word) => text.includes(word)));
    chosen.sort(compare);
    visible = STEP;
    body.replaceChildren();
    draw();
  }

  function byOrder() {
    const at = order.selectedIndex;
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    compare = ([, a], [, b]) => a[at] - b[at];
    choose();
  }

  function byColumn(head) {
    const { kind } = data.columns[head];
    const at = kind === "bar" ? data.bar.thick ?? data.bar.thin ?? data.bar.tick : head;
    const before = heads[at].getAttribute("aria-sort");
    const down = before ? before === "ascending" : !["id", "text"].includes(kind);
    const sign = down ? -1 : 1;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    heads[at].setAttribute("aria-sort", down ? "descending" : "ascending");
    order.selectedIndex = -1;
    const isRange = data.columns[at].kind === "range";
    const key = ([cells]) => {
      if (!isRange) return cells[at];
      if (cells[at] === null) return Infinity; // without a rating: as wide as can be
      const [low, high] = data.scales[cells[barAt]];
      return (cells[at][1] - cells[at][0]) / (high - low);
    };
    compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null); // what is not known comes last, either way
      return x === y ? 0 : sign * (x < y ? -1 : 1);
    };
    choose();
  }

  function bar(cells) {
    const [low, high] = data.scales[cells[barAt]];
    const at = (value) => `${((100 * (value - low)) / (high - low)).toFixed(2)}%`;
    const value = (mark) => (data.bar[mark] === null ? null : cells[data.bar[mark]]);
    const made = drawn("svg", { role: "img" });
    const line = (from, to, y1, y2, kind) => made.append(drawn("line", { x1: at(from), x2: at(to), y1, y2 }, kind));
    const title = drawn("title", {});
    const marks = ["tick", "thick", "thin", "ring"].filter((mark) => value(mark) !== null);
    const names = marks.map((mark) => {
      const { name, kind } = data.columns[data.bar[mark]];
      return `${name} ${written(value(mark), kind)}`;
    });
    title.textContent = `${names.join(", ")} on the scale from ${low} to ${high}`;
    made.append(title);
    line(low, high, 8, 8);
    for (const end of [low, high]) line(end, end, 4, 12);
    if (low < 0 && high > 0) line(0, 0, 0, 16, "zero");
    for (const mark of ["thin", "thick"]) if (value(mark)) line(...value(mark), 8, 8, mark);
    if (value("tick") !== null) line(value("tick"), value("tick"), 2, 14, "tick");
    const ring = value("ring");
    if (ring !== null && ring >= low && ring <= high) made.append(drawn("circle", { cx: at(ring), cy: 8, r: 4 }, "ring"));
    return made;
  }

  function draw() {
    const from = body.querySelectorAll("tr.row").length;
    for (const row of chosen.slice(from, visible)) body.append(line(row));
    more.hidden = visible >= chosen.length;
    const count = (number) => number.toLocaleString("en");
    shown.textContent = `${count(Math.min(visible, chosen.length))} of ${count(chosen.length)} rows shown` +
      (chosen.length < rows.length ? `, ${count(rows.length)} in all` : "");
  }

  function line(row) {
    const tr = element("tr", undefined, "row");
    data.columns.forEach(({ kind }, at) => {
      const cell = element("td", undefined, kind);
      const text = written(row[0][at], kind);
      if (at === 0) {
        const button = element("button", text);
        button.type = "button";
        button.title = text;
        button.setAttribute("aria-expanded", "false");
        // The button has the keyboard; its click comes by the row, which opens wherever it is clicked but for marking text.
        tr.addEventListener("click", () => { if (getSelection().isCollapsed) toggle(tr, button, row); });
        cell.append(button);
      } else if (kind === "bar") {
        cell.append(bar(row[0]));
      } else {
        cell.append(element("bdi", text));
        if (kind === "text") cell.title = text;
      }
      tr.append(cell);
    });
    return tr;
  }

  function toTheLetter(text) {
    const pre = element("pre", text);
    pre.dir = "auto";
    return pre;
  }

  async function opened([, , , place]) {
    const number = Math.floor(place / data.block);
    if (!blocks.has(number)) blocks.set(number, unpack(data.texts[number]));
    return (await blocks.get(number))[place % data.block];
  }

  function titled(heading, text) {
    const part = element("div");
    const pre = toTheLetter(text);
    pre.tabIndex = 0;
    part.append(element("h3", heading), pre);
    return part;
  }

  async function toggle(tr, button, row) {
    const next = tr.nextElementSibling;
    if (next && next.classList.contains("open")) {
      next.remove();
      button.setAttribute("aria-expanded", "false");
      return;
    }
    button.setAttribute("aria-expanded", "true");
    const made = element("tr", undefined, "open");
    const cell = element("td", "…");
    cell.colSpan = heads.length;
    made.append(cell);
    tr.after(made);
    const attribute = ([cells]) => (data.attribute === null ? "" : cells[data.attribute]);
    const others = row[4] < 0 ? [] : rows.filter((other) =>
      other[4] === row[4] && other[3] !== row[3] && attribute(other) === attribute(row)).sort((a, b) => a[3] - b[3]).slice(0, MOST_BESIDE);
    const [[said, answers], ...more] = await Promise.all([row, ...others].map(opened));
    const named = ([cells]) => `${cells[0]}: ${written(cells[data.bar.tick], "score")}`;
    const texts = element("div", undefined, "texts");
    const beside = element("div", undefined, "beside");
    const letter = (at) => (said.length > 2 ? ` ${"AB"[at]}` : others.length ? ` of ${named(row)}` : "");
    beside.append(
      ...said.slice(1).map((text, at) => titled("Response" + letter(at), text)),
      ...more.map(([[, text]], at) => titled(named(others[at]), text)));
    const judge = data.judges[view.value];
    const shownAnswers = answers.filter(([name, by]) =>
      (!attribute(row) || !name || name === attribute(row)) && (!judge || by === judge));
    const list = element("ol");
    for (const [, by, asked, rating, feedback] of shownAnswers) {
      const item = element("li");
      const who = [by, asked].filter(Boolean).join(" · ");
      item.append(element("b", (who ? who + ": " : "") + rating), toTheLetter(feedback));
      list.append(item);
    }
    texts.append(titled("Prompt", said[0]), beside,
      element("h3", shownAnswers.length ? "The judge’s answers" : "No answers"), list);
    cell.replaceChildren(texts);
  }

  heads.forEach((head, at) => head.querySelector("button").addEventListener("click", () => byColumn(at)));
  find.addEventListener("input", choose);
  view.addEventListener("change", choose);
  order.addEventListener("change", byOrder);
  more.addEventListener("click", () => { visible += STEP; draw(); });
  document.getElementById("choice").addEventListener("submit", (event) => event.preventDefault());
  view.append(...["all", ...data.views].map((name) => element("option", name)));
  order.append(...data.orders.map((name) => element("option", name)));
  unpack(data.rows).then((unpacked) => {
    rows = unpacked;
    byOrder();
  }, () => {
    shown.textContent = "This browser is too old for the table (it has no DecompressionStream); robin export has the same as CSV.";
  });
})();
