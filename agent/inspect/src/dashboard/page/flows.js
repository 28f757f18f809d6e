// Flows as the page has them: those that are kept up to a moment, or those that come; filtered by the agent.
// Bounded: the oldest go first.

import { get } from "./source.js";

/** Flows that are kept in the page. */
const FLOWS_MAX = 5_000;
/** How many are asked for of those that are kept. */
const ASKED = 1_000;
/** How long somebody may go through time before flows are asked for, milliseconds. */
const SETTLED_MS = 150;
/** How long after a stream broke off it is asked anew, milliseconds. */
const AGAIN_MS = 1_000;

export class Flows {
  constructor(app) {
    this.app = app;
    this.filter = "";
    this.clear();
  }

  clear() {
    this.list = [];
    this.missed = 0;
    this.kept = undefined;
    this.error = undefined;
    /** Counts changes, so that who drew knows whether there is anything new. */
    this.version = (this.version ?? 0) + 1;
  }

  /** Has the flows of the moment that is shown; asks only if it is another one, or another filter. */
  want() {
    const { flight, isNow, lifeId, span } = this.app;
    const key = isNow ? `live ${flight.life.number} ${this.filter}` : JSON.stringify([lifeId, span, this.filter]);
    if (key === this.key) return;
    this.key = key;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(key), SETTLED_MS);
  }

  /** Nobody looks any more. */
  close() {
    clearTimeout(this.timer);
    this.stream?.close();
    this.stream = this.key = undefined;
  }

  async ask(key) {
    this.stream?.close();
    this.stream = undefined;
    const { isNow, span } = this.app;
    const query = new URLSearchParams({ filter: this.filter, limit: String(ASKED) });
    if (!isNow) {
      query.set("until", String(span.until));
      if (span.since) query.set("since", String(span.since));
    }
    let kept;
    try {
      kept = await get(`/api/flows?${query}`);
    } catch (error) {
      if (key !== this.key) return;
      // Who does not answer at all may be back soon: what is known stays.
      if (error instanceof TypeError) {
        this.timer = setTimeout(() => this.ask(key), AGAIN_MS);
        return;
      }
      this.clear();
      this.error = error.message;
      this.app.later();
      return;
    }
    if (key !== this.key) return;
    this.clear();
    if (kept.none) this.error = kept.none;
    else {
      this.list = kept.flows;
      this.kept = kept;
      if (isNow) this.listen(key, kept.next);
    }
    this.app.later();
  }

  listen(key, next) {
    const stream = new EventSource(`/api/flows/live?${new URLSearchParams({ filter: this.filter, from: String(next) })}`);
    this.stream = stream;
    stream.addEventListener("flows", (message) => {
      const { flows, missed } = JSON.parse(message.data);
      this.missed += missed;
      this.list.push(...flows);
      if (this.list.length > FLOWS_MAX) this.list.splice(0, this.list.length - FLOWS_MAX);
      this.version += 1;
      this.app.later();
    });
    stream.addEventListener("error", () => {
      stream.close();
      if (this.key === key) this.timer = setTimeout(() => this.ask(key), AGAIN_MS);
    });
  }
}

/** The words of a filter: apart by blanks, but for what stands between quotation marks. */
export function wordsOf(filter) {
  return filter.match(/(?:"[^"]*"|[^\s"])+/g) ?? [];
}

/** A word of a filter, between quotation marks where it must be. */
export function quoted(word) {
  if (!/\s/.test(word)) return word;
  const colon = word.indexOf(":") + 1;
  return `${word.slice(0, colon)}"${word.slice(colon)}"`;
}
