// Who an endpoint is, as only the agent knows: its pod, labels, addresses, policies, and what was dropped of late.

import { badge } from "./badges.js";
import { h, put } from "./dom.js";
import { get } from "./source.js";

/** How often the agent is asked, milliseconds. */
const ASKED_MS = 5_000;
/** Drops that are shown, and how many flows of the pod are looked through for them: names of pods begin alike. */
const DROPS = 10;
const LOOKED = 100;

export class Who {
  constructor(app) {
    this.app = app;
    this.about = h("div", {});
    this.drops = h("section", { class: "panel", "aria-label": "Recent drops" });
    this.element = h("div", { class: "who" }, this.about, this.drops);
  }

  /** Another endpoint: what was known of the last one goes. */
  of(cell) {
    if (this.cell?.id === cell.id) return;
    this.cell = cell;
    this.key = undefined;
    put(this.about);
    put(this.drops, h("h2", {}, "Recent drops"), h("p", { class: "soft" }, "…"));
  }

  async ask(cell) {
    const { isNow, lifeId, span } = this.app;
    const key = isNow ? `now ${cell.id}` : `${lifeId} ${cell.id} ${span.until}`;
    const now = performance.now();
    if (this.asking || (this.key === key && (!isNow || now - this.asked < ASKED_MS))) return;
    Object.assign(this, { asking: true, asked: now, key });
    try {
      await Promise.all([this.askAbout(cell), this.askDrops(cell)]);
    } finally {
      this.asking = false;
    }
  }

  async askAbout(cell) {
    if (!this.app.isNow) {
      const text = "Labels, addresses and policies can be asked while the agent runs.";
      return put(this.about, h("section", { class: "panel", "aria-label": "Who it is" }, h("h2", {}, "Who it is"), h("p", { class: "soft" }, `${cell.pod ?? "It has no pod"}, endpoint ${cell.endpoint}. ${text}`)));
    }
    let parts;
    try {
      parts = this.facts(await get(`/api/endpoint/${cell.endpoint}/about`));
    } catch (error) {
      parts = h("section", { class: "panel", "aria-label": "Who it is" }, h("h2", {}, "Who it is"), h("p", { class: "soft" }, error.message));
    }
    if (this.cell === cell) put(this.about, parts);
  }

  facts(about) {
    const labels = (list) => (list.length ? h("ul", { class: "labels" }, list.map((label) => h("li", {}, label))) : undefined);
    const enforced = [about["ingress-enforced"] && "ingress", about["egress-enforced"] && "egress"].filter(Boolean);
    const members = [
      ["Pod", about.pod], ["Addresses", about.addresses.join(", ")], ["Identity", String(about.identity)],
      ["Labels", labels(about.labels)], ["Other labels", labels(about["further-labels"])],
      ["Interface", about.interface.replace(/^interface /, "")], ["Container", about.container],
      ["Enforced", enforced.length ? enforced.join(" and ") : "nothing: all may pass"],
    ];
    const policies = about.policies.map((policy) => h("li", {}, `${policy.kind} ${policy.name} `, h("span", { class: "soft" }, policy.source), policy.error ? h("p", { class: "alert" }, policy.error) : ""));
    return [
      h("section", { class: "panel", "aria-label": "Who it is" }, h("h2", {}, "Who it is"),
        h("dl", { class: "facts" }, members.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))),
      h("section", { class: "panel", "aria-label": "Policies" }, h("h2", {}, "Policies that select it"),
        policies.length ? h("ul", { class: "plain-list" }, policies) : h("p", { class: "soft" }, "None does.")),
    ];
  }

  async askDrops(cell) {
    let parts;
    try {
      parts = await this.dropped(cell);
    } catch (error) {
      parts = h("p", { class: "soft" }, error.message);
    }
    if (this.cell === cell) put(this.drops, parts);
  }

  async dropped(cell) {
    if (!cell.pod) return [h("h2", {}, "Recent drops"), h("p", { class: "soft" }, "It has no pod, by which flows are found.")];
    const { isNow, span, flight } = this.app;
    const filter = `type:drop pod:${cell.pod}`;
    const query = new URLSearchParams({ filter, limit: String(LOOKED) });
    if (!isNow) query.set("until", String(span.until));
    const kept = await get(`/api/flows?${query}`);
    const title = h("h2", {}, "Recent drops ", h("a", { href: `#/flows?filter=${encodeURIComponent(`dropped pod:${cell.pod}`)}` }, "flows"));
    if (kept.none) return [title, h("p", { class: "soft" }, kept.none)];
    const own = kept.flows.filter((flow) => flow.is === "flow" && (flow.from.name === cell.pod || flow.to.name === cell.pod));
    if (!own.length) return [title, h("p", { class: "soft" }, "Nothing of it was dropped, as far as flows are kept.")];
    const end = (one) => `${one.name}${one.port === undefined ? "" : `:${one.port}`}`;
    const rows = own.slice(-DROPS).reverse().map((flow) => h("tr", {},
      h("td", { class: "numeric" }, flight.at(flight.timeAt(flow.at * 1e3))), h("td", {}, end(flow.from)), h("td", {}, end(flow.to)),
      h("td", {}, badge(flow.verdict), " ", flow.kind), h("td", {}, flow.why ? h("code", {}, flow.why) : (flow.denied_by ?? []).join(", "))));
    return [title, h("div", { class: "scroll-x" }, h("table", {},
      h("thead", {}, h("tr", {}, ["At", "From", "To", "Reason", "Why"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)))];
  }
}
