// What followed from one outside event: its messages, kernel steps and state changes, as steps of a
// sequence diagram.

/** Steps of one root that are looked at: what goes on for ever, such as timers, has any number. */
const STEPS_MAX = 4_000;

/** The newest of one root, by the time it began. */
function all(flight, root) {
  const events = (flight.stepsOf.get(root) ?? []).slice(-STEPS_MAX);
  const steps = events.map((event) => event.record === "message"
    ? { event, at: event.enqueued, from: event.from, to: event.to }
    : { event, at: event.submitted, from: event.cell, to: "kernel" });
  return steps.sort((a, b) => a.at - b.at || a.event.seq - b.event.seq);
}

/** From the last thing that happened back to the root, cause by cause, with what was written on the way. */
function longest(flight, steps) {
  let last;
  for (const step of steps) if (!last || step.event.ended > last.event.ended) last = step;
  const kept = new Set();
  const messages = new Set();
  for (let event = last?.event; event && !kept.has(event.seq); event = flight.messages.get(event.cause)) {
    kept.add(event.seq);
    if (event.record === "message") messages.add(event.id);
  }
  return steps.filter(({ event, to }) => kept.has(event.seq) || (to === "kernel" && messages.has(event.cause)));
}

/** What touched one actor, and the messages that led to it. */
function through(flight, steps, cell) {
  const kept = new Set();
  for (const step of steps) {
    if (step.from !== cell && step.to !== cell) continue;
    for (let event = step.event; event && !kept.has(event.seq); event = flight.messages.get(event.cause)) kept.add(event.seq);
  }
  return steps.filter((step) => kept.has(step.event.seq));
}

/** Changes of state of the actors in `steps` while one of its messages was handled. */
function states(flight, steps) {
  const found = [];
  for (const { event, to } of steps) {
    if (event.record !== "message") continue;
    for (const state of flight.states.get(to) ?? []) {
      if (state.at >= event.started && state.at <= event.ended) found.push({ event: state, at: state.at, from: to, to, note: true });
    }
  }
  return found;
}

/** Steps and lifelines of a diagram. `mode`: "longest", "all" or an actor's number. */
export function chain(flight, root, mode) {
  const every = all(flight, root);
  const chosen = mode === "all" ? every : mode === "longest" ? longest(flight, every) : through(flight, every, mode);
  const steps = [...chosen, ...states(flight, chosen)].sort((a, b) => a.at - b.at || a.event.seq - b.event.seq);
  const lines = ["outside"];
  const add = (line) => {
    const id = line ?? "outside";
    if (!lines.includes(id)) lines.push(id);
  };
  const known = new Set(lines);
  for (const { from, to } of steps) {
    for (const line of [from ?? "outside", to]) {
      if (line === "kernel" || known.has(line)) continue;
      known.add(line);
      add(line);
    }
  }
  if (steps.some((step) => step.to === "kernel")) lines.push("kernel");
  return { steps, lines, total: flight.stepsOf.get(root)?.length ?? 0 };
}

/** Actors that a root's messages reached, endpoints last. */
export function reached(flight, root) {
  const cells = new Set();
  for (const event of flight.stepsOf.get(root) ?? []) if (event.record === "message") cells.add(event.to);
  const all = [...cells].map((id) => flight.cell(id));
  return all.sort((a, b) => Number(a.endpoint !== undefined) - Number(b.endpoint !== undefined) || a.title.localeCompare(b.title));
}
