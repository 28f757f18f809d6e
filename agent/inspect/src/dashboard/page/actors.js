// The supervision tree: every actor, how it is and what it costs.

import { badge } from "./badges.js";
import { choice, h, put, say } from "./dom.js";
import { endpointPage, told } from "./link.js";
import { Rows } from "./rows.js";
import { get } from "./source.js";
import { byName, count, many, span } from "./words.js";

const COLUMNS = [
  { title: "Actor", width: "minmax(150px, 2fr)" },
  { title: "State", width: "minmax(150px, 1.4fr)" },
  { title: "In mailbox", width: "84px", numeric: true },
  { title: "Time in mailbox", width: "104px", numeric: true },
  { title: "Handling", width: "84px", numeric: true },
  { title: "Handled", width: "80px", numeric: true },
  { title: "Restarts", width: "minmax(76px, 1fr)" },
];

const ORDERS = [
  ["name", "name"], ["mailbox", "fullest mailbox"], ["waited", "longest in mailbox"],
  ["busy", "most handling"], ["crashes", "most restarts"],
];

export class ActorsView {
  constructor(app) {
    this.app = app;
    this.folded = new Set();
    this.order = "name";
    this.filter = "";
    this.summary = h("p");
    this.detail = h("section", { class: "panel actor", "aria-label": "The chosen actor", hidden: true });
    this.rows = new Rows({
      label: "Supervision tree", role: "treegrid", columns: COLUMNS, height: 32,
      cells: (index) => this.cells(this.list[index]),
      decorate: (row, index) => this.decorate(row, this.list[index]),
      open: (index) => this.open(this.list[index]),
      move: (index) => this.choose(this.list[index]),
      key: (event, index) => this.key(event, index),
      empty: "No actor of that name or state.",
    });
    this.input = h("input", {
      type: "search", id: "actors-filter", placeholder: "name or state",
      on: { input: () => { this.filter = this.input.value.trim().toLowerCase(); this.update(); app.noted(); } },
    });
    this.orders = choice("Order", ORDERS, this.order, (order) => { this.order = order; this.update(); app.noted(); });
    this.element = h("section", { class: "view", "aria-labelledby": "actors-title" },
      h("div", { class: "top" },
        h("div", { class: "say" }, h("h1", { id: "actors-title" }, "Actors"), this.summary),
        h("div", { class: "tools" },
          h("label", { class: "field" }, h("span", {}, "Filter"), this.input), this.orders)),
      this.rows.element, this.detail);
  }

  show(_, query) {
    this.filter = told(query, "filter", "", this.filter);
    if (this.input.value.trim().toLowerCase() !== this.filter) this.input.value = this.filter;
    this.order = told(query, "order", "name", this.order);
    this.orders.querySelector("select").value = this.order;
    this.update();
  }

  link() {
    return { filter: this.filter, order: this.order === "name" ? "" : this.order };
  }

  /** What is known of an actor at the moment shown. */
  facts(cell) {
    const { moment, flight, actors, isNow } = this.app;
    const of = moment.of(cell.id);
    // Now, the agent itself knows what the ring cannot: what has not ended, and what is older.
    const now = isNow ? actors?.get(cell.id) : undefined;
    const handled = now?.handled ?? of.handled;
    return {
      cell,
      state: moment.stateOf(cell, flight),
      handling: of.handling,
      depth: now?.waiting ?? of.depth,
      oldest: of.oldest === undefined ? undefined : moment.at - of.oldest,
      waited: handled ? (now ? now["waited-seconds"] * 1e9 : of.waited) / handled : undefined,
      busy: handled ? (now ? now["busy-seconds"] * 1e9 : of.busy) / handled : undefined,
      longest: of.longestBusy,
      handled,
      crashes: now?.crashes ?? of.crashes,
      cause: now?.["last-crash"] ?? of.lastCrash?.cause,
    };
  }

  /** All that are to be seen, in the order of the tree. */
  tree() {
    const { flight, moment, isNow, actors } = this.app;
    const children = new Map();
    const alive = [];
    for (const cell of flight.cells.values()) {
      if (cell.born > moment.at) continue;
      if (moment.cells.get(cell.id)?.alive === false) continue;
      if (isNow && actors && !actors.has(cell.id)) continue;
      alive.push(cell);
    }
    const known = new Set(alive.map((cell) => cell.id));
    const facts = new Map(alive.map((cell) => [cell.id, this.facts(cell)]));
    for (const cell of alive) {
      const parent = known.has(cell.parent) ? cell.parent : null;
      const list = children.get(parent) ?? [];
      list.push(facts.get(cell.id));
      children.set(parent, list);
    }
    const list = [];
    const matches = (one) => `${one.cell.name} ${one.cell.title} ${one.state}${one.crashes ? " restarted" : ""}`.toLowerCase().includes(this.filter);
    const walk = (parent, level) => {
      const below = children.get(parent) ?? [];
      below.sort(this.compare());
      for (const one of below) {
        Object.assign(one, { level, children: children.get(one.cell.id)?.length ?? 0 });
        const flat = this.filter !== "";
        if (!flat || matches(one)) list.push(one);
        if (one.children && (flat || !this.folded.has(one.cell.id))) walk(one.cell.id, level + 1);
      }
    };
    walk(null, 1);
    return { list, alive: alive.length, facts };
  }

