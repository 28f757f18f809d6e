// What an endpoint's time went to, from its birth until it was ready.

/** In the order of a build; `pattern` tells them apart without colour. */
export const PHASES = [
  { id: "mailbox", title: "in a mailbox", pattern: "dots" },
  { id: "handling", title: "handling", pattern: "solid" },
  { id: "identity", title: "identity", pattern: "cross" },
  { id: "policy", title: "policy", pattern: "rising" },
  { id: "permit", title: "permit to build", pattern: "falling" },
  { id: "kernel", title: "kernel", pattern: "solid" },
  { id: "disk", title: "state file", pattern: "level" },
  { id: "other", title: "others", pattern: "upright" },
];

const WHOM = {
  identities: "identity", policy: "policy", "build-queue": "permit",
  kernel: "kernel", "port kernel": "kernel", disk: "disk", "port disk": "disk",
};

/** Which phase a wait for somebody is. */
export function phaseOf(whom) {
  return WHOM[whom] ?? "other";
}

/** So long after an endpoint was ready, nothing of how it became so is still to be recorded. */
const SETTLED_NS = 1e9;

/**
 * For each endpoint of a flight: from birth until first ready (or until it stopped, or until now),
 * in pieces { phase, from, till }. Without those of whose beginning the record has lost events.
 */
export function restores(flight, until, cells = flight.endpoints()) {
  const found = [];
  for (const cell of cells) {
    const from = cell.born;
    if (from === undefined || from > until) continue;
    // Once told, it stays, though its events may go.
    if (cell.restore && cell.restore.till <= until) {
      found.push(cell.restore);
      continue;
    }
    if (!flight.knowsBirth(cell)) continue;
    const states = flight.states.get(cell.id) ?? [];
    const ready = states.find((state) => state.to === "ready");
    const restored = states[0]?.from === "restoring";
    const done = ready !== undefined && ready.at <= until;
    const till = done ? ready.at : Math.min(until, cell.stopped ?? until);
    const one = { cell, id: cell.endpoint, from, till, ready: done, restored };
    one.pieces = pieces(one, marks(flight, one, until));
    if (done && flight.end > till + SETTLED_NS) cell.restore = one;
    found.push(one);
  }
  return found;
}

/** What an endpoint was at, each for a stretch; of two at a time the one that is `over` the other counts. */
function marks(flight, one, until) {
  const list = [];
  for (const wait of flight.waitsOf.get(one.cell.id) ?? []) {
    if (wait.since < one.till) list.push({ phase: phaseOf(wait.whom), from: wait.since, till: wait.ended ?? until, over: 1 });
  }
  for (const message of flight.inboxes.get(one.cell.id) ?? []) {
    if (message.enqueued >= one.till) continue;
    if (message.started > message.enqueued) list.push({ phase: "mailbox", from: message.enqueued, till: message.started, over: 0 });
    if (message.ended > message.started) list.push({ phase: "handling", from: message.started, till: message.ended, over: 2 });
  }
  return list.sort((a, b) => a.from - b.from);
}

/** Cuts the stretch of an endpoint at every edge of a mark; the uppermost mark names the piece. */
function pieces(one, marks) {
  const edges = new Set([one.from, one.till]);
  for (const mark of marks) {
    if (mark.from > one.from && mark.from < one.till) edges.add(mark.from);
    if (mark.till > one.from && mark.till < one.till) edges.add(mark.till);
  }
  const sorted = [...edges].sort((a, b) => a - b);
  const list = [];
  let [next, open] = [0, []];
  for (let i = 0; i + 1 < sorted.length; i += 1) {
    const [from, till] = [sorted[i], sorted[i + 1]];
    while (next < marks.length && marks[next].from <= from) open.push(marks[next++]);
    open = open.filter((mark) => mark.till > from);
    let top;
    for (const mark of open) if (!top || mark.over >= top.over) top = mark;
    const phase = top?.phase ?? "other";
    const last = list[list.length - 1];
    if (last && last.phase === phase) last.till = till;
    else list.push({ phase, from, till });
  }
  return list;
}

/** How long each phase took, all pieces together. */
export function sums(one) {
  const sum = {};
  for (const piece of one.pieces) sum[piece.phase] = (sum[piece.phase] ?? 0) + piece.till - piece.from;
  return sum;
}
