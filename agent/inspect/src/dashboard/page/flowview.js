// Flows: who sends what to whom and what becomes of it, as it comes and as it was; and one flow whole.

import { badge } from "./badges.js";
import { choice, h, put, say } from "./dom.js";
import { FlowFilter } from "./flowfilter.js";
import { told } from "./link.js";
import { Rows } from "./rows.js";
import { get } from "./source.js";
import { calendar, clock, count, many } from "./words.js";

const COLUMNS = [
  { title: "At", width: "126px", numeric: true },
  { title: "From", width: "minmax(150px, 1.3fr)" },
  { title: "To", width: "minmax(150px, 1.3fr)" },
  { title: "Verdict", width: "126px" },
  { title: "Record", width: "minmax(120px, 1fr)" },
  { title: "What", width: "minmax(110px, 1fr)" },
];
const ORDERS = [["new", "newest first"], ["old", "oldest first"]];

export class FlowsView {
  constructor(app) {
    this.app = app;
    this.usesFlows = true;
    this.order = "new";
    this.list = [];
    this.summary = h("p");
    this.filter = new FlowFilter(app, "flows-filter");
    this.hold = h("button", { type: "button", "aria-pressed": "false", title: "What comes is kept, and shown when this is let go", on: { click: () => this.holding(!this.held) } }, "Hold");
    this.rows = new Rows({
      label: "Flows", columns: COLUMNS, height: 30,
      cells: (index) => this.cells(this.list[index]),
      decorate: (row, index) => row.classList.toggle("lost-row", this.list[index].is === "lost"),
      move: (index) => this.choose(this.list[index]),
      open: () => this.detail.focus(),
      empty: "No flow matches. What was before the first that is kept is gone.",
    });
    this.detail = h("section", { class: "side endpoint flow", "aria-label": "The chosen flow", tabindex: -1 });
    this.both = h("div", { class: "two flows alone" }, this.rows.element, this.detail);
    this.orders = choice("Order", ORDERS, this.order, (order) => { this.order = order; this.drawn = undefined; app.refresh(); app.noted(); });
    this.element = h("section", { class: "view", "aria-labelledby": "flows-title" },
      h("div", { class: "top" },
        h("div", { class: "say" }, h("h1", { id: "flows-title" }, "Flows"), this.summary),
        h("div", { class: "tools" }, this.hold, this.orders)),
      this.filter.element, this.both);
  }

  show(_, query) {
    this.app.flows.filter = told(query, "filter", "", this.app.flows.filter);
    this.order = told(query, "order", "new", this.order);
    this.orders.querySelector("select").value = this.order;
    this.update();
  }

  link() {
    return { filter: this.app.flows.filter, order: this.order === "new" ? "" : this.order };
  }

  holding(held) {
    this.held = held;
    this.hold.setAttribute("aria-pressed", String(held));
    this.app.refresh();
  }

  update() {
    const { flows, flight, time } = this.app;
    flows.want();
    this.filter.update();
    const drawn = `${flows.version} ${flight.clockwise} ${this.order} ${this.app.lifeId}`;
    if (this.drawn === drawn || (this.held && this.list.length)) return;
    this.drawn = drawn;
    const chosen = this.chosen?.number;
    this.list = this.order === "new" ? [...flows.list].reverse() : [...flows.list];
    const parts = [many(flows.list.length, "flow")];
    if (flows.kept?.more) parts.push("older ones match, too");
    if (flows.missed) parts.push(`${count(flows.missed)} came faster than they are shown`);
    if (flows.kept?.oldest) parts.push(`kept since ${calendar(flows.kept.oldest * 1e3)}`);
    say(this.summary, flows.error ? "" : `${time.following ? "" : "Up to the moment: "}${parts.join("; ")}.`);
    this.rows.active = chosen === undefined ? -1 : this.list.findIndex((one) => one.number === chosen);
    this.rows.update(this.list.length);
  }

  at(flow) {
    return this.app.flight.at(this.app.flight.timeAt(flow.at * 1e3));
  }

  cells(flow) {
    if (flow.is === "lost") {
      const number = flow.count ? many(flow.count, "record") : "Records, nobody knows how many,";
      return [this.at(flow), h("strong", {}, "lost"), "", badge("lost"), "", `${number}: ${flow.why}`];
    }
    return [this.at(flow), this.end(flow.from, "from"), this.end(flow.to, "to"), badge(flow.verdict), flow.kind, flow.summary];
  }

