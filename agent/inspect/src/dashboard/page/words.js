// Numbers, times and records in words.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** 12,345 */
export function count(number) {
  return whole.format(number);
}

/** "1 endpoint", "3 endpoints" */
export function many(number, thing) {
  return `${count(number)} ${thing}${number === 1 ? "" : "s"}`;
}

const names = new Intl.Collator("en", { numeric: true });

/** Orders names as people do: pod-2 stands before pod-10. */
export function byName(a, b) {
  return names.compare(a ?? "", b ?? "");
}

/** A span of nanoseconds with three digits: "1.24 ms". */
export function span(ns) {
  if (ns === undefined || ns === null || Number.isNaN(ns)) return "–";
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return `${digits(ns / 1e3)} µs`;
  if (size < 1e9) return `${digits(ns / 1e6)} ms`;
  if (size < 120e9) return `${digits(ns / 1e9)} s`;
  if (size < 7200e9) return `${Math.floor(ns / 60e9)} min ${Math.round((ns % 60e9) / 1e9)} s`;
  return `${digits(ns / 3600e9)} h`;
}

function digits(value) {
  const size = Math.abs(value);
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** A moment as the time since the life began: "+0.012 345 s". */
export function offset(ns) {
  const sign = ns < 0 ? "−" : "+";
  const micros = Math.round(Math.abs(ns) / 1e3);
  const fraction = String(micros % 1e6).padStart(6, "0");
  return `${sign}${count(Math.floor(micros / 1e6))}.${fraction.slice(0, 3)} ${fraction.slice(3)} s`;
}

/** A moment as a clock shows it, in UTC: "19:04:12.345 678". */
export function clock(unixNs) {
  const micros = Math.floor(unixNs / 1e3);
  const day = new Date(Math.floor(micros / 1e3)).toISOString().slice(11, 23);
  return `${day} ${String(micros % 1e3).padStart(3, "0")}`;
}

/** A moment of the calendar. */
export function calendar(unixNs) {
  if (!unixNs) return "";
  return new Date(unixNs / 1e6).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");
}

/** When an event was: the moment at which it was complete. */
export function when(event) {
  switch (event.record) {
    case "message":
    case "kernel":
    case "phase":
    case "waited":
      return event.ended;
    case "wait-began":
      return event.since;
    default:
      return event.at;
  }
}

/** What is said of each kind of record. */
export const RECORDS = {
  root: "outside event",
  spawned: "actor born",
  message: "message",
  crash: "crash",
  state: "state",
  "wait-began": "long wait begins",
  waited: "wait",
  kernel: "kernel",
  phase: "boot phase",
  stopped: "actor stopped",
};

/** One event as a sentence. */
export function sentence(event, flight) {
  const name = (cell) => flight.nameOf(cell);
  switch (event.record) {
    case "root":
      return flight.podded(event.what);
    case "spawned":
      return `${name(event.cell)} comes to life`;
    case "message": {
      const end = event.outcome === "handled" ? "" : `, ${event.outcome}`;
      return `${event.kind}: ${name(event.from)} → ${name(event.to)}${end}`;
    }
    case "crash":
      return `${name(event.cell)} crashed in ${event.kind}: ${event.cause}`;
    case "state":
      return `${name(event.cell)}: ${event.from} → ${event.to}: ${flight.podded(event.why)}`;
    case "wait-began":
      return `${name(event.who)} waits for ${flight.podded(event.whom)}: ${flight.podded(event.why)}`;
    case "waited":
      return `${name(event.who)} waited for ${flight.podded(event.whom)}${event.answered ? "" : " in vain"}: ${flight.podded(event.why)}`;
    case "kernel":
      return `${name(event.cell)}: ${event.op} ${flight.podded(event.about)}${event.failed ? `: ${event.failed}` : ""}`;
    case "phase":
      return event.name;
    case "stopped":
      return `${name(event.cell)} is no more`;
    default:
      return event.record;
  }
}
