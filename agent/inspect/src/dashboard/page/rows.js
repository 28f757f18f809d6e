// A table of any length of which only the rows in sight exist.

import { h, put } from "./dom.js";

let numbered = 0;

export class Rows {
  /**
   * `columns`: { title, width, numeric } each; `cells(index)`: what stands in a row, one for each
   * column; `open(index)`: Enter or a click; `key(event, index)`: other keys, true if it was used.
   */
  constructor({ label, columns, height = 32, role = "grid", cells, open, move, key, decorate, empty }) {
    Object.assign(this, { columns, height, cells, open, move, key, decorate, empty: empty ?? "Nothing to show." });
    this.count = 0;
    this.active = -1;
    this.id = `rows-${(numbered += 1)}`;
    this.head = h("div", { class: "row head", role: "row", "aria-rowindex": 1 },
      columns.map((column) => h("div", { role: "columnheader", class: column.numeric ? "numeric" : "" }, column.title)));
    this.body = h("div", { class: "rows-body", role: "rowgroup" });
    this.note = h("p", { class: "empty", hidden: true });
    this.element = h("div", {
      class: "rows", role, tabindex: 0, "aria-label": label, "aria-colcount": columns.length,
      style: { "--columns": columns.map((column) => column.width).join(" "), "--row": `${height}px` },
      on: {
        scroll: () => this.schedule(),
        keydown: (event) => this.pressed(event),
        click: (event) => this.clicked(event),
      },
    }, this.head, this.note, this.body);
    this.shown = new Map();
    new ResizeObserver(() => this.schedule()).observe(this.element);
  }

  /** Another number of rows, or other contents: what is in sight is made anew. */
  update(count) {
    this.count = count;
    if (this.active >= count) this.active = count - 1;
    this.element.setAttribute("aria-rowcount", String(count + 1));
    this.body.style.height = `${count * this.height}px`;
    this.note.hidden = count > 0;
    if (count === 0) put(this.note, this.empty);
    this.draw(true);
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.draw(false);
    });
  }

  draw(anew) {
    const head = this.head.offsetHeight;
    const from = Math.max(0, Math.floor((this.element.scrollTop - head) / this.height) - 4);
    const till = Math.min(this.count, from + Math.ceil((this.element.clientHeight || 600) / this.height) + 9);
    if (anew) this.shown.clear();
    const wanted = new Map();
    for (let i = from; i < till; i += 1) wanted.set(i, this.shown.get(i) ?? this.row(i));
    this.shown = wanted;
    this.body.replaceChildren(...wanted.values());
    this.mark();
  }

  row(index) {
    const row = h("div", {
      class: "row", role: "row", id: `${this.id}-${index}`, "aria-rowindex": index + 2, "data-index": index,
      style: { top: `${index * this.height}px` },
    }, this.cells(index).map((cell, column) => h("div", {
      role: column === 0 && this.element.getAttribute("role") === "treegrid" ? "rowheader" : "gridcell",
      class: this.columns[column].numeric ? "numeric" : "",
      "data-title": this.columns[column].title,
    }, cell)));
    // One stop for the whole list: rows come and go, and would take the focus with them.
    for (const inner of row.querySelectorAll("a, button")) inner.tabIndex = -1;
    this.decorate?.(row, index);
    return row;
  }

  mark() {
    const row = this.shown.get(this.active);
    for (const [index, other] of this.shown) other.setAttribute("aria-selected", String(index === this.active));
    if (row) this.element.setAttribute("aria-activedescendant", row.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /** Makes a row the active one and brings it into sight. */
  select(index, tell = false) {
    if (!this.count) return;
    this.active = Math.max(0, Math.min(this.count - 1, index));
    const [top, head] = [this.active * this.height, this.head.offsetHeight];
    const view = this.element;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + this.height + head > view.scrollTop + view.clientHeight) {
      view.scrollTop = top + this.height + head - view.clientHeight;
    }
    this.draw(false);
    if (tell) this.move?.(this.active);
  }

  pressed(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in steps) this.select(this.active < 0 ? 0 : this.active + steps[event.key], true);
    else if (event.key === "Home") this.select(0, true);
    else if (event.key === "End") this.select(this.count - 1, true);
    else if (event.key === "Enter" && this.open && this.active >= 0) this.open(this.active);
    else if (!(this.active >= 0 && this.key?.(event, this.active))) return;
    event.preventDefault();
    event.stopPropagation();
  }

  clicked(event) {
    const row = event.target.closest("[data-index]");
    if (!row || event.target.closest("button, a")) return;
    this.active = Number(row.dataset.index);
    this.mark();
    this.move?.(this.active);
    this.open?.(this.active);
  }
}
