// Who talks to whom: flows by workload or namespace, with what became of them. A picture, and the same as a table.

import { choice, h, put, s, say } from "./dom.js";
import { FlowFilter } from "./flowfilter.js";
import { told } from "./link.js";
import { Rows } from "./rows.js";
import { count, many } from "./words.js";

const [WIDTH, HEIGHT, GAP, HEAD, PAD] = [230, 26, 6, 22, 8];
/** Between senders and receivers at least. */
const BETWEEN = 240;
/** Drawn on each side at most; the table has all. */
const NODES_MAX = 40;
/** Room for a label. */
const LABEL = 62;

const COLUMNS = [
  { title: "From", width: "minmax(140px, 1fr)" },
  { title: "To", width: "minmax(140px, 1fr)" },
  { title: "Ports", width: "minmax(110px, 1fr)" },
  { title: "Forwarded", width: "90px", numeric: true },
  { title: "Dropped", width: "84px", numeric: true },
  { title: "Others", width: "70px", numeric: true },
];
const GROUPS = [["workload", "workload"], ["namespace", "namespace"]];

/** Records that say what became of a packet: what a policy said of it is told again by another one. */
function outcome(flow) {
  if (flow.verdict === "FORWARDED") return "forwarded";
  if (flow.verdict === "DROPPED") return "dropped";
  return flow.verdict === "ALLOWED" || flow.verdict === "DENIED" ? undefined : "others";
}

export class MapView {
  constructor(app) {
    this.app = app;
    this.usesFlows = true;
    this.group = "workload";
    this.edges = [];
    this.summary = h("p");
    this.filter = new FlowFilter(app, "map-filter");
    this.picture = h("div", { class: "graph map", tabindex: 0, role: "group", "aria-label": "Map of who talks to whom; the table below shows the same" });
    this.rows = new Rows({
      label: "Who talks to whom, drops first", columns: COLUMNS,
      cells: (index) => this.cells(this.edges[index]),
      open: (index) => this.open(this.edges[index]),
      decorate: (row, index) => row.classList.toggle("ring", this.edges[index].dropped > 0),
      empty: "Nobody talks to anybody, as far as flows are kept.",
    });
    this.groups = choice("By", GROUPS, this.group, (group) => { this.group = group; this.drawn = undefined; app.refresh(); app.noted(); });
    this.element = h("section", { class: "view", "aria-labelledby": "map-title" },
      h("div", { class: "top" }, h("div", { class: "say" }, h("h1", { id: "map-title" }, "Map"), this.summary), h("div", { class: "tools" }, this.groups)),
      this.filter.element, this.picture, this.rows.element);
  }

  show(_, query) {
    this.app.flows.filter = told(query, "filter", "", this.app.flows.filter);
    this.group = told(query, "by", "workload", this.group);
    this.groups.querySelector("select").value = this.group;
    this.update();
  }

  link() {
    return { filter: this.app.flows.filter, by: this.group === "workload" ? "" : this.group };
  }

  update() {
    const { flows, time } = this.app;
    flows.want();
    this.filter.update();
    const drawn = `${flows.version} ${this.group}`;
    if (this.drawn === drawn) return;
    this.drawn = drawn;
    this.gather(flows.list);
    const dropped = this.edges.filter((edge) => edge.dropped).length;
    say(this.summary, flows.error ? "" : `${time.following ? "" : "Up to the moment: "}${many(this.edges.length, "pair")} in ${many(flows.list.length, "flow")}; ${count(dropped)} with drops.`);
    this.rows.update(this.edges.length);
    // Numbers change with every beat; who is there, seldom.
    const picture = this.edges.map((edge) => `${edge.from.name}>${edge.to.name} ${edge.dropped > 0} ${edge.forwarded > 0}`).sort().join("|");
    if (this.pictured === picture) return this.recount();
    this.pictured = picture;
    this.picture.hidden = !this.edges.length;
    put(this.picture, this.edges.length ? this.draw() : "");
  }

  /** One edge for each pair; a reply belongs to whom it answers. */
  gather(list) {
    const byNamespace = this.group === "namespace";
    const who = (end) => (byNamespace && end.namespace
      ? { name: end.namespace, namespace: end.namespace, terms: [`namespace:${end.namespace}`] }
      : { name: end.group, namespace: end.namespace ?? "", terms: end.group_term.split(" ") });
    const edges = new Map();
    for (const flow of list) {
      const came = flow.is === "flow" ? outcome(flow) : undefined;
      if (!came) continue;
      const [a, b] = flow.reply ? [flow.to, flow.from] : [flow.from, flow.to];
      const [from, to] = [who(a), who(b)];
      const key = `${from.name}>${to.name}`;
      let edge = edges.get(key);
      if (!edge) edges.set(key, (edge = { from, to, forwarded: 0, dropped: 0, others: 0, ports: new Set() }));
      edge[came] += 1;
      if (edge.ports.size < 8) edge.ports.add(b.port === undefined ? flow.protocol ?? "?" : `${b.port}/${flow.protocol}`);
    }
    const size = (edge) => edge.forwarded + edge.dropped + edge.others;
    this.edges = [...edges.values()].sort((a, b) => b.dropped - a.dropped || size(b) - size(a) || (a.from.name < b.from.name ? -1 : 1));
  }

  cells(edge) {
    return [edge.from.name, edge.to.name, [...edge.ports].join(", "), count(edge.forwarded), edge.dropped ? h("strong", { class: "restarts" }, count(edge.dropped)) : "0", count(edge.others)];
  }

