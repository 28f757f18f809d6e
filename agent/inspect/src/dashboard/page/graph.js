// Who waits for whom, as a graph: equal waiters stand together, rings are found, columns are laid out.

/** Fewer equal waiters than this are drawn one by one. */
const GROUP_MIN = 4;

/** A name for whom a wait is for: an actor's or a port's. */
function target(wait) {
  return wait.whom_cell === null || wait.whom_cell === undefined ? `port:${wait.whom}` : `cell:${wait.whom_cell}`;
}

function source(wait) {
  return wait.who === null || wait.who === undefined ? "outside" : `cell:${wait.who}`;
}

/** Nodes that can reach themselves: strongly connected sets of more than one, or a node that waits for itself. */
export function cycles(edges) {
  const next = new Map();
  for (const { from, to } of edges) {
    if (!next.has(from)) next.set(from, []);
    next.get(from).push(to);
  }
  const [order, low, stack, on, found] = [new Map(), new Map(), [], new Set(), []];
  const visit = (start) => {
    // By hand instead of by recursion: a chain may be as long as a node has actors.
    const work = [[start, 0]];
    while (work.length) {
      const top = work[work.length - 1];
      const [node, at] = top;
      if (at === 0) {
        order.set(node, order.size);
        low.set(node, order.get(node));
        stack.push(node);
        on.add(node);
      }
      const to = (next.get(node) ?? [])[at];
      if (to !== undefined) {
        top[1] += 1;
        if (!order.has(to)) work.push([to, 0]);
        else if (on.has(to)) low.set(node, Math.min(low.get(node), order.get(to)));
        continue;
      }
      work.pop();
      if (work.length) {
        const above = work[work.length - 1][0];
        low.set(above, Math.min(low.get(above), low.get(node)));
      }
      if (low.get(node) !== order.get(node)) continue;
      const ring = [];
      for (let popped; popped !== node;) {
        popped = stack.pop();
        on.delete(popped);
        ring.push(popped);
      }
      if (ring.length > 1 || (next.get(node) ?? []).includes(node)) found.push(ring.reverse());
    }
  };
  for (const node of next.keys()) if (!order.has(node)) visit(node);
  return found;
}

/** Nodes and edges of the open waits, with columns and rows; equal endpoints are one node. */
export function layout(waits, flight) {
  const raw = [...waits].map((wait) => ({ from: source(wait), to: target(wait), wait }));
  const rings = cycles(raw);
  const inRing = new Map(rings.flatMap((ring, number) => ring.map((node) => [node, number])));
  const waited = new Set(raw.map((edge) => edge.to));
  const sets = new Map();
  for (const { from, to } of raw) {
    const cell = from.startsWith("cell:") ? flight.cells.get(Number(from.slice(5))) : undefined;
    if (cell?.endpoint === undefined || inRing.has(from) || waited.has(from)) continue;
    const all = sets.get(from) ?? new Set();
    all.add(to);
    sets.set(from, all);
  }
  const groups = new Map();
  for (const [from, all] of sets) {
    const key = `group:${[...all].sort().join(",")}`;
    groups.set(key, [...(groups.get(key) ?? []), from]);
  }
  const groupOf = new Map();
  for (const [key, members] of groups) {
    if (members.length >= GROUP_MIN) for (const member of members) groupOf.set(member, key);
  }
  const nodes = new Map();
  const node = (id) => {
    const key = groupOf.get(id) ?? id;
    if (!nodes.has(key)) nodes.set(key, { id: key, members: new Set(), column: 0, ring: inRing.get(id) });
    nodes.get(key).members.add(id);
    return nodes.get(key);
  };
  const edges = new Map();
  for (const { from, to, wait } of raw) {
    const [a, b] = [node(from), node(to)];
    const key = `${a.id}>${b.id}`;
    const edge = edges.get(key) ?? { from: a, to: b, waits: [] };
    edge.waits.push(wait);
    edges.set(key, edge);
  }
  const list = [...nodes.values()];
  columns(list, [...edges.values()]);
  return { nodes: list, edges: [...edges.values()], rings };
}

/** A waiter stands left of whom it waits for; a ring's members stand under each other. */
function columns(nodes, edges) {
  for (let round = 0; round < nodes.length; round += 1) {
    let moved = false;
    for (const { from, to } of edges) {
      const ring = from.ring !== undefined && from.ring === to.ring;
      const wanted = from.column + (ring || from === to ? 0 : 1);
      if (to.column < wanted && wanted <= nodes.length) {
        to.column = wanted;
        moved = true;
      }
    }
    if (!moved) break;
  }
  // From left to right, each beside those that wait for it: fewer edges cross.
  const beside = (node) => {
    const rows = edges.filter((edge) => edge.to === node && edge.from.column < node.column).map((edge) => edge.from.row);
    return rows.length ? rows.reduce((sum, row) => sum + row, 0) / rows.length : Infinity;
  };
  const last = Math.max(0, ...nodes.map((node) => node.column));
  for (let column = 0; column <= last; column += 1) {
    const here = nodes.filter((node) => node.column === column).map((node) => ({ node, at: beside(node) }));
    here.sort((a, b) => (a.at === b.at ? b.node.members.size - a.node.members.size || (a.node.id < b.node.id ? -1 : 1) : a.at - b.at));
    here.forEach(({ node }, row) => { node.row = row; });
  }
}
