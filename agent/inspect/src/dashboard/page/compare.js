// Two lives or runs side by side: figures, bars, and where they begin to differ.

import { drawBar, ticks } from "./bars.js";
import { canvasContext, choice, h, put, say, token } from "./dom.js";
import { endpointPage } from "./link.js";
import { restores } from "./phases.js";
import { load } from "./source.js";
import { count, offset, sentence, span } from "./words.js";

export class CompareView {
  constructor(app) {
    this.app = app;
    this.flights = new Map();
    this.sides = [undefined, undefined];
    this.summary = h("p");
    this.choices = h("div", { class: "tools" });
    this.result = h("div", { class: "compare" });
    this.element = h("section", { class: "view", "aria-labelledby": "compare-title" },
      h("div", { class: "top" },
        h("div", { class: "say" }, h("h1", { id: "compare-title" }, "Compare"), this.summary), this.choices),
      this.result);
    new ResizeObserver(() => this.draw()).observe(this.result);
  }

  show() {
    const { lives, lifeId } = this.app;
    const other = lives.find((life) => life.id !== lifeId) ?? lives[0];
    this.sides[1] ??= lifeId;
    this.sides[0] ??= other.id;
    const options = lives.map((life) => [life.id, life.name]);
    const pick = (place, label) => choice(label, options, this.sides[place], (id) => { this.sides[place] = id; this.load(); });
    put(this.choices, pick(0, "Left"), pick(1, "Right"));
    this.load();
  }

  /** What is compared does not change while it is looked at; a running life is compared as it was then. */
  update() {
    if (this.theme !== document.documentElement.dataset.theme) this.draw();
  }

  async load() {
    const wanted = this.sides.join(" ");
    this.wanted = wanted;
    say(this.summary, "Reading …");
    try {
      const flights = [];
      for (const id of this.sides) flights.push(id === this.app.lifeId ? this.app.flight : await this.read(id));
      if (this.wanted !== wanted) return;
      this.compare(...flights);
    } catch (error) {
      say(this.summary, error.message);
      put(this.result);
    }
  }

  async read(id) {
    const life = this.app.lives.find((one) => one.id === id);
    if (!life?.live && this.flights.has(id)) return this.flights.get(id);
    const flight = await load(id);
    this.flights.set(id, flight);
    return flight;
  }

  compare(left, right) {
    this.pair = [left, right].map((flight) => ({ flight, restores: restores(flight, flight.end), figures: figures(flight) }));
    const [a, b] = this.pair;
    const differing = divergence(left, right);
    say(this.summary, differing.text);
    const rows = Object.keys(a.figures).map((name) => {
      const [x, y] = [a.figures[name], b.figures[name]];
      return h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "numeric" }, x.text), h("td", { class: "numeric" }, y.text), h("td", { class: "numeric" }, change(x, y)));
    });
    this.canvases = [0, 1].map(() => h("canvas", { "aria-hidden": "true" }));
    put(this.result,
      h("div", { class: "panel scroll-x" }, h("table", { class: "figures" },
        h("thead", {}, h("tr", {}, ["Figure", "Left", "Right", "Change"].map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, rows))),
      h("div", { class: "pair" }, this.canvases.map((canvas, place) => h("figure", { class: "panel" },
        h("figcaption", {}, `${place ? "Right" : "Left"}: endpoints by number, the same scale`), canvas))),
      this.slower(a, b), differing.element);
    this.draw();
  }

  /** Endpoints whose time to ready differs most. */
  slower(a, b) {
    const took = (side) => new Map(side.restores.filter((one) => one.ready).map((one) => [one.id, one.till - one.from]));
    const [x, y] = [took(a), took(b)];
    const both = [...x.keys()].filter((id) => y.has(id)).map((id) => ({ id, cell: b.flight.endpointCell(id), x: x.get(id), y: y.get(id) }));
    both.sort((p, q) => Math.abs(q.y - q.x) - Math.abs(p.y - p.x));
    const rows = both.slice(0, 12).map((one) => h("tr", {},
      h("th", { scope: "row" }, h("a", { href: endpointPage(one.cell) }, one.cell.title)),
      h("td", { class: "numeric" }, span(one.x)), h("td", { class: "numeric" }, span(one.y)),
      h("td", { class: "numeric" }, change({ value: one.x }, { value: one.y }))));
    if (!rows.length) return "";
    return h("div", { class: "panel scroll-x" }, h("h2", {}, "Endpoints that differ most, birth to ready"),
      h("table", { class: "figures" }, h("thead", {}, h("tr", {}, ["Pod", "Left", "Right", "Change"].map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, rows)));
  }

  draw() {
    if (!this.pair || !this.canvases?.[0].isConnected) return;
    this.theme = document.documentElement.dataset.theme;
    const length = Math.max(1, ...this.pair.map(({ flight, restores: all }) => Math.max(0, ...all.filter((one) => one.restored || all.every((other) => !other.restored)).map((one) => one.till - flight.begin))));
    this.pair.forEach(({ flight, restores: all }, place) => {
      const canvas = this.canvases[place];
      const [width, height] = [Math.max(160, canvas.parentElement.clientWidth - 34), 220];
      const context = canvasContext(canvas, width, height);
      const sorted = [...all].sort((a, b) => a.id - b.id);
      const row = Math.min(14, (height - 18) / Math.max(1, sorted.length));
      sorted.forEach((one, index) => drawBar(context, one, {
        top: index * row, height: Math.max(0.8, row - (row > 5 ? 2 : 0)), left: 0, right: width - 6, from: flight.begin, till: flight.begin + length,
      }));
      context.fillStyle = token("--ink-soft");
      context.font = `11px ${token("--font")}`;
      for (const at of ticks(length, width / 90)) context.fillText(at ? span(at) : "0", Math.min((at / length) * width, width - 44), height - 3);
    });
  }
}

