// What a flight recorder kept of one life, indexed. Bounded: the oldest events go first.

import { restores } from "./phases.js";
import { clock, offset, when } from "./words.js";

/** Events that are kept in the page. */
export const EVENTS_MAX = 300_000;

/** How many are forgotten at a time: every list is gone through for it. */
const DROP_EVENTS = 5_000;

/** What the page, scrapers and who else only looks ask for: the beginnings of such outside events. */
const QUESTIONS = /^(GET |names of flows$|endpoints of that name$|a look at the kernel$)/;

/** So many events after a moment, all that was under way then has ended. */
const PENDING_MAX = 20_000;

export class Flight {
  constructor(life) {
    this.life = life;
    /** Number of the last event of those of which not all are there. */
    this.sparse = life?.overwritten ?? 0;
    this.events = [];
    /** Time of each event, never going back: records of one moment are not written in its order. */
    this.times = [];
    this.cells = new Map();
    this.messages = new Map();
    this.roots = new Map();
    this.waits = new Map();
    this.states = new Map();
    /** Messages that each actor was sent, its waits, and what followed from each root: oldest first. */
    this.inboxes = new Map();
    this.waitsOf = new Map();
    this.stepsOf = new Map();
    this.phases = [];
    this.crashes = [];
    this.kernel = [];
    this.failed = [];
    this.dropped = 0;
    this.lastSeq = 0;
    this.words = new Map();
    /** Pods by the numbers of their endpoints. */
    this.pods = new Map();
    /** Whether times are shown as the clock had them, and not since the life began. */
    this.clockwise = false;
    this.live = new Moment(this.sparse);
  }

  /** Takes events in, in the order of their numbers. */
  add(events) {
    for (const event of events) {
      if (event.seq <= this.lastSeq) continue;
      this.lastSeq = event.seq;
      const last = this.times.length ? this.times[this.times.length - 1] : 0;
      this.times.push(Math.max(last, when(event)));
      this.events.push(event);
      this.index(event);
      this.live.apply(event);
    }
    if (this.events.length > EVENTS_MAX) this.drop(this.events.length - EVENTS_MAX + DROP_EVENTS);
  }

  index(event) {
    switch (event.record) {
      case "root":
        Object.assign(this.root(event.root, event.at), { what: event.what, question: QUESTIONS.test(event.what) });
        break;
      case "spawned":
        Object.assign(this.call(event.cell, event.name), { parent: event.parent, born: event.at, bornSeq: event.seq });
        break;
      case "message": {
        event.kind = this.word(event.kind);
        event.outcome = this.word(event.outcome);
        this.messages.set(event.id, event);
        const root = this.root(event.root, event.enqueued);
        root.messages += 1;
        root.until = Math.max(root.until, event.ended);
        if (event.outcome === "crashed") root.crashed += 1;
        this.cell(event.to);
        append(this.inboxes, event.to, event);
        append(this.stepsOf, event.root, event);
        break;
      }
      case "kernel": {
        event.op = this.word(event.op);
        const root = this.root(event.root, event.submitted);
        if (event.write) root.writes += 1;
        root.until = Math.max(root.until, event.ended);
        this.kernel.push(event);
        if (event.failed) this.failed.push(event);
        append(this.stepsOf, event.root, event);
        break;
      }
      case "crash":
        this.crashes.push(event);
        break;
      case "state":
        append(this.states, event.cell, event);
        break;
      case "wait-began":
        this.wait(event);
        break;
      case "waited":
        Object.assign(this.wait(event), { ended: event.ended, answered: event.answered });
        break;
      case "phase":
        this.phases.push(event);
        break;
      case "stopped":
        this.cell(event.cell).stopped = event.at;
        break;
    }
  }

  /** A wait, from what told of it first. */
  wait(event) {
    // Whom the ring itself cannot name: his birth may not be in the piece that was read.
    if (event.whom_cell) event.whom = this.cells.get(event.whom_cell)?.name ?? event.whom;
    const known = this.waits.get(event.wait);
    if (known) return known;
    this.waits.set(event.wait, event);
    append(this.waitsOf, event.who, event);
    return event;
  }

  /** Waits that had just begun when the record was read; the ends of some may be among its events. */
  begun(waits) {
    for (const wait of waits ?? []) {
      const known = this.wait({ ...wait, record: "wait-began", seq: this.lastSeq });
      if (known.ended === undefined) this.live.waits.set(known.wait, known);
    }
  }

