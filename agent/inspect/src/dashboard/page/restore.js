// The restore timeline: boot phases above, below them a bar for each endpoint, from where something happens.

import { drawBar, legend, ticks } from "./bars.js";
import { badge } from "./badges.js";
import { canvasContext, choice, h, put, say, segments, token } from "./dom.js";
import { PHASES, restores, sums } from "./phases.js";
import { endpointPage, told } from "./link.js";
import { Rows } from "./rows.js";
import { byName, count, many, span } from "./words.js";

const ORDERS = [["pod", "pod"], ["id", "number"], ["from", "begin"], ["till", "ready first"], ["slow", "slowest"]];
const HEIGHTS = { fit: 0, compact: 6, wide: 20 };
/** Height of a label, and its width at most, pixels. */
const LABEL = 13;
const LABEL_WIDTH = 210;
/** A stretch that is shorter is a click, pixels. */
const DRAG_MIN = 6;

const COLUMNS = [
  { title: "Pod", width: "minmax(120px, 1fr)" },
  { title: "Outcome", width: "130px" },
  { title: "Begin", width: "130px", numeric: true },
  { title: "Took", width: "84px", numeric: true },
  ...PHASES.map((phase) => ({ title: phase.title, width: "84px", numeric: true })),
];

export class RestoreView {
  constructor(app) {
    this.app = app;
    this.order = "pod";
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
      "aria-label": "Restore timeline, a bar for each endpoint: arrow keys go from one to the next, Enter opens it, + and − zoom. The table shows the same.",
      on: {
        scroll: () => this.draw(),
        keydown: (event) => this.key(event),
        mousemove: (event) => this.point(event),
        pointerdown: (event) => this.dragged(event, "down"),
        pointermove: (event) => this.dragged(event, "move"),
        pointerup: (event) => this.dragged(event, "up"),
        pointercancel: () => { this.drag = undefined; },
      },
    }, this.space, this.canvas);
    new ResizeObserver(() => this.draw()).observe(this.scroll);
    this.table = new Rows({
      label: "Endpoints of this restart", columns: COLUMNS,
      cells: (index) => this.cells(this.list[index]),
      open: (index) => { this.active = index; this.open(); },
      empty: "No endpoint was born in this record.",
    });
    this.orders = choice("Order", ORDERS, this.order, (order) => { this.order = order; this.update(); app.noted(); });
    this.picture = h("div", { class: "picture-frame" }, this.axis, this.scroll, this.detail);
    this.element = h("section", { class: "view", "aria-labelledby": "restore-title" },
      h("div", { class: "top" },
        h("div", { class: "say" }, h("h1", { id: "restore-title" }, "Restore"), this.summary),
        h("div", { class: "tools" },
          segments("Form", [["picture", "Picture"], ["table", "Table"]], this.mode, (mode) => { this.mode = mode; this.update(); app.noted(); }),
          segments("Height of bars", [["fit", "Fit"], ["compact", "Small"], ["wide", "Tall"]], this.size, (size) => { this.size = size; this.draw(); }),
          this.orders)),
      this.phases, this.legend, this.picture, this.table.element);
  }

  show(_, query) {
    this.order = told(query, "order", "pod", this.order);
    this.orders.querySelector("select").value = this.order;
    const mode = told(query, "form", "picture", this.mode);
    if (mode !== this.mode && ["picture", "table"].includes(mode)) this.element.querySelectorAll(".segments button")[mode === "table" ? 1 : 0].click();
    this.update();
  }

  link() {
    return { order: this.order === "pod" ? "" : this.order, form: this.mode === "picture" ? "" : this.mode };
  }

  /** Once all are ready, what follows live changes nothing of how they became so. */
  isSettled() {
    const { flight, time } = this.app;
    const key = `${flight.life.number} ${flight.cells.size} ${this.order} ${this.mode} ${flight.clockwise} ${JSON.stringify(time.range)} ${document.documentElement.dataset.theme}`;
    const settled = time.following && this.of === flight && this.settled === key && this.list.length > 0 && this.list.every((one) => one.ready);
    [this.of, this.settled] = [flight, key];
    return settled;
  }

  update() {
    const { flight, moment } = this.app;
    if (this.isSettled()) return this.mode === "picture" ? this.draw() : undefined;
    this.list = this.sorted(restores(flight, moment.at));
    const phases = flight.phases.filter((phase) => phase.started <= moment.at);
    // Pods that came later than the restart have bars too, but do not stretch the axis of a restart.
    const restored = this.list.filter((one) => one.restored);
    const ends = (restored.length ? restored : this.list).map((one) => one.till);
    const { range } = this.app.time;
    const births = (restored.length ? restored : this.list).map((one) => one.from);
    // Where nothing happens yet, there is nothing to see.
    this.from = range?.from ?? (births.length ? Math.min(...births) : flight.begin);
    this.till = Math.max(this.from + 1, range?.till ?? Math.max(...ends, ...(births.length ? [] : phases.map((phase) => phase.ended))));
    const last = Math.max(this.from, ...ends);
    if (restored.length && !range) this.list = this.list.filter((one) => one.from <= this.till);
    const ready = this.list.filter((one) => one.ready).length;
    const slowest = this.list.reduce((slow, one) => (!slow || one.till - one.from > slow.till - slow.from ? one : slow), undefined);
    const old = flight.endpoints().filter((cell) => !cell.restore && !flight.knowsBirth(cell)).length;
    const overwritten = old ? ` How ${many(old, "endpoint")} began is overwritten.` : "";
    say(this.summary, (this.list.length
      ? `${count(ready)} of ${many(this.list.length, "endpoint")} ready ${span(last - flight.begin)} after the start. ` +
        `The slowest is ${slowest.cell.title}: ${span(slowest.till - slowest.from)}. The picture begins at ${flight.at(this.from)}.`
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
      pod: (a, b) => byName(a.cell.pod, b.cell.pod) || a.id - b.id,
      id: (a, b) => a.id - b.id,
      from: (a, b) => a.from - b.from,
      till: (a, b) => a.till - b.till,
      slow: (a, b) => b.till - b.from - (a.till - a.from),
    }[this.order];
    return list.sort(by);
  }

  boot(phases) {
    const from = Math.min(...phases.map((phase) => phase.started));
    const scale = 100 / Math.max(1, Math.max(...phases.map((phase) => phase.ended)) - from);
    put(this.phases, phases.length ? h("h2", {}, "Boot") : "", h("ol", { class: "boot-list" }, phases.map((phase) => h("li", {},
      h("span", { class: "boot-name" }, phase.name),
      h("span", { class: "boot-track" }, h("span", {
        class: "boot-bar",
        style: { left: `${(phase.started - from) * scale}%`, width: `${Math.max(0.3, (phase.ended - phase.started) * scale)}%` },
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
    const steps = ticks(length, (right - left) / 110);
    this.drawAxis(width, steps, x);
    context.strokeStyle = token("--line");
    context.beginPath();
    for (const at of steps) {
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
      context.save();
      context.beginPath();
      context.rect(left - 3, 0, right - left + 8, height);
      context.clip();
      drawBar(context, this.list[i], { top: top + gap, height: row - 2 * gap, left, right, from: this.from, till: this.till });
      context.restore();
    }
    // Where bars are lower than their labels, some have one.
    const every = Math.max(1, Math.ceil(LABEL / row));
    for (let i = first; i <= last; i += 1) {
      if (i % every === 0) this.label(context, i, i * row - scrollTop + Math.max(row, LABEL) / 2, left);
    }
    this.selection(context, height);
    this.tell();
  }

  /** The name of a bar, as far as there is room. */
  label(context, index, y, left) {
    context.fillStyle = token(index === this.active ? "--accent" : "--ink");
    let text = this.list[index].cell.pod ?? String(this.list[index].id);
    if (context.measureText(text).width > left - 10) {
      while (text.length > 1 && context.measureText(`${text}…`).width > left - 10) text = text.slice(0, -1);
      text += "…";
    }
    context.fillText(text, 4, y);
  }

  /** What is being dragged over. */
  selection(context, height) {
    if (!this.drag || Math.abs(this.drag.till - this.drag.from) < DRAG_MIN) return;
    context.globalAlpha = 0.3;
    context.fillStyle = token("--focus");
    context.fillRect(Math.min(this.drag.from, this.drag.till), 0, Math.abs(this.drag.till - this.drag.from), height);
    context.globalAlpha = 1;
  }

  /** From where to where bars are drawn: names of pods need room, and leave most of it. */
  sides(width) {
    const longest = this.list.reduce((most, one) => Math.max(most, (one.cell.pod ?? String(one.id)).length), 0);
    return [Math.round(Math.min(LABEL_WIDTH, width * 0.3, 16 + longest * 6.2)), width - 14];
  }

  /** Dragging zooms into a stretch of time; a click opens an endpoint. */
  dragged(event, what) {
    const x = event.clientX - this.scroll.getBoundingClientRect().left;
    if (what === "down" && event.button === 0 && event.pointerType !== "touch") {
      this.scroll.setPointerCapture(event.pointerId);
      this.drag = { from: x, till: x };
    } else if (what === "down") this.drag = undefined;
    if (this.drag) this.drag.till = x;
    if (what === "move" && this.drag) return this.draw();
    if (what !== "up") return;
    const [a, b] = this.drag ? [this.drag.from, this.drag.till].sort((p, q) => p - q) : [x, x];
    this.drag = undefined;
    if (b - a < DRAG_MIN) {
      this.point(event);
      return this.open();
    }
    const [left, right] = this.sides(this.scroll.clientWidth);
    const time = (at) => this.from + (Math.max(0, Math.min(1, (at - left) / (right - left))) * (this.till - this.from));
    this.app.time.zoom({ from: time(a), till: time(b) });
  }

  drawAxis(width, steps, x) {
    const context = canvasContext(this.axis, width, 20);
    context.fillStyle = token("--ink-soft");
    context.font = `11px ${token("--font")}`;
    context.textBaseline = "middle";
    for (const at of steps) {
      const text = at ? `+${span(at)}` : "0";
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
    say(this.detail, `${one.cell.title}${one.cell.pod ? `, endpoint ${one.id}` : ""}: begins at ${this.app.flight.at(one.from)}, ${end}: ${parts.join(", ")}.`);
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
    if (one) this.app.go(endpointPage(one.cell));
  }

  cells(one) {
    const sum = sums(one);
    return [
      one.cell.title, badge(one.ready ? "ready" : this.app.moment.stateOf(one.cell, this.app.flight)),
      this.app.flight.at(one.from), span(one.till - one.from),
      ...PHASES.map((phase) => (sum[phase.id] ? span(sum[phase.id]) : "")),
    ];
  }
}
