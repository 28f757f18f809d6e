// Outside events, and for each a sequence diagram of what followed, down to the map writes.

import { badge } from "./badges.js";
import { chain, reached } from "./chain.js";
import { choice, h, put, s, say, segments } from "./dom.js";
import { told } from "./link.js";
import { Questions } from "./questions.js";
import { Rows } from "./rows.js";
import { count, many, offset, span } from "./words.js";

const ROW = 30;
const ROOTS = [
  { title: "Outside event", width: "minmax(96px, 1fr)" },
  { title: "Messages", width: "66px", numeric: true },
  { title: "Writes", width: "46px", numeric: true },
  { title: "Took", width: "62px", numeric: true },
];
const STEPS = [
  { title: "At", width: "108px", numeric: true },
  { title: "From", width: "minmax(100px, 1fr)" },
  { title: "To", width: "minmax(100px, 1fr)" },
  { title: "What", width: "minmax(160px, 2fr)" },
  { title: "Waited", width: "80px", numeric: true },
  { title: "Took", width: "80px", numeric: true },
  { title: "Outcome", width: "110px" },
];

export class CausesView {
  constructor(app) {
    this.app = app;
    this.filter = "";
    this.form = "picture";
    this.mode = undefined;
    this.roots = new Rows({
      label: "Outside events, newest first", columns: ROOTS,
      cells: (index) => this.rootCells(this.list[index]),
      move: (index) => this.choose(this.list[index].root),
      empty: "No outside event matches.",
    });
    this.questions = new Questions(app);
    this.input = h("input", {
      type: "search", placeholder: "what, such as PUT or manifests",
      on: { input: () => { this.filter = this.input.value.trim().toLowerCase(); this.update(); app.noted(); } },
    });
    this.title = h("h2");
    this.summary = h("p", { class: "soft" });
    this.options = h("div", { class: "tools" });
    this.lines = h("div", { class: "lifelines" });
    this.space = h("div", { class: "space" });
    this.diagram = h("div", { class: "sequence", tabindex: 0, role: "group", "aria-label": "Sequence diagram; the table shows the same", on: { scroll: () => this.window() } }, this.lines, this.space);
    new ResizeObserver(() => this.window()).observe(this.diagram);
    this.table = new Rows({
      label: "Steps of this outside event", columns: STEPS,
      cells: (index) => this.stepCells(this.steps[index]),
      open: (index) => this.at(this.steps[index]),
      empty: "Nothing of it is left in the record.",
    });
    this.element = h("section", { class: "view", "aria-labelledby": "causes-title" },
      h("div", { class: "top" },
        h("div", { class: "say" }, h("h1", { id: "causes-title" }, "Causes"),
          h("p", {}, "Each outside event, and all that followed from it.")),
        h("div", { class: "tools" }, h("label", { class: "field" }, h("span", {}, "Filter"), this.input), this.questions.element)),
      h("div", { class: "two" }, this.roots.element,
        h("div", { class: "side" }, this.title, this.summary, this.options, this.diagram, this.table.element)));
  }

  /** `#/causes/ROOT?through=CELL` */
  show([root], query) {
    const wanted = root === undefined ? undefined : Number(root);
    const through = query.get("through") ?? query.get("show");
    this.filter = told(query, "filter", "", this.filter);
    if (this.input.value.trim().toLowerCase() !== this.filter) this.input.value = this.filter;
    if (wanted !== undefined && this.app.flight.roots.has(wanted)) {
      this.chosen = wanted;
      this.mode = through === null ? undefined : /^\d+$/.test(through) ? Number(through) : through;
      this.drawn = undefined;
    }
    this.update();
  }

  link() {
    return { filter: this.filter, through: typeof this.mode === "number" ? this.mode : "", show: typeof this.mode === "string" ? this.mode : "" };
  }

  get rest() {
    return this.chosen === undefined ? [] : [String(this.chosen)];
  }