  /** Forgets the oldest events; actors stay. */
  drop(number) {
    // How an endpoint came back is kept with it.
    const last = this.events[number - 1].seq;
    restores(this, this.end, this.endpoints().filter((cell) => cell.bornSeq <= last && this.knowsBirth(cell)));
    const old = this.events.splice(0, number);
    this.times.splice(0, number);
    this.dropped += number;
    for (const event of old) {
      if (event.record === "root") this.roots.delete(event.root);
      else if (event.record === "message") this.messages.delete(event.id);
      else if (event.record === "waited") this.waits.delete(event.wait);
    }
    const first = this.events[0]?.seq ?? Infinity;
    for (const lists of [this.inboxes, this.waitsOf, this.stepsOf, this.states]) {
      for (const [key, list] of lists) {
        trim(list, first);
        if (!list.length) lists.delete(key);
      }
    }
    for (const list of [this.kernel, this.failed, this.crashes]) trim(list, first);
    this.sparse = Math.max(this.sparse, first - 1);
  }

  /** Whether the record tells how an actor began, and all that came then. */
  knowsBirth(cell) {
    return cell.bornSeq > this.sparse;
  }

  /** One copy of each word: thousands of messages share a few kinds. */
  word(text) {
    const known = this.words.get(text);
    if (known !== undefined) return known;
    this.words.set(text, text);
    return text;
  }

  cell(id) {
    let cell = this.cells.get(id);
    if (!cell) {
      const name = `actor ${id}`;
      cell = { id, name, title: name, parent: null, born: undefined, stopped: undefined, endpoint: undefined, pod: undefined };
      this.cells.set(id, cell);
    }
    return cell;
  }

  /** Gives an actor its name: of an endpoint the pod is what people know. */
  call(id, name) {
    const [, number, pod] = /^endpoint (\d+)(?: \((.*)\))?$/.exec(name) ?? [];
    const endpoint = number === undefined ? undefined : Number(number);
    if (pod) this.pods.set(endpoint, pod);
    return Object.assign(this.cell(id), { name, endpoint, pod, title: pod ?? name });
  }

