// The restore timeline: boot phases above, below them a bar for each endpoint.

import { drawBar, legend, ticks } from "./bars.js";
import { badge } from "./badges.js";
import { canvasContext, choice, h, put, say, segments, token } from "./dom.js";
import { PHASES, restores, sums } from "./phases.js";
import { Rows } from "./rows.js";
import { count, many, offset, span } from "./words.js";

const ORDERS = [["id", "number"], ["from", "begin"], ["till", "ready first"], ["slow", "slowest"]];
const HEIGHTS = { fit: 0, compact: 6, wide: 20 };

const COLUMNS = [
  { title: "Endpoint", width: "90px" },
  { title: "Outcome", width: "130px" },
  { title: "Begin", width: "130px", numeric: true },
  { title: "Took", width: "84px", numeric: true },
  ...PHASES.map((phase) => ({ title: phase.title, width: "84px", numeric: true })),
];

export class RestoreView {
  constructor(app) {
    this.app = app;
    this.order = "id";
    this.size = "fit";
    this.mode = "picture";
    this.active = 0;
    this.list = [];
    this.summary = h("p");
    this.phases = h("div", { class: "boot" });
    this.legend = h("div");
    this.axis = h("canvas", { class: "axis", "aria-hidden": "true" });
    this.canvas = h("canvas", { class: "bars", "aria-hidden": "true" });
    this.space = h("div", { class: "space" });
    this.detail = h("p", { class: "detail", "aria-live": "polite" });
    this.scroll = h("div", {
      class: "picture", tabindex: 0, role: "application", "aria-roledescription": "timeline",
      "aria-label": "Restore timeline, a bar for each endpoint: arrow keys go from one to the next, Enter opens it. The table shows the same.",
      on: {
        scroll: () => this.draw(),
        keydown: (event) => this.key(event),
        mousemove: (event) => this.point(event),
        click: (event) => { this.point(event); this.open(); },
      },
    }, this.space, this.canvas);
    new ResizeObserver(() => this.draw()).observe(this.scroll);
    this.table = new Rows({
      label: "Endpoints of this restart", columns: COLUMNS,
      cells: (index) => this.cells(this.list[index]),
      open: (index) => { this.active = index; this.open(); },
      empty: "No endpoint was born in this record.",
    });
    this.picture = h("div", { class: "picture-frame" }, this.axis, this.scroll, this.detail);
    this.element = h("section", { class: "view", "aria-labelledby": "restore-title" },
      h("div", { class: "top" },
        h("div", { class: "say" }, h("h1", { id: "restore-title" }, "Restore"), this.summary),
        h("div", { class: "tools" },
          segments("Form", [["picture", "Picture"], ["table", "Table"]], this.mode, (mode) => { this.mode = mode; this.update(); }),
          segments("Height of bars", [["fit", "Fit"], ["compact", "Small"], ["wide", "Tall"]], this.size, (size) => { this.size = size; this.draw(); }),
          choice("Order", ORDERS, this.order, (order) => { this.order = order; this.update(); }))),
      this.phases, this.legend, this.picture, this.table.element);
  }

  show() {
    this.update();
  }

  /** Once all are ready, what follows live changes nothing of how they became so. */
  isSettled() {
    const { flight, time } = this.app;
    const key = `${flight.life.number} ${flight.cells.size} ${this.order} ${this.mode} ${document.documentElement.dataset.theme}`;
    const settled = time.following && this.of === flight && this.key === key && this.list.length > 0 && this.list.every((one) => one.ready);
    [this.of, this.key] = [flight, key];
    return settled;
  }

  update() {
    const { flight, moment } = this.app;
    if (this.isSettled()) return this.mode === "picture" ? this.draw() : undefined;
    this.list = this.sorted(restores(flight, moment.at));
    const phases = flight.phases.filter((phase) => phase.started <= moment.at);
    const starts = [...phases.map((phase) => phase.started), ...this.list.map((one) => one.from)];
    // Pods that came later than the restart have bars too, but do not stretch the axis of a restart.
    const restored = this.list.filter((one) => one.restored);
    const ends = (restored.length ? restored : this.list).map((one) => one.till);
    this.from = Math.min(...starts, flight.begin);
    this.till = Math.max(this.from + 1, ...phases.map((phase) => phase.ended), ...ends);
    if (restored.length) this.list = this.list.filter((one) => one.from <= this.till);
    const ready = this.list.filter((one) => one.ready).length;
    const slowest = this.list.reduce((slow, one) => (!slow || one.till - one.from > slow.till - slow.from ? one : slow), undefined);
    const old = flight.endpoints().filter((cell) => !cell.restore && !flight.knowsBirth(cell)).length;
    const overwritten = old ? ` How ${many(old, "endpoint")} began is overwritten.` : "";
    say(this.summary, (this.list.length
      ? `${count(ready)} of ${many(this.list.length, "endpoint")} ready ${span(this.till - this.from)} after the start. ` +
        `The slowest is endpoint ${slowest.id}: ${span(slowest.till - slowest.from)}.`
      : "No endpoint was born in this record.") + overwritten);
    this.boot(phases);
    const occurring = new Set();
    for (const one of this.list) for (const piece of one.pieces) occurring.add(piece.phase);
    put(this.legend, legend(occurring));
    this.picture.hidden = this.mode !== "picture" || !this.list.length;
    this.table.element.hidden = this.mode !== "table" && this.list.length > 0;
    if (this.mode === "table" || !this.list.length) this.table.update(this.list.length);
    else this.draw();
  }