  update() {
    const { flight, moment, time, questions } = this.app;
    this.questions.update();
    const { range } = time;
    const roots = [...flight.roots.values()].filter((root) => root.at <= moment.at && root.messages + root.writes > 0
      && (questions || !root.question || root.root === this.chosen) && (!range || (root.until >= range.from && root.at <= range.till)));
    this.list = roots.filter((root) => flight.podded(root.what).toLowerCase().includes(this.filter)).sort((a, b) => b.at - a.at);
    if (!flight.roots.has(this.chosen)) {
      // What began most is what people look for first.
      this.chosen = roots.reduce((most, root) => (!most || root.messages > most.messages ? root : most), undefined)?.root;
      this.mode = undefined;
    }
    this.roots.update(this.list.length);
    this.roots.active = this.list.findIndex((root) => root.root === this.chosen);
    this.roots.mark();
    const root = flight.roots.get(this.chosen);
    const drawn = `${this.chosen} ${this.mode} ${root?.messages} ${root?.writes} ${this.form} ${flight.life.number} ${flight.life.pid}`;
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      this.sequence(root);
    }
  }

  choose(root) {
    this.chosen = root;
    this.mode = undefined;
    this.update();
    this.app.noted();
  }

  rootCells(root) {
    return [root.crashed ? h("span", {}, badge("crashed"), ` ${this.app.flight.podded(root.what)}`) : this.app.flight.podded(root.what), count(root.messages), root.writes ? count(root.writes) : "", span(root.until - root.at)];
  }

  sequence(root) {
    if (!root) {
      say(this.title, "No outside event in this record");
      [this.steps, this.columns] = [[], []];
      this.table.update(0);
      return;
    }
    const { flight } = this.app;
    const cells = reached(flight, root.root);
    // A few actors are shown whole; of many, the chain that took longest. What no outside event
    // began is many chains.
    this.mode ??= cells.length <= 8 || root.root === 0 ? "all" : "longest";
    const { steps, lines, total } = chain(flight, root.root, this.mode);
    [this.steps, this.columns, this.begin] = [steps, lines, root.at];
    say(this.title, flight.podded(root.what));
    const shown = steps.filter((step) => !step.note).length;
    say(this.summary, `${flight.at(root.at)}, ${span(root.until - root.at)} long; ` +
      `${shown === total ? many(total, "step") : `${count(shown)} of ${many(total, "step")}`}, ${many(root.writes, "kernel write")}.`);
    const through = [["longest", "the chain that took longest"], ["all", "everything"], ...cells.map((cell) => [String(cell.id), `through ${cell.title}`])];
    put(this.options,
      segments("Form", [["picture", "Picture"], ["table", "Table"]], this.form, (form) => { this.form = form; this.update(); }),
      choice("Show", through, String(this.mode), (mode) => { this.mode = /^\d+$/.test(mode) ? Number(mode) : mode; this.update(); this.app.noted(); }));
    this.diagram.hidden = this.form !== "picture";
    this.table.element.hidden = this.form !== "table";
    this.table.update(steps.length);
    this.diagram.scrollTop = 0;
    this.picture();
  }

  get columnWidth() {
    return Math.max(112, Math.min(190, Math.floor(((this.diagram.clientWidth || 700) - 110) / Math.max(1, this.columns.length))));
  }

  x(line) {
    return 100 + (this.columns.indexOf(line ?? "outside") + 0.5) * this.columnWidth;
  }

  /** The heads of the lifelines; the rows follow with the scrolling. */
  picture() {
    const width = 110 + this.columns.length * this.columnWidth;
    this.wide = width;
    this.space.style.width = this.lines.style.width = `${width}px`;
    this.space.style.height = `${this.steps.length * ROW + 12}px`;
    put(this.lines, this.columns.map((line) => h("span", {
      class: `lifeline${typeof line === "string" ? " end" : ""}`,
      style: { left: `${this.x(line) - this.columnWidth / 2}px`, width: `${this.columnWidth}px` },
    }, typeof line === "string" ? line : this.app.flight.nameOf(line))));
    this.window();
  }

  /** Draws the rows in sight. */
  window() {
    if (this.diagram.hidden || !this.columns?.length) return;
    const { scrollTop, clientHeight } = this.diagram;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - 3);
    const last = Math.min(this.steps.length, first + Math.ceil((clientHeight || 500) / ROW) + 7);
    const height = (last - first) * ROW;
    const svg = s("svg", { width: this.wide, height, "aria-hidden": "true" });
    svg.style.top = `${first * ROW}px`;
    for (const line of this.columns) svg.append(s("line", { x1: this.x(line), x2: this.x(line), y1: 0, y2: height, class: "life" }));
    for (let i = first; i < last; i += 1) svg.append(this.row(this.steps[i], (i - first) * ROW));
    put(this.space, svg);
  }

  row(step, top) {
    const { event, from, to, at } = step;
    const y = top + ROW - 9;
    const [a, b] = [this.x(from), this.x(to)];
    const row = s("g", { class: "step-row" }, s("text", { x: 4, y, class: "at" }, offset(at - this.begin).replace(" s", "")));
    const text = this.label(step);
    if (step.note) {
      row.append(s("rect", { x: b - 5, y: y - 13, width: 10, height: 16, class: "state-mark" }),
        s("text", { x: b + 10, y, class: "state-note" }, text));
      return row;
    }
    const bad = event.outcome === "crashed" || event.outcome === "refused" || event.failed;
    const kind = `arrow${to === "kernel" ? " kernel" : ""}${bad ? " bad" : ""}`;
    if (a === b) {
      row.append(s("path", { d: `M${a} ${y - 10}h26v10h-22`, class: kind }), s("path", { d: `M${a + 4} ${y}l7 -4v8z`, class: `${kind} head` }),
        s("text", { x: a + 32, y: y - 1, class: "message" }, text));
      return row;
    }
    const side = Math.sign(b - a);
    row.append(
      s("line", { x1: a, x2: b - side * 6, y1: y, y2: y, class: kind }),
      s("path", { d: `M${b} ${y}l${-side * 8} -4v8z`, class: `${kind} head` }),
      s("text", { x: (a + b) / 2, y: y - 5, class: `message${bad ? " bad" : ""}`, "text-anchor": "middle" }, s("title", {}, text), text));
    return row;
  }

  label({ event, note }) {
    if (note) return `${event.from} → ${event.to}`;
    const took = span(event.ended - event.started);
    if (event.record === "kernel") return `${event.op} ${this.app.flight.podded(event.about)} ${event.failed ? `✕ ${event.failed}` : `${took}${event.write ? " ✎" : ""}`}`;
    return `${event.kind} ${event.outcome === "handled" ? took : `✕ ${event.outcome}`}`;
  }

  stepCells(step) {
    const { event, from, to, at, note } = step;
    const name = (line) => (line === "kernel" ? "kernel" : this.app.flight.nameOf(line));
    const what = note ? `${event.from} → ${event.to}: ${event.why}` : event.record === "kernel" ? `${event.op} ${this.app.flight.podded(event.about)}` : event.kind;
    const began = event.record === "kernel" ? event.submitted : event.enqueued;
    return [
      offset(at - this.begin), name(from), note ? "" : name(to), what,
      note ? "" : span(event.started - began), note ? "" : span(event.ended - event.started),
      note ? "state" : badge(event.record === "kernel" ? (event.failed ? "failed" : event.write ? "written" : "read") : event.outcome),
    ];
  }

  /** Goes to the moment of a step. */
  at(step) {
    this.app.time.go(this.app.flight.indexOf(step.event.seq));
  }
}