  /** A text that names endpoints by number, with their pods instead. */
  podded(text) {
    if (!text?.includes("endpoint")) return text;
    return text
      .replace(/\bendpoint (\d+)(?: \(([^)]*)\))?/g, (all, number, pod) => pod ?? this.pods.get(Number(number)) ?? all)
      .replace(/\/endpoint\/(\d+)\b/g, (all, number) => (this.pods.has(Number(number)) ? `/endpoint/${this.pods.get(Number(number))}` : all));
  }

  root(id, at) {
    let root = this.roots.get(id);
    if (!root) {
      root = { root: id, what: id ? `event ${id}` : "timers and the start", at, until: at, messages: 0, writes: 0, crashed: 0, question: false };
      this.roots.set(id, root);
    }
    return root;
  }

  nameOf(id) {
    if (id === null || id === undefined) return "outside";
    return this.cells.get(id)?.title ?? `actor ${id}`;
  }

  /** Names of actors as the agent itself tells them; the ring may have lost their birth. */
  learn(actors) {
    for (const actor of actors) this.call(actor.id, actor.name).parent = actor.parent;
  }

  get begin() {
    return this.life?.started_ns || this.times[0] || 0;
  }

  /** A time of the life's own clock, as nanoseconds since 1970. */
  unix(time) {
    return (this.life?.started_unix_ns ?? 0) + (time - this.begin);
  }

  /** A moment of the calendar by the life's own clock. */
  timeAt(unixNs) {
    return this.begin + (unixNs - (this.life?.started_unix_ns ?? 0));
  }

  /** A time in words, as people want it: by the clock, or since the life began. */
  at(time) {
    return this.clockwise ? clock(this.unix(time)) : offset(time - this.begin);
  }

  get end() {
    return this.times.length ? this.times[this.times.length - 1] : this.begin;
  }

  /** Index of the event with that number, or of the last before it. */
  indexOf(seq) {
    let [low, high] = [0, this.events.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.events[middle].seq <= seq) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Index of the last event at or before that time. */
  indexAt(time) {
    let [low, high] = [0, this.times.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.times[middle] <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The actor of an endpoint, by its number or its pod: the youngest of that name. */
  endpointCell(id) {
    let found;
    for (const cell of this.cells.values()) if (cell.endpoint !== undefined && (cell.endpoint === id || cell.pod === id)) found = cell;
    return found;
  }

  /** Whether an event is a part of a question that only looks. */
  isQuestion(event) {
    if (event.root !== undefined) return this.roots.get(event.root)?.question === true;
    return event.who === null && QUESTIONS.test(event.why ?? "");
  }

  endpoints() {
    return [...this.cells.values()].filter((cell) => cell.endpoint !== undefined);
  }

  /** How everything was once the event at that index was done. */
  moment(index) {
    if (index >= this.events.length - 1) {
      this.live.at = this.end;
      return this.live;
    }
    // While somebody stays at a moment, only what had not ended then can still change it.
    const key = `${this.events[index].seq} ${this.dropped} ${Math.min(PENDING_MAX, this.events.length - index)}`;
    if (this.kept?.key === key) return this.kept.moment;
    const moment = new Moment(this.sparse);
    this.kept = { key, moment };
    for (let i = 0; i <= index; i += 1) moment.apply(this.events[i]);
    moment.at = this.times[index] ?? this.begin;
    // Messages and waits are recorded at their end: what was under way then comes later in the record.
    for (let i = index + 1; i < this.events.length; i += 1) {
      const event = this.events[i];
      if (event.record === "message" && event.enqueued <= moment.at) moment.pending(event);
      else if (event.since <= moment.at && !(event.ended <= moment.at)) moment.waits.set(event.wait, event);
    }
    return moment;
  }
}

function append(lists, key, item) {
  const list = lists.get(key);
  if (list) list.push(item);
  else lists.set(key, [item]);
}

/** Takes events from before that number out of a list. */
function trim(list, seq) {
  let old = 0;
  while (old < list.length && list[old].seq < seq) old += 1;
  if (old) list.splice(0, old);
}

/** How everything was at one moment. */
export class Moment {
  constructor(sparse) {
    this.at = 0;
    /** Number of the last event, and of the last of those of which not all are there. */
    this.seq = 0;
    this.sparse = sparse;
    this.cells = new Map();
    this.waits = new Map();
  }

  of(cell) {
    let found = this.cells.get(cell);
    if (!found) {
      found = {
        alive: true, depth: 0, oldest: undefined, handling: undefined, handled: 0, refused: 0,
        waited: 0, busy: 0, longestWait: 0, longestBusy: 0, crashes: 0, lastCrash: undefined,
        state: undefined, why: undefined, since: undefined,
      };
      this.cells.set(cell, found);
    }
    return found;
  }

  apply(event) {
    // Where events were overwritten before they were read, the end of a wait may be among them.
    if (event.seq > this.seq + 1 && this.seq > this.sparse) this.waits.clear();
    this.seq = event.seq;
    switch (event.record) {
      case "spawned":
        this.of(event.cell).alive = true;
        break;
      case "message": {
        const cell = this.of(event.to);
        if (event.outcome === "refused") cell.refused += 1;
        if (event.outcome !== "handled" && event.outcome !== "crashed") break;
        const [waited, busy] = [event.started - event.enqueued, event.ended - event.started];
        cell.handled += 1;
        cell.waited += waited;
        cell.busy += busy;
        if (waited > cell.longestWait) cell.longestWait = waited;
        if (busy > cell.longestBusy) cell.longestBusy = busy;
        break;
      }
      case "crash": {
        const cell = this.of(event.cell);
        cell.crashes += 1;
        cell.lastCrash = event;
        break;
      }
      case "state": {
        const cell = this.of(event.cell);
        cell.state = event.to;
        cell.why = event.why;
        cell.since = event.at;
        break;
      }
      case "wait-began":
        this.waits.set(event.wait, event);
        break;
      case "waited":
        this.waits.delete(event.wait);
        break;
      case "stopped":
        this.of(event.cell).alive = false;
        break;
    }
  }

  pending(event) {
    const cell = this.of(event.to);
    if (event.started > this.at) {
      if (event.outcome === "absorbed" || event.outcome === "refused") return;
      cell.depth += 1;
      if (cell.oldest === undefined || event.enqueued < cell.oldest) cell.oldest = event.enqueued;
    } else if (event.ended > this.at) {
      cell.handling = event;
    }
  }

  /** The state of an actor in one word. */
  stateOf(cell, flight) {
    const now = this.cells.get(cell.id);
    if (now && !now.alive) return "stopped";
    if (now?.state) return now.state;
    const first = flight.states.get(cell.id)?.[0];
    if (first && first.at > this.at) return first.from;
    if (cell.born !== undefined && cell.born > this.at) return "not yet born";
    return "alive";
  }
}
