"use strict";
// Text of pairs and judges reaches the page by textContent alone: nothing in it is ever read as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const body = document.getElementById("rows");
  const find = document.getElementById("find");
  const view = document.getElementById("view");
  const order = document.getElementById("order");
  const shown = document.getElementById("shown");
  const more = document.getElementById("more");
  const heads = [...document.querySelectorAll("#pairs thead th")];
  const position = Object.fromEntries(data.columns.map((column, at) => [column.name, at]));
  const STEP = 100;
  const TESTS = {
    above: (value, limit) => value !== null && value > limit,
    below: (value, limit) => value !== null && value < limit,
    is: (value, wanted) => value === wanted,
    ends: (value, wanted) => value !== null && value.endsWith(wanted),
    isnt: (value, wanted) => value !== null && value !== wanted,
  };
  let rows = [];
  let chosen = [];
  let visible = STEP;
  let sorted = { columns: [], power: 0, down: true };
  const blocks = new Map();

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  function block(number) {
    if (!blocks.has(number)) blocks.set(number, unpack(data.texts[number]));
    return blocks.get(number);
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
    const wanted = data.views[view.selectedIndex - 1];
    const texts = data.columns.flatMap((column, at) => (["id", "text", "hidden"].includes(column.kind) ? [at] : []));
    chosen = rows.filter((row) => {
      if (wanted && !TESTS[wanted.test](row[position[wanted.column]], wanted.value)) return false;
      const text = texts.map((at) => row[at]).join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    if (sorted.columns.length) {
      const sign = sorted.down ? -1 : 1;
      const keys = new Map(chosen.map((row) => [row, key(row)]));
      chosen.sort((a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        if (x === null || y === null) return (x === null) - (y === null); // what is not known comes last, either way
        return x === y ? 0 : sign * (x < y ? -1 : 1);
      });
    }
    visible = STEP;
    body.replaceChildren();
    draw();
  }

  function key(row) {
    const [x, y] = sorted.columns.map((name) => row[position[name]]);
    if (data.columns[position[sorted.columns[0]]].kind === "range") {
      if (x === null) return sorted.unknown_last ? null : Infinity; // without a rating: as wide as can be
      return (x[1] - x[0]) / width(row);
    }
    if (y === undefined) return typeof x === "number" ? x / width(row) ** sorted.power : x;
    return x === null || y === null ? null : Math.abs(x - y) / width(row);
  }

  function scale(row) {
    return data.bar.scales[row[data.columns.findIndex((column) => column.kind === "bar")]];
  }

  function width(row) {
    const [low, high] = scale(row);
    return high - low;
  }

  function bar(row) {
    const [low, high] = scale(row);
    const at = (value) => `${((100 * (value - low)) / (high - low)).toFixed(2)}%`;
    const value = (name) => (name ? row[position[name]] : null);
    const made = drawn("svg", { role: "img" });
    const title = drawn("title", {});
    const names = ["tick", "thick", "thin", "ring"].map((mark) => data.bar[mark]).filter((name) => value(name) !== null);
    title.textContent = `${names.map((name) => `${name} ${written(value(name), data.columns[position[name]].kind)}`).join(", ")}` +
      ` on the scale from ${low} to ${high}`;
    made.append(title, drawn("line", { x1: "0%", x2: "100%", y1: 8, y2: 8 }));
    for (const end of [low, high]) made.append(drawn("line", { x1: at(end), x2: at(end), y1: 4, y2: 12 }));
    if (low < 0 && high > 0) made.append(drawn("line", { x1: at(0), x2: at(0), y1: 0, y2: 16 }, "zero"));
    for (const mark of ["thin", "thick"]) {
      const ends = value(data.bar[mark]);
      if (ends) made.append(drawn("line", { x1: at(ends[0]), x2: at(ends[1]), y1: 8, y2: 8 }, mark));
    }
    const [tick, ring] = [value(data.bar.tick), value(data.bar.ring)];
    if (tick !== null) made.append(drawn("line", { x1: at(tick), x2: at(tick), y1: 2, y2: 14 }, "tick"));
    if (ring !== null && ring >= low && ring <= high) made.append(drawn("circle", { cx: at(ring), cy: 8, r: 4 }, "ring"));
    return made;
  }

  function draw() {
    const from = body.querySelectorAll("tr.row").length;
    for (const row of chosen.slice(from, visible)) body.append(line(row));
    more.hidden = visible >= chosen.length;
    shown.textContent = `${Math.min(visible, chosen.length).toLocaleString("en")} of ${chosen.length.toLocaleString("en")} rows shown` +
      (chosen.length < rows.length ? `, ${rows.length.toLocaleString("en")} in all` : "");
  }

  function line(row) {
    const tr = element("tr", undefined, "row");
    data.columns.forEach((column, at) => {
      if (column.kind === "hidden") return;
      const cell = element("td", undefined, column.kind);
      const text = written(row[at], column.kind);
      if (at === 0) {
        const button = element("button", text);
        button.type = "button";
        button.title = text;
        button.setAttribute("aria-expanded", "false");
        // The button has the keyboard; its click comes by the row, which opens wherever it is clicked but for marking text.
        tr.addEventListener("click", () => { if (getSelection().isCollapsed) toggle(tr, button, row); });
        cell.append(button);
      } else if (column.kind === "bar") {
        cell.append(bar(row));
      } else {
        cell.append(element("bdi", text));
        if (column.kind === "text") cell.title = text;
      }
      tr.append(cell);
    });
    return tr;
  }

  async function toggle(tr, button, row) {
    const next = tr.nextElementSibling;
    if (next && next.classList.contains("open")) {
      next.remove();
      button.setAttribute("aria-expanded", "false");
      return;
    }
    button.setAttribute("aria-expanded", "true");
    const opened = element("tr", undefined, "open");
    const cell = element("td", "…");
    cell.colSpan = heads.length;
    opened.append(cell);
    tr.after(opened);
    const pair = row[row.length - 1];
    const [said, answers] = (await block(Math.floor(pair / data.block)))[pair % data.block];
    const attribute = position.attribute === undefined ? null : row[position.attribute];
    const mine = answers.filter((answer) => attribute === null || answer[0] === attribute);
    const texts = element("div", undefined, "texts");
    said.forEach((text, at) => {
      const pre = element("pre", text);
      pre.dir = "auto";
      pre.tabIndex = 0;
      texts.append(element("h3", data.headings[at]), pre);
    });
    const list = element("ol");
    for (const [, rating, reason, feedback, judge] of mine) {
      const item = element("li");
      item.append(element("b", (judge ? judge + ": " : "") + (rating === null ? reason : "Rating " + rating)));
      const pre = element("pre", feedback);
      pre.dir = "auto";
      item.append(pre);
      list.append(item);
    }
    texts.append(element("h3", mine.length ? "The judge’s answers" : "No answers"), list);
    cell.replaceChildren(texts);
  }

  function sort(next) {
    sorted = next;
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    if (sorted.columns.length === 1) {
      heads[position[sorted.columns[0]]].setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    }
    choose();
  }

  function sortByColumn(at) {
    const { name, kind } = data.columns[at];
    const column = kind === "bar" ? data.bar.thick || data.bar.thin : name;
    const again = sorted.columns.length === 1 && sorted.columns[0] === column;
    order.selectedIndex = -1;
    sort({ columns: [column], power: 0, down: again ? !sorted.down : !["id", "text"].includes(kind) });
  }

  heads.forEach((head, at) => head.querySelector("button").addEventListener("click", () => sortByColumn(at)));
  find.addEventListener("input", choose);
  view.addEventListener("change", choose);
  order.addEventListener("change", () => sort({ ...data.orders[order.selectedIndex], down: true }));
  more.addEventListener("click", () => { visible += STEP; draw(); });
  document.getElementById("choice").addEventListener("submit", (event) => event.preventDefault());
  view.append(element("option", "all"), ...data.views.map((each) => element("option", each.name)));
  order.append(...data.orders.map((each) => element("option", each.name)));
  unpack(data.rows).then((unpacked) => {
    rows = unpacked;
    sort({ ...data.orders[0], down: true });
  }, () => {
    shown.textContent = "This browser is too old for the table (it has no DecompressionStream); robin export has the same as CSV.";
  });
})();