/** What can be compared of two lives, by name. */
function figures(flight) {
  const kinds = { messages: 0, crashes: flight.crashes.length, writes: 0, failed: 0, longest: 0, busiest: 0 };
  for (const event of flight.events) {
    if (event.record === "message") {
      kinds.messages += 1;
      kinds.longest = Math.max(kinds.longest, event.started - event.enqueued);
      kinds.busiest = Math.max(kinds.busiest, event.ended - event.started);
    } else if (event.record === "kernel") {
      if (event.write) kinds.writes += 1;
      if (event.failed) kinds.failed += 1;
    }
  }
  const all = restores(flight, flight.end);
  const restored = all.filter((one) => one.restored);
  const ready = restored.filter((one) => one.ready);
  const took = (list) => ({ value: list.length ? Math.max(...list) : undefined, text: list.length ? span(Math.max(...list)) : "–" });
  const number = (value) => ({ value, text: count(value) });
  const table = {};
  for (const phase of flight.phases) table[`boot: ${phase.name}`] = { value: phase.ended - phase.started, text: span(phase.ended - phase.started) };
  return {
    ...table,
    "endpoints restored": number(ready.length),
    "endpoints not ready": number(all.filter((one) => !one.ready).length),
    "start to last ready": took(ready.map((one) => one.till - flight.begin)),
    "slowest endpoint": took(ready.map((one) => one.till - one.from)),
    "length of the record": { value: flight.end - flight.begin, text: span(flight.end - flight.begin) },
    messages: number(kinds.messages),
    "longest in a mailbox": { value: kinds.longest, text: span(kinds.longest) },
    "longest handling": { value: kinds.busiest, text: span(kinds.busiest) },
    "kernel writes": number(kinds.writes),
    "failed kernel steps": number(kinds.failed),
    crashes: number(kinds.crashes),
  };
}

function change(a, b) {
  if (a?.value === undefined || b?.value === undefined || a.value === b.value) return "";
  if (!a.value) return "new";
  const percent = ((b.value - a.value) / a.value) * 100;
  return `${percent > 0 ? "+" : "−"}${Math.abs(percent).toFixed(Math.abs(percent) < 10 ? 1 : 0)} %`;
}

/** Where the messages of two records begin to differ: two runs of one seed never do. */
function divergence(left, right) {
  const messages = (flight) => flight.events.filter((event) => event.record === "message");
  const [a, b] = [messages(left), messages(right)];
  const key = (event, flight) => `${event.kind} ${flight.nameOf(event.from)} ${flight.nameOf(event.to)} ${event.outcome}`;
  let at = 0;
  while (at < a.length && at < b.length && key(a[at], left) === key(b[at], right)) at += 1;
  if (at === a.length && at === b.length) return { text: `The same ${count(at)} messages in the same order.`, element: "" };
  const line = (event, flight) => (event ? `${offset(event.ended - flight.begin)} ${sentence(event, flight)}` : "no more messages");
  return {
    text: `The first ${count(at)} messages are the same; then they differ.`,
    element: h("div", { class: "panel" }, h("h2", {}, "First difference"),
      h("dl", { class: "facts" }, h("dt", {}, "Left"), h("dd", { class: "mono" }, line(a[at], left)), h("dt", {}, "Right"), h("dd", { class: "mono" }, line(b[at], right)))),
  };
}