  compare() {
    const name = (a, b) => (a.cell.endpoint === undefined ? 0 : 1) - (b.cell.endpoint === undefined ? 0 : 1) || byName(a.cell.title, b.cell.title);
    const most = (of) => (a, b) => (of(b) ?? 0) - (of(a) ?? 0) || name(a, b);
    switch (this.order) {
      case "mailbox": return most((one) => one.depth);
      case "waited": return most((one) => one.oldest ?? one.waited);
      case "busy": return most((one) => (one.busy ?? 0) * one.handled);
      case "crashes": return most((one) => one.crashes);
      default: return name;
    }
  }

  update() {
    const { list, alive, facts } = this.tree();
    this.list = list;
    let [crashes, depth] = [0, 0];
    for (const one of facts.values()) {
      crashes += one.crashes;
      depth += one.depth;
    }
    say(this.summary, `${many(alive, "actor")}, ${many(depth, "message")} in mailboxes, ${many(crashes, "restart")} after crashes.`);
    this.rows.update(list.length);
  }

  cells(one) {
    const indent = h("span", { class: "indent", style: { "padding-left": `${(one.level - 1) * 1.1}rem` } });
    if (one.children && !this.filter) {
      const open = !this.folded.has(one.cell.id);
      indent.append(h("button", {
        type: "button", class: "fold", tabindex: -1, "aria-hidden": "true",
        on: { click: () => this.fold(one) },
      }, open ? "▾" : "▸"));
    } else {
      indent.append(h("span", { class: "fold" }, one.level > 1 ? "·" : ""));
    }
    indent.append(one.cell.title);
    if (one.children) indent.append(h("span", { class: "soft" }, ` ${count(one.children)}`));
    const mailbox = h("span", { class: "depth" }, count(one.depth));
    if (one.depth) mailbox.style.setProperty("--share", `${Math.min(100, one.depth * 4)}%`);
    const waited = one.oldest !== undefined ? `${span(one.oldest)} now` : span(one.waited);
    return [
      indent, badge(one.handling ? `handling` : one.state), mailbox, waited, span(one.busy), count(one.handled),
      one.crashes ? h("span", { class: "restarts", title: one.cause }, `${one.crashes} ✕ ${one.cause ?? ""}`) : "",
    ];
  }

  decorate(row, one) {
    row.setAttribute("aria-level", String(one.level));
    if (one.children && !this.filter) row.setAttribute("aria-expanded", String(!this.folded.has(one.cell.id)));
    row.title = one.cell.pod ? one.cell.name : one.handling ? `handling ${one.handling.kind}` : `longest handling ${span(one.longest)}`;
  }

  fold(one, folded = !this.folded.has(one.cell.id)) {
    if (folded) this.folded.add(one.cell.id);
    else this.folded.delete(one.cell.id);
    this.update();
  }

  key(event, index) {
    const one = this.list[index];
    if (event.key === "ArrowRight" && one.children) this.fold(one, false);
    else if (event.key === "ArrowLeft" && one.children && !this.folded.has(one.cell.id)) this.fold(one, true);
    else if (event.key === "ArrowLeft") {
      const parent = this.list.findIndex((other) => other.cell.id === one.cell.parent);
      if (parent >= 0) this.rows.select(parent);
    } else return false;
    return true;
  }

  /** An endpoint has a page of its own; of another actor, what it shows of itself stands below. */
  open(one) {
    if (one.cell.endpoint !== undefined) this.app.go(endpointPage(one.cell));
  }

  async choose(one) {
    if (one.cell.endpoint !== undefined) {
      this.detail.hidden = true;
      return;
    }
    this.chosen = one.cell.id;
    const { isNow } = this.app;
    let shown;
    let text = "What an actor shows of itself can be asked while the agent runs.";
    try {
      if (isNow) shown = await get(`/api/actors/${one.cell.id}`);
    } catch (error) {
      text = error.message;
    }
    if (this.chosen !== one.cell.id) return;
    const members = shown && typeof shown === "object" ? Object.entries(shown) : [];
    put(this.detail,
      h("h2", {}, one.cell.name, " ", h("a", { href: `#/events?text=${encodeURIComponent(one.cell.name)}` }, "its events")),
      one.cause ? h("p", { class: "alert" }, `Restarted ${one.crashes} times; the last crash: ${one.cause}`) : "",
      members.length
        ? h("dl", { class: "facts" }, members.map(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, brief(value))]))
        : h("p", { class: "soft" }, text));
    this.detail.hidden = false;
  }
}

/** A value in one line; of a long list, its length. */
function brief(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  if (text.length <= 240) return text;
  return Array.isArray(value) ? `${count(value.length)} entries` : `${text.slice(0, 240)} …`;
}
