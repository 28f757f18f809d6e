// Where the page gets what it shows: the agent, or a file that `volvox dashboard` opened.

import { EVENTS_MAX, Flight } from "./flight.js";

/** Events asked for at a time: few enough to be taken in between two frames. */
const PAGE_EVENTS = 10_000;

/** Reads JSON; an error is the server's own words. */
export async function get(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) {
    const words = await answer.text();
    let text = words;
    try {
      text = JSON.parse(words);
    } catch {
      // Not JSON: as it is.
    }
    throw new Error(typeof text === "string" && text ? text : `${path}: ${answer.status}`);
  }
  return answer.json();
}

/** The lives that can be looked at. */
export function lives() {
  return get("/api/lives");
}

/** Faults that somebody caused in a life, as they were noted beside its record. */
export function faults(id) {
  return get(`/api/faults?life=${encodeURIComponent(id)}`);
}

/** Lets the browser draw and listen before more is done. */
function breath() {
  return new Promise((go) => setTimeout(go, 0));
}

/** Reads the whole flight of a life, page by page; `progress` is told after each. */
export async function load(id, progress) {
  let flight;
  let first;
  for (let after = 0; ; ) {
    const page = await get(`/api/flight?life=${encodeURIComponent(id)}&after=${after}&limit=${PAGE_EVENTS}`);
    if (flight && page.life.number !== flight.life.number) return load(id, progress);
    flight ??= new Flight(page.life);
    first ??= page.life.overwritten;
    flight.life = page.life;
    flight.add(page.events);
    progress?.(flight);
    // Whoever lives on may write quicker than this reads: the stream brings the rest.
    if (page.events.length < PAGE_EVENTS || flight.lastSeq >= first + EVENTS_MAX / 2) {
      flight.begun(page.life.waits);
      return flight;
    }
    after = flight.lastSeq;
    await breath();
  }
}

/**
 * Follows the life that is being lived. `heard(events, lost)` for each batch; `state(text)` when the
 * connection changes; `reborn()` when another life began. Returns how to stop.
 */
export function follow(life, after, { heard, state, reborn }) {
  let stream;
  let retry;
  let seen = after;
  const open = () => {
    stream = new EventSource(`/api/live?after=${seen}&life=${life}`);
    stream.addEventListener("open", () => state("live"));
    stream.addEventListener("batch", (message) => {
      const { events, lost } = JSON.parse(message.data);
      if (events.length) seen = events[events.length - 1].seq;
      heard(events, lost);
    });
    stream.addEventListener("life", () => {
      close();
      reborn();
    });
    stream.addEventListener("error", () => {
      // The browser's own retry would ask for events that have been seen since.
      stream.close();
      state("lost");
      retry = setTimeout(open, 500);
    });
  };
  const close = () => {
    clearTimeout(retry);
    stream.close();
  };
  open();
  return close;
}
