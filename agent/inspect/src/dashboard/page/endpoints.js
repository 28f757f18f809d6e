// Endpoints: a list, and of one its state, why it is there, its history, its map rows and errors.

import { badge } from "./badges.js";
import { drawBar } from "./bars.js";
import { canvasContext, choice, h, put, say } from "./dom.js";
import { PHASES, restores, sums } from "./phases.js";
import { Rows } from "./rows.js";
import { endpointPage, told } from "./link.js";
import { get } from "./source.js";
import { Who } from "./who.js";
import { byName, calendar, count, many, sentence, span } from "./words.js";

const LIST = [
  { title: "Pod", width: "minmax(120px, 1.5fr)" },
  { title: "State", width: "minmax(120px, 1fr)" },
];
const ORDERS = [["pod", "pod"], ["id", "number"], ["state", "state"]];
/** How often the agent is asked for the rows of the endpoint that is looked at, milliseconds. */
const DETAIL_MS = 3_000;

export class EndpointsView {
  constructor(app) {
    this.app = app;
    this.filter = "";
    this.summary = h("p");
    this.rows = new Rows({
      label: "Endpoints", columns: LIST,
      cells: (index) => [this.list[index].cell.title, badge(this.list[index].state)],
      move: (index) => this.app.go(endpointPage(this.list[index].cell)),
      empty: "No endpoint of that pod, number or state.",
    });
    this.input = h("input", {
      type: "search", id: "endpoints-filter", placeholder: "pod, number or state",
      on: { input: () => { this.filter = this.input.value.trim().toLowerCase(); this.update(); app.noted(); } },
    });
    this.order = "pod";
    this.orders = choice("Order", ORDERS, this.order, (order) => { this.order = order; this.update(); app.noted(); });
    this.who = new Who(app);
    this.page = h("div", { class: "side endpoint", tabindex: -1 });
    this.element = h("section", { class: "view", "aria-labelledby": "endpoints-title" },
      h("div", { class: "top" },
        h("div", { class: "say" }, h("h1", { id: "endpoints-title" }, "Endpoints"), this.summary),
        h("div", { class: "tools" }, h("label", { class: "field" }, h("span", {}, "Filter"), this.input), this.orders)),
      h("div", { class: "two narrow" }, this.rows.element, this.page));
  }

  /** `#/endpoints/NUMBER` or `#/endpoints/NAMESPACE/POD` */
  show(rest, query) {
    if (rest.length) this.chosen = rest.length === 1 && /^\d+$/.test(rest[0]) ? Number(rest[0]) : rest.join("/");
    this.filter = told(query, "filter", "", this.filter);
    if (this.input.value.trim().toLowerCase() !== this.filter) this.input.value = this.filter;
    this.order = told(query, "order", "pod", this.order);
    this.orders.querySelector("select").value = this.order;
    this.update();
  }

  link() {
    return { filter: this.filter, order: this.order === "pod" ? "" : this.order };
  }

  get rest() {
    return this.chosen === undefined ? [] : String(this.chosen).split("/");
  }

  compare() {
    const number = (a, b) => a.cell.endpoint - b.cell.endpoint;
    const pod = (a, b) => byName(a.cell.pod, b.cell.pod) || number(a, b);
    if (this.order === "id") return number;
    return this.order === "state" ? (a, b) => (a.state < b.state ? -1 : a.state > b.state ? 1 : pod(a, b)) : pod;
  }

  update() {
    const { flight, moment } = this.app;
    const all = flight.endpoints().filter((cell) => !(cell.born > moment.at))
      .map((cell) => ({ cell, state: this.stateOf(cell) })).sort(this.compare());
    this.list = all.filter((one) => `${one.cell.name} ${one.state}`.toLowerCase().includes(this.filter));
    const states = new Map();
    for (const one of all) states.set(one.state, (states.get(one.state) ?? 0) + 1);
    say(this.summary, all.length ? [...states].map(([state, number]) => `${count(number)} ${state}`).join(", ") : "No endpoint in this record.");
    const first = this.list.find((one) => one.state !== "ready") ?? this.list[0];
    this.chosen ??= first?.cell.pod ?? first?.cell.endpoint;
    this.rows.update(this.list.length);
    const row = this.list.findIndex((one) => one.cell === flight.endpointCell(this.chosen));
    if (row >= 0 && this.shown !== this.chosen) this.rows.select(row);
    this.shown = this.chosen;
    this.rows.active = row;
    this.rows.mark();
    this.detail();
  }

  stateOf(cell) {
    const { moment, flight } = this.app;
    return moment.stateOf(cell, flight);
  }