  /** The flows of a pair. */
  open(edge) {
    const terms = [...edge.from.terms.map((term) => `from-${term}`), ...edge.to.terms.map((term) => `to-${term}`)];
    this.filter.add(edge.dropped ? [...terms, "dropped"] : terms);
    this.app.go("#/flows");
  }

  /** Places of the nodes of one side, together by namespace. */
  side(end) {
    const nodes = new Map();
    for (const edge of this.edges) {
      if (nodes.size >= NODES_MAX && !nodes.has(edge[end].name)) continue;
      nodes.set(edge[end].name, edge[end]);
    }
    const spaces = new Map();
    for (const node of nodes.values()) {
      const space = node.namespace || "outside the cluster's namespaces";
      if (!spaces.has(space)) spaces.set(space, []);
      spaces.get(space).push(node);
    }
    let y = PAD;
    const places = new Map();
    const boxes = [...spaces].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, members]) => {
      const top = y;
      y += HEAD;
      for (const node of members.sort((a, b) => (a.name < b.name ? -1 : 1))) {
        places.set(node.name, y + HEIGHT / 2);
        y += HEIGHT + GAP;
      }
      y += PAD;
      return { name, top, height: y - top - PAD / 2, members };
    });
    return { places, boxes, height: y };
  }

  draw() {
    const [left, right] = [this.side("from"), this.side("to")];
    const width = Math.max(2 * WIDTH + BETWEEN, (this.picture.clientWidth || 900) - 24);
    const height = Math.max(left.height, right.height);
    const [a, b] = [PAD + WIDTH, width - PAD - WIDTH];
    const drops = this.edges.filter((edge) => edge.dropped).slice(0, 10).map((edge) => `${edge.from.name} to ${edge.to.name}`);
    const words = `${many(this.edges.length, "pair")}; ${drops.length ? `drops from ${drops.join(", from ")}` : "no drops"}`;
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
    this.counts = [];
    // Drops lie above the others.
    const drawn = this.edges.filter((edge) => left.places.has(edge.from.name) && right.places.has(edge.to.name)).reverse();
    const taken = new Map();
    for (const edge of drawn) svg.append(this.edge(edge, a, left.places.get(edge.from.name), b, right.places.get(edge.to.name), taken));
    svg.append(this.boxes(left, PAD, "Senders"), this.boxes(right, b, "Receivers"));
    const more = this.edges.length - drawn.length;
    return [svg, more > 0 ? h("p", { class: "soft" }, `${many(more, "more pair")} only in the table.`) : ""];
  }

  edge(edge, x, y, u, v, taken) {
    const middle = (x + u) / 2;
    // Labels of who talks to the same stand behind each other.
    const place = taken.get(edge.to.name) ?? 0;
    taken.set(edge.to.name, place + 1);
    const labelled = Math.max(x + 60, u - 12 - place * LABEL);
    const text = s("text", { x: labelled, y: along([x, middle, middle, u], [y, y, v, v], labelled) - 4, class: `edge-text${edge.dropped ? " bad" : ""}`, "text-anchor": "end" });
    this.counts.push([edge.from.name, edge.to.name, text]);
    say(text, label(edge));
    return s("g", { class: edge.dropped ? "talk dropped" : "talk", on: { click: () => this.open(edge) } },
      s("title", {}, `${edge.from.name} → ${edge.to.name}, ${[...edge.ports].join(", ")}`),
      s("path", { d: `M${x} ${y}C${middle} ${y} ${middle} ${v} ${u} ${v}`, class: "hit" }),
      s("path", { d: `M${x} ${y}C${middle} ${y} ${middle} ${v} ${u - 7} ${v}`, class: "edge" }),
      s("path", { d: `M${u} ${v}l-9 -4v8z`, class: "tip" }), text);
  }

  boxes({ boxes, places }, x, title) {
    return s("g", { "aria-label": title }, boxes.map((box) => [
      s("rect", { x: x - 4, y: box.top, width: WIDTH + 8, height: box.height, rx: 8, class: "space-box" }),
      s("text", { x: x + 6, y: box.top + 15, class: "node-below" }, box.name),
      box.members.map((node) => [
        s("rect", { x, y: places.get(node.name) - HEIGHT / 2, width: WIDTH, height: HEIGHT, rx: 6, class: "box" }),
        s("text", { x: x + 10, y: places.get(node.name) + 5, class: "node-name" }, s("title", {}, node.name), shorten(short(node), 28)),
      ]),
    ]));
  }

  /** Numbers of edges that are drawn already. */
  recount() {
    const known = new Map(this.edges.map((edge) => [`${edge.from.name}>${edge.to.name}`, edge]));
    for (const [from, to, text] of this.counts ?? []) {
      const edge = known.get(`${from}>${to}`);
      if (edge) say(text, label(edge));
    }
  }
}

function label(edge) {
  const all = edge.forwarded + edge.dropped + edge.others;
  return edge.dropped ? `✕ ${count(edge.dropped)} of ${count(all)}` : count(all);
}

/** Height of a curve at a place; it goes from left to right. */
function along(xs, ys, x) {
  const at = ([a, b, c, d], t) => a * (1 - t) ** 3 + 3 * b * (1 - t) ** 2 * t + 3 * c * (1 - t) * t ** 2 + d * t ** 3;
  let [low, high] = [0, 1];
  for (let round = 0; round < 20; round += 1) {
    const middle = (low + high) / 2;
    if (at(xs, middle) < x) low = middle;
    else high = middle;
  }
  return at(ys, low);
}

/** A name within its namespace's box. */
function short(node) {
  return node.namespace && node.name.startsWith(`${node.namespace}/`) ? node.name.slice(node.namespace.length + 1) : node.name;
}

function shorten(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
