// Who waits for whom at this moment: a graph, the rings in it, and the same as a table.

import { h, put, s, say } from "./dom.js";
import { layout } from "./graph.js";
import { endpointPage } from "./link.js";
import { Rows } from "./rows.js";
import { Questions } from "./questions.js";
import { many, span } from "./words.js";

const [WIDTH, HEIGHT, GAP_X, GAP_Y] = [168, 46, 150, 22];
/** Nodes drawn at most; the table has all. */
const NODES_MAX = 60;

const COLUMNS = [
  { title: "Who", width: "minmax(110px, 1fr)" },
  { title: "Waits for", width: "minmax(100px, 1fr)" },
  { title: "About", width: "minmax(160px, 2.2fr)" },
  { title: "Since", width: "84px", numeric: true },
  { title: "Gives up in", width: "90px", numeric: true },
];

export class WaitsView {
  constructor(app) {
    this.app = app;
    this.summary = h("p");
    this.questions = new Questions(app);
    this.alert = h("div", { class: "alert", role: "alert", hidden: true });
    this.graph = h("div", { class: "graph", tabindex: 0, role: "group", "aria-label": "Graph of waits; the table below shows the same" });
    this.rows = new Rows({
      label: "Waits, oldest first", columns: COLUMNS,
      cells: (index) => this.cells(this.list[index]),
      decorate: (row, index) => row.classList.toggle("ring", this.ringed.has(this.list[index])),
      open: (index) => this.open(this.list[index].who),
      empty: "Nobody waits for anybody at this moment.",
    });
    this.element = h("section", { class: "view", "aria-labelledby": "waits-title" },
      h("div", { class: "top" }, h("div", { class: "say" }, h("h1", { id: "waits-title" }, "Waits"), this.summary), h("div", { class: "tools" }, this.questions.element)),
      this.alert, this.graph, this.rows.element);
  }

  show() {
    this.update();
  }

  update() {
    const { moment, flight } = this.app;
    this.questions.update();
    this.list = [...moment.waits.values()].filter((wait) => !this.app.isHidden(wait)).sort((a, b) => a.since - b.since);
    const { nodes, edges, rings } = layout(this.list, flight);
    const oldest = this.list[0];
    say(this.summary, oldest
      ? `${many(this.list.length, "wait")}; the oldest for ${span(moment.at - oldest.since)}: ${flight.nameOf(oldest.who)} for ${flight.podded(oldest.whom)}.`
      : "Nobody waits for anybody at this moment.");
    this.ringed = new Set(edges.filter((edge) => edge.from.ring !== undefined && edge.from.ring === edge.to.ring).flatMap((edge) => edge.waits));
    this.alert.hidden = rings.length === 0;
    const names = rings.map((ring) => [...ring, ring[0]].map((node) => this.name(node)).join(" → "));
    const text = names.length ? `These wait for each other; none goes on before a deadline passes: ${names.join("; ")}` : "";
    say(this.alert, text);
    this.graph.hidden = !nodes.length;
    put(this.graph, nodes.length ? this.draw(nodes, edges) : "");
    this.rows.update(this.list.length);
  }

  name(id) {
    const [kind, rest] = id.split(/:(.*)/);
    if (kind === "cell") return this.app.flight.nameOf(Number(rest));
    return kind === "port" ? rest : "outside";
  }