  detail() {
    const { flight, moment } = this.app;
    const cell = flight.endpointCell(this.chosen);
    if (!cell) {
      put(this.page, h("p", { class: "empty" }, this.chosen === undefined ? "" : `There is no endpoint of ${this.chosen} in this record.`));
      return;
    }
    // Nothing new to say: what has been laid out stays, with its focus and its place.
    const seen = `${cell.id} ${this.app.time.index} ${this.stateOf(cell)} ${flight.lastSeq} ${document.documentElement.dataset.theme}`;
    if (this.seen === seen && this.page.contains(this.map)) return this.ask(cell);
    this.seen = seen;
    this.map = this.map && this.of === cell.id ? this.map : h("section", { class: "panel", "aria-label": "Map rows" });
    const top = this.page.scrollTop;
    this.who.of(cell);
    const parts = [this.head(cell), this.who.element, this.why(cell), this.errors(cell), this.history(cell), this.map, this.last(cell)];
    put(this.page, parts);
    this.page.scrollTop = this.of === cell.id ? top : 0;
    this.bar(cell);
    if (this.of !== cell.id) this.asked = 0;
    this.of = cell.id;
    this.ask(cell);
  }

  head(cell) {
    const { moment } = this.app;
    const now = moment.of(cell.id);
    const since = now.since === undefined ? "" : ` for ${span(moment.at - now.since)}`;
    this.canvas = h("canvas", { class: "own-bar", "aria-hidden": "true" });
    this.sums = h("p", { class: "soft" });
    return h("section", { class: "panel", "aria-label": "State" },
      h("h2", { class: "with-badge" }, cell.title, " ", badge(this.stateOf(cell)), h("span", { class: "soft" }, `${since}${cell.pod ? ` · endpoint ${cell.endpoint}` : ""}`)),
      now.why ? h("p", {}, now.why) : "",
      this.canvas, this.sums);
  }

  bar(cell) {
    const { flight, moment } = this.app;
    const [one] = restores(flight, moment.at, [cell]);
    if (!one || one.till <= one.from) return this.canvas.remove();
    const context = canvasContext(this.canvas, Math.max(200, this.page.clientWidth - 60), 18);
    drawBar(context, one, { top: 2, height: 14, left: 0, right: Math.max(200, this.page.clientWidth - 60) - 3, from: one.from, till: one.till });
    const parts = Object.entries(sums(one)).sort((a, b) => b[1] - a[1])
      .map(([phase, took]) => `${PHASES.find((known) => known.id === phase).title} ${span(took)}`);
    say(this.sums, `${one.ready ? "Ready" : "Not ready"} after ${span(one.till - one.from)}: ${parts.join(", ")}.`);
  }

  /** The chain of waits that begins here, nearest first. */
  why(cell) {
    const { flight, moment } = this.app;
    const of = new Map();
    for (const wait of moment.waits.values()) of.set(wait.who, [...(of.get(wait.who) ?? []), wait]);
    const [chain, seen, next] = [[], new Set([cell.id]), [cell.id]];
    while (next.length) {
      for (const wait of of.get(next.shift()) ?? []) {
        chain.push(wait);
        if (wait.whom_cell && !seen.has(wait.whom_cell)) {
          seen.add(wait.whom_cell);
          next.push(wait.whom_cell);
        }
      }
    }
    const words = (wait) => `${flight.nameOf(wait.who)} waits ${span(moment.at - wait.since)} for ${flight.podded(wait.whom)}: ${flight.podded(wait.why)}; gives up in ${span(wait.until - moment.at)}.`;
    return h("section", { class: "panel", "aria-label": "Waits" }, h("h2", {}, "Whom it waits for"),
      chain.length ? h("ol", {}, chain.map((wait) => h("li", {}, words(wait)))) : h("p", { class: "soft" }, "It waits for nobody."));
  }

  errors(cell) {
    const { flight, moment } = this.app;
    const crashes = flight.crashes.filter((crash) => crash.cell === cell.id && crash.at <= moment.at);
    const failed = flight.failed.filter((step) => step.cell === cell.id && step.ended <= moment.at);
    const all = [...crashes, ...failed].sort((a, b) => b.seq - a.seq).slice(0, 10);
    if (!all.length) return "";
    return h("section", { class: "panel", "aria-label": "Last errors" }, h("h2", {}, "Last errors"),
      h("ul", { class: "plain-list" }, all.map((event) => h("li", {}, badge(event.record === "crash" ? "crashed" : "failed"), " ", sentence(event, flight)))));
  }