  /** An end as a button that filters by it; who has no mouse finds the same beside the list. */
  end(end, side) {
    return h("span", { class: "end" },
      h("button", { type: "button", class: "link", tabindex: -1, title: `Only ${side} ${end.name}`, on: { click: () => this.filter.add([`${side}-${end.term}`]) } }, end.name),
      end.port === undefined ? "" : h("span", { class: "soft" }, `:${end.port}`));
  }

  async choose(flow) {
    this.chosen = flow;
    this.both.classList.remove("alone");
    if (flow.is === "lost") return put(this.detail, h("div", { class: "panel" }, h("h2", {}, "Lost"), h("p", {}, `Records are not there: ${flow.why}.`)));
    const fields = h("div", {});
    put(this.detail, this.facts(flow), flow.why ? h("section", { class: "panel", "aria-label": "Why" }, h("h2", {}, "Why"), h("code", {}, flow.why)) : "",
      this.terms(flow), h("section", { class: "panel", "aria-label": "All that is known" }, h("button", { type: "button", on: { click: () => this.whole(flow, fields) } }, "All that is known"), fields));
    this.detail.scrollTop = 0;
  }

  facts(flow) {
    const unix = flow.at * 1e3;
    const who = (end) => {
      const place = [end.address, end.port].filter((part) => part !== undefined && part !== "").join(" port ");
      const name = end.endpoint && end.namespace ? h("a", { href: `#/endpoints/${end.name}` }, end.name) : end.name;
      return [name, h("span", { class: "soft" }, ` ${[place, end.group === end.name ? "" : end.group, `identity ${end.identity}`].filter(Boolean).join(", ")}`)];
    };
    const { flight } = this.app;
    const members = [
      ["At", `${clock(unix)} UTC, ${flight.at(flight.timeAt(unix))}`], ["From", who(flow.from)], ["To", who(flow.to)],
      ["Verdict", badge(flow.verdict)], ["Reason", flow.reason?.toLowerCase().replaceAll("_", " ")], ["Record", flow.kind],
      ["Direction", flow.direction], ["Reply", flow.reply === undefined ? undefined : flow.reply ? "yes" : "no"],
      ["Allowed by", flow.allowed_by?.join(", ")], ["Denied by", flow.denied_by?.join(", ")], ["What", flow.summary],
    ];
    return h("section", { class: "panel", "aria-label": "The flow" }, h("h2", {}, `${flow.from.name} → ${flow.to.name}`),
      h("dl", { class: "facts" }, members.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  }

  /** What can be filtered by: only that, or all but that. */
  terms(flow) {
    const side = (end, name) => [
      [`${name} ${end.name}`, [`${name}-${end.term}`]],
      end.group === end.name ? undefined : [`${name} ${end.group}`, end.group_term.split(" ").map((term) => `${name}-${term}`)],
    ];
    const port = flow.reply ? flow.from : flow.to;
    const rows = [
      ...side(flow.from, "from"), ...side(flow.to, "to"),
      port.port === undefined || !flow.protocol ? undefined : [`port ${port.port}`, [`port:${port.port}`]],
      flow.protocol ? [flow.protocol, [`protocol:${flow.protocol.toLowerCase()}`]] : undefined,
      flow.reason ? [flow.reason.toLowerCase().replaceAll("_", " "), [`drop-reason-desc:${flow.reason.toLowerCase()}`]] : undefined,
    ].filter(Boolean);
    const act = (text, label, terms, not) => h("button", { type: "button", "aria-label": label, on: { click: () => this.filter.add(terms, not) } }, text);
    return h("section", { class: "panel", "aria-label": "Filter by it" }, h("h2", {}, "Filter by"),
      h("ul", { class: "terms" }, rows.map(([what, terms]) => h("li", {}, h("span", {}, what),
        act("only", `Only ${what}`, terms, false), terms.length === 1 ? act("not", `Not ${what}`, terms, true) : ""))));
  }

  async whole(flow, place) {
    try {
      const all = await get(`/api/flows/${flow.number}`);
      put(place, h("pre", { class: "mono", tabindex: 0, "aria-label": "The flow as Hubble tells it" }, JSON.stringify(all, null, 2)));
    } catch (error) {
      put(place, h("p", { class: "soft" }, error.message));
    }
  }
}