  draw(all, edges) {
    const nodes = all.slice(0, NODES_MAX);
    const drawn = new Set(nodes);
    const columns = Math.max(...nodes.map((node) => node.column)) + 1;
    const rows = Math.max(...nodes.map((node) => node.row)) + 1;
    const tall = new Map();
    for (const node of nodes) tall.set(node.column, Math.max(tall.get(node.column) ?? 0, node.row + 1));
    const x = (node) => 14 + node.column * (WIDTH + GAP_X);
    // Short columns stand in the middle.
    const y = (node) => 10 + (node.row + (rows - tall.get(node.column)) / 2) * (HEIGHT + GAP_Y);
    const [width, height] = [28 + columns * WIDTH + (columns - 1) * GAP_X + 90, 20 + rows * (HEIGHT + GAP_Y)];
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.words(all, edges) },
      s("defs", {}, s("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" },
        s("path", { d: "M0 0L8 4L0 8z", class: "tip" }))));
    for (const edge of edges) {
      if (!drawn.has(edge.from) || !drawn.has(edge.to)) continue;
      svg.append(...this.edge(edge, x, y));
    }
    for (const node of nodes) svg.append(this.node(node, x(node), y(node)));
    const left = all.length - nodes.length;
    return [svg, left > 0 ? h("p", { class: "soft" }, `${many(left, "more node")} only in the table.`) : ""];
  }

  edge(edge, x, y) {
    const ring = edge.from.ring !== undefined && edge.from.ring === edge.to.ring;
    const [a, b] = [{ x: x(edge.from) + WIDTH, y: y(edge.from) + HEIGHT / 2 }, { x: x(edge.to), y: y(edge.to) + HEIGHT / 2 }];
    let path;
    let at;
    if (b.x > a.x) {
      const middle = (a.x + b.x) / 2;
      path = `M${a.x} ${a.y}C${middle} ${a.y} ${middle} ${b.y} ${b.x - 2} ${b.y}`;
      at = { x: a.x + 8, y: a.y - 6 };
    } else {
      // Back, or within a column: around the right side.
      const far = a.x + 46 + Math.abs(b.y - a.y) / 8;
      path = `M${a.x} ${a.y}C${far} ${a.y} ${far} ${b.y} ${b.x + WIDTH + 2} ${b.y}`;
      at = { x: a.x + (far - a.x) * 0.75 + 6, y: (a.y + b.y) / 2 + 4 };
    }
    const oldest = Math.min(...edge.waits.map((wait) => wait.since));
    const many = edge.waits.length > 1 ? `${edge.waits.length} × ` : "";
    return [
      s("path", { d: path, class: ring ? "edge ring" : "edge", "marker-end": "url(#tip)" }),
      s("text", { x: at.x, y: at.y, class: "edge-text" },
        s("title", {}, edge.waits[0].why), `${many}${span(this.app.moment.at - oldest)}`),
    ];
  }

  node(node, x, y) {
    const members = [...node.members];
    const port = members[0].startsWith("port:");
    const several = members.length > 1;
    const text = several ? `${members.length} endpoints` : this.name(members[0]);
    const below = several
      ? shorten(members.map((id) => this.name(id)).join(", "), 24)
      : port ? "port" : node.ring !== undefined ? "in a ring ⟳" : this.state(members[0]);
    const group = s("g", { transform: `translate(${x} ${y})`, class: `node${node.ring !== undefined ? " ring" : ""}${port ? " port" : ""}` },
      several ? s("rect", { x: 4, y: 4, width: WIDTH, height: HEIGHT, rx: 7, class: "box shade" }) : "",
      s("rect", { width: WIDTH, height: HEIGHT, rx: port ? 22 : 7, class: "box" }),
      s("text", { x: 12, y: 19, class: "node-name" }, shorten(text, 20)),
      s("text", { x: 12, y: 36, class: "node-below" }, below));
    return group;
  }

  state(id) {
    const cell = id.startsWith("cell:") ? this.app.flight.cells.get(Number(id.slice(5))) : undefined;
    return cell ? this.app.moment.stateOf(cell, this.app.flight) : "";
  }

  words(nodes, edges) {
    const of = (node) => (node.members.size > 1 ? `${node.members.size} endpoints` : this.name([...node.members][0]));
    return edges.slice(0, 20).map((edge) => `${of(edge.from)} wait for ${of(edge.to)}`).join("; ");
  }

  cells(wait) {
    const { moment, flight } = this.app;
    return [flight.nameOf(wait.who), flight.podded(wait.whom), flight.podded(wait.why), span(moment.at - wait.since), span(wait.until - moment.at)];
  }

  open(who) {
    const cell = this.app.flight.cells.get(who);
    if (cell?.endpoint !== undefined) this.app.go(endpointPage(cell));
    else if (cell) this.app.go(`#/events?text=${encodeURIComponent(cell.name)}`);
  }
}

function shorten(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