  history(cell) {
    const { flight, moment } = this.app;
    const states = (flight.states.get(cell.id) ?? []).filter((state) => state.at <= moment.at);
    const rootOf = (at) => {
      return flight.inboxes.get(cell.id)?.find((message) => message.started <= at && message.ended >= at)?.root;
    };
    const rows = states.slice(-40).reverse().map((state, place, shown) => {
      const root = place < 12 ? rootOf(state.at) : undefined;
      const till = place === 0 ? moment.at : shown[place - 1].at;
      return h("tr", {}, h("td", { class: "numeric" }, flight.at(state.at)), h("td", {}, badge(state.to)),
        h("td", { class: "numeric" }, span(till - state.at)), h("td", {}, state.why),
        h("td", {}, root === undefined ? "" : h("a", { href: `#/causes/${root}?through=${cell.id}` }, flight.podded(flight.roots.get(root)?.what) ?? `event ${root}`)));
    });
    return h("section", { class: "panel", "aria-label": "History" }, h("h2", {}, "History"),
      rows.length
        ? h("div", { class: "scroll-x" }, h("table", {}, h("thead", {}, h("tr", {}, ["At", "State", "For", "Why", "Because of"].map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, rows)))
        : h("p", { class: "soft" }, "No change of state is in the record."));
  }

  last(cell) {
    const { flight } = this.app;
    const found = [];
    for (let i = this.app.time.index; i >= 0 && found.length < 12; i -= 1) {
      const event = flight.events[i];
      if (this.app.isHidden(event)) continue;
      if (event.to === cell.id || event.from === cell.id || event.cell === cell.id || event.who === cell.id) found.push(event);
    }
    return h("section", { class: "panel", "aria-label": "Last events" },
      h("h2", {}, "Last events ", h("a", { href: `#/events?text=${encodeURIComponent(cell.name)}` }, "all")),
      h("ol", { class: "plain-list mono" }, found.map((event) => h("li", {}, h("span", { class: "soft" }, flight.at(event.ended ?? event.at ?? event.since)), " ", sentence(event, flight)))));
  }

  /** Asks the agent for what only it and the kernel know. */
  async ask(cell) {
    this.who.ask(cell);
    if (!this.app.isNow) {
      put(this.map, h("h2", {}, "Map rows"), h("p", { class: "soft" }, this.writes(cell)));
      return;
    }
    const now = performance.now();
    if (this.asking || now - (this.asked ?? 0) < DETAIL_MS) return;
    [this.asking, this.asked] = [true, now];
    try {
      const detail = await get(`/api/endpoint/${cell.endpoint}`);
      if (this.of === cell.id && this.app.isNow) put(this.map, this.mapRows(detail));
    } catch (error) {
      if (this.of === cell.id) put(this.map, h("h2", {}, "Map rows"), h("p", { class: "soft" }, error.message));
    } finally {
      this.asking = false;
    }
  }

  writes(cell) {
    const written = this.app.flight.kernel.filter((step) => step.cell === cell.id && step.write && step.ended <= this.app.moment.at);
    const last = written[written.length - 1];
    const told = last ? `; the last was ${last.op} ${last.about}` : "";
    return `Rows are compared while the agent runs. Up to this moment the record holds ${many(written.length, "kernel write")}${told}.`;
  }

  mapRows(detail) {
    const differ = detail.rows.filter((row) => row.desired !== row.realised).length;
    const value = (text) => h("td", { class: "mono" }, text ?? h("span", { class: "soft" }, "absent"));
    return [
      h("h2", {}, "Map rows, desired against realised ", badge(differ ? "differs" : "same")),
      h("p", { class: "soft" }, `${many(detail.rows.length, "row")}, ${differ ? `${count(differ)} differ` : "all as desired"}; policy revision ${detail["policy-revision"]}.`),
      detail["last-error"] ? h("p", { class: "alert" }, detail["last-error"]) : "",
      h("div", { class: "scroll-x" }, h("table", {}, h("thead", {}, h("tr", {}, ["Same", "Map", "Key", "Desired", "Realised"].map((title) => h("th", { scope: "col" }, title)))),
        h("tbody", {}, detail.rows.slice(0, 300).map((row) => h("tr", { class: row.desired === row.realised ? "" : "differs" },
          h("td", {}, row.desired === row.realised ? "=" : h("strong", {}, "≠")), h("td", {}, row.map), h("td", { class: "mono" }, row.key),
          value(row.desired), value(row.realised)))))),
      detail.log.length ? h("h2", {}, "Its log") : "",
      h("ol", { class: "plain-list" }, detail.log.slice(0, 12).map((entry) => h("li", {}, badge(entry.code), " ", h("span", { class: "soft" }, calendar(entry.wall)), " ", entry.message))),
    ];
  }
}