  sorted(list) {
    const by = {
      id: (a, b) => a.id - b.id,
      from: (a, b) => a.from - b.from,
      till: (a, b) => a.till - b.till,
      slow: (a, b) => b.till - b.from - (a.till - a.from),
    }[this.order];
    return list.sort(by);
  }

  boot(phases) {
    const scale = 100 / (this.till - this.from);
    put(this.phases, phases.length ? h("h2", {}, "Boot") : "", h("ol", { class: "boot-list" }, phases.map((phase) => h("li", {},
      h("span", { class: "boot-name" }, phase.name),
      h("span", { class: "boot-track" }, h("span", {
        class: "boot-bar",
        style: { left: `${(phase.started - this.from) * scale}%`, width: `${Math.max(0.3, (phase.ended - phase.started) * scale)}%` },
      })),
      h("span", { class: "numeric" }, span(phase.ended - phase.started))))));
  }

  get rowHeight() {
    if (this.size !== "fit") return HEIGHTS[this.size];
    return Math.min(20, Math.max(0.3, (this.scroll.clientHeight - 2) / Math.max(1, this.list.length)));
  }

  draw() {
    if (this.picture.hidden || !this.list.length || !this.scroll.clientWidth) return;
    const { clientWidth: width, clientHeight: height, scrollTop } = this.scroll;
    const row = this.rowHeight;
    this.space.style.height = `${Math.ceil(this.list.length * row)}px`;
    const context = canvasContext(this.canvas, width, height);
    const [left, right] = this.sides(width);
    const length = this.till - this.from;
    const x = (at) => left + (at / length) * (right - left);
    this.drawAxis(width, length, x);
    context.strokeStyle = token("--line");
    context.beginPath();
    for (const at of ticks(length, (right - left) / 110)) {
      context.moveTo(Math.round(x(at)) + 0.5, 0);
      context.lineTo(Math.round(x(at)) + 0.5, height);
    }
    context.stroke();
    context.font = `11px ${token("--font")}`;
    context.textBaseline = "middle";
    const first = Math.max(0, Math.floor(scrollTop / row));
    const last = Math.min(this.list.length - 1, Math.ceil((scrollTop + height) / row));
    for (let i = first; i <= last; i += 1) {
      const top = i * row - scrollTop;
      if (i === this.active) {
        context.fillStyle = token("--accent-ground");
        context.fillRect(0, top, width, Math.max(row, 3));
      }
      const gap = row >= 12 ? 3 : row >= 4 ? 1 : 0;
      drawBar(context, this.list[i], { top: top + gap, height: row - 2 * gap, left, right, from: this.from, till: this.till });
      if (row >= 12) {
        context.fillStyle = token("--ink");
        context.fillText(String(this.list[i].id), 4, top + row / 2);
      }
    }
    this.tell();
  }

  sides(width) {
    return [46, width - 14];
  }

  drawAxis(width, length, x) {
    const context = canvasContext(this.axis, width, 20);
    context.fillStyle = token("--ink-soft");
    context.font = `11px ${token("--font")}`;
    context.textBaseline = "middle";
    for (const at of ticks(length, width / 110)) {
      const text = at ? span(at) : "0";
      const wide = context.measureText(text).width;
      context.fillText(text, Math.min(x(at) - wide / 2, width - wide - 2), 10);
    }
  }

  /** Says of the active bar what its colours show. */
  tell() {
    const one = this.list[this.active];
    if (!one) return say(this.detail, "");
    const parts = Object.entries(sums(one)).sort((a, b) => b[1] - a[1])
      .map(([phase, took]) => `${PHASES.find((known) => known.id === phase).title} ${span(took)}`);
    const end = one.ready ? `ready after ${span(one.till - one.from)}` : `not ready after ${span(one.till - one.from)}`;
    say(this.detail, `Endpoint ${one.id}: begins at ${offset(one.from - this.from)}, ${end}: ${parts.join(", ")}.`);
  }

  point(event) {
    const top = event.clientY - this.scroll.getBoundingClientRect().top + this.scroll.scrollTop;
    const index = Math.floor(top / this.rowHeight);
    if (index === this.active || index < 0 || index >= this.list.length) return;
    this.active = index;
    this.draw();
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Enter") this.open();
    else if (step === undefined) return;
    else {
      this.active = Math.max(0, Math.min(this.list.length - 1, this.active + step));
      const [top, row] = [this.active * this.rowHeight, this.rowHeight];
      if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
      if (top + row > this.scroll.scrollTop + this.scroll.clientHeight) this.scroll.scrollTop = top + row - this.scroll.clientHeight;
      this.draw();
    }
    event.preventDefault();
  }

  open() {
    const one = this.list[this.active];
    if (one) this.app.go(`#/endpoints/${one.id}`);
  }

  cells(one) {
    const sum = sums(one);
    return [
      String(one.id), badge(one.ready ? "ready" : this.app.moment.stateOf(one.cell, this.app.flight)),
      offset(one.from - this.from), span(one.till - one.from),
      ...PHASES.map((phase) => (sum[phase.id] ? span(sum[phase.id]) : "")),
    ];
  }
}
