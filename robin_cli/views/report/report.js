"use strict";
// Text of pairs and judges reaches the page by textContent alone: nothing in it is ever read as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const body = document.getElementById("rows");
  const find = document.getElementById("find");
  const view = document.getElementById("view");
  const shown = document.getElementById("shown");
  const more = document.getElementById("more");
  const heads = [...document.querySelectorAll("thead th")];
  const position = Object.fromEntries(data.columns.map((column, at) => [column.name, at]));
  const STEP = 100;
  const TESTS = {
    above: (value, limit) => value !== null && value > limit,
    below: (value, limit) => value !== null && value < limit,
    is: (value, wanted) => value === wanted,
    isnt: (value, wanted) => value !== null && value !== wanted,
  };
  let rows = [];
  let chosen = [];
  let visible = STEP;
  let order = { column: -1, down: false };
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

  function written(value, kind) {
    if (value === null || value === "") return "–";
    if (kind === "score" || kind === "interval") return value.toFixed(2);
    if (kind === "difference") return (value > 0 ? "+" : "") + value.toFixed(2);
    return typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: 2 }) : value;
  }

  function choose() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = data.views[view.selectedIndex - 1];
    const texts = data.columns.flatMap((column, at) => (column.kind === "id" || column.kind === "text" ? [at] : []));
    chosen = rows.filter((row) => {
      if (wanted && !TESTS[wanted.test](row[position[wanted.column]], wanted.value)) return false;
      const text = texts.map((at) => row[at]).join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    if (order.column >= 0) {
      const at = order.column;
      const sign = order.down ? -1 : 1;
      chosen.sort((a, b) => {
        const [x, y] = [a[at], b[at]];
        if (x === null || y === null) return (x === null) - (y === null); // what is not known comes last, either way
        return sign * (typeof x === "number" ? x - y : x < y ? -1 : x > y ? 1 : 0);
      });
    }
    visible = STEP;
    body.replaceChildren();
    draw();
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
      const cell = element("td", undefined, column.kind);
      const text = written(row[at], column.kind);
      if (at === 0) {
        const button = element("button", text);
        button.type = "button";
        button.title = text;
        button.setAttribute("aria-expanded", "false");
        button.addEventListener("click", () => toggle(tr, button, row));
        cell.append(button);
      } else {
        cell.append(element("bdi", text));
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
    cell.colSpan = data.columns.length;
    opened.append(cell);
    tr.after(opened);
    const pair = row[row.length - 1];
    const [prompt, response, answers] = (await block(Math.floor(pair / data.block)))[pair % data.block];
    const attribute = position.attribute === undefined ? null : row[position.attribute];
    const mine = answers.filter((answer) => attribute === null || answer[0] === attribute);
    const texts = element("div", undefined, "texts");
    for (const [name, text] of [["Prompt", prompt], ["Response", response]]) {
      const pre = element("pre", text);
      pre.dir = "auto";
      pre.tabIndex = 0;
      texts.append(element("h3", name), pre);
    }
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

  function sort(at) {
    const numbers = !["id", "text"].includes(data.columns[at].kind);
    order = { column: at, down: order.column === at ? !order.down : numbers };
    heads.forEach((head, number) => head.removeAttribute("aria-sort"));
    heads[at].setAttribute("aria-sort", order.down ? "descending" : "ascending");
    choose();
  }

  heads.forEach((head, at) => head.querySelector("button").addEventListener("click", () => sort(at)));
  find.addEventListener("input", choose);
  view.addEventListener("change", choose);
  more.addEventListener("click", () => { visible += STEP; draw(); });
  document.getElementById("choice").addEventListener("submit", (event) => event.preventDefault());
  view.append(element("option", "all"), ...data.views.map((each) => element("option", each.name)));
  unpack(data.rows).then((unpacked) => { rows = unpacked; choose(); }, () => {
    shown.textContent = "This browser is too old for the table (it has no DecompressionStream); robin export has the same as CSV.";
  });
})();
