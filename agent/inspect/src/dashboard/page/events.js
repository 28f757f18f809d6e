// Every event of the record, filtered; going through them is going through time.

import { badge } from "./badges.js";
import { choice, h, say } from "./dom.js";
import { told } from "./link.js";
import { Questions } from "./questions.js";
import { Rows } from "./rows.js";
import { count, RECORDS, sentence, span } from "./words.js";

const COLUMNS = [
  { title: "At", width: "126px", numeric: true },
  { title: "Record", width: "130px" },
  { title: "What", width: "minmax(220px, 5fr)" },
  { title: "Took", width: "76px", numeric: true },
  { title: "Because of", width: "minmax(90px, 1.4fr)" },
];

/** Events that are looked through at a time. */
const LOOKED_MAX = 40_000;

export class EventsView {
  constructor(app) {
    this.app = app;
    this.record = "";
    this.text = "";
    this.list = [];
    this.summary = h("p");
    this.input = h("input", {
      type: "search", id: "events-filter", placeholder: "actor, kind, words",
      on: { input: () => { this.text = this.input.value; this.gather(); app.noted(); } },
    });
    this.rows = new Rows({
      label: "Events, oldest first", columns: COLUMNS, height: 28,
      cells: (index) => this.cells(this.app.flight.events[this.at(index)]),
      move: (index) => { this.moving = true; this.app.time.go(this.at(index)); this.moving = false; },
      key: (event, index) => event.key === "Enter" && this.open(this.app.flight.events[this.at(index)]),
      empty: "No event matches.",
    });
    this.record_ = choice("Record", [["", "all"], ...Object.entries(RECORDS), ["trouble", "trouble only"]], "", (record) => { this.record = record; this.gather(); app.noted(); });
    this.questions = new Questions(app);
    this.element = h("section", { class: "view", "aria-labelledby": "events-title" },
      h("div", { class: "top" },
        h("div", { class: "say" }, h("h1", { id: "events-title" }, "Events"), this.summary),
        h("div", { class: "tools" }, h("label", { class: "field" }, h("span", {}, "Filter"), this.input), this.record_, this.questions.element)),
      this.rows.element);
  }

  show(_, query) {
    const text = told(query, "text", "", this.text);
    this.record = query.has("text") ? query.get("record") ?? "" : told(query, "record", "", this.record);
    this.record_.querySelector("select").value = this.record;
    if (this.text !== text) this.text = this.input.value = text;
    this.gather();
  }

  link() {
    return { text: this.text, record: this.record };
  }

  /** Goes to all that followed from the same outside event. */
  open(event) {
    if (this.app.flight.roots.has(event.root)) this.app.go(`#/causes/${event.root}`);
    return true;
  }

  /** Index of the event in row `index`. */
  at(index) {
    return this.list ? this.list[index] : index;
  }

  /** Numbers of the events that match; what was looked at before is not looked at again. */
  gather() {
    const { flight, questions, time } = this.app;
    this.questions.update();
    const words = this.text.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const whole = this.text.trim().toLowerCase();
    const range = time.range && time.bounds;
    const all = !words.length && !this.record && questions && !range;
    const key = JSON.stringify([this.text, this.record, questions, range]);
    if (this.key !== key || this.of !== flight || all !== (this.list === undefined)) {
      this.looked = 0;
      this.list = all ? undefined : [];
    } else if (this.dropped !== flight.dropped) {
      // The oldest have gone: all the others have moved up.
      const gone = flight.dropped - this.dropped;
      this.looked = Math.max(0, this.looked - gone);
      this.list = this.list?.map((index) => index - gone).filter((index) => index >= 0);
    }
    [this.of, this.dropped, this.key] = [flight, flight.dropped, key];
    const end = range ? range[1] + 1 : flight.events.length;
    if (all) this.looked = end;
    else {
      // "endpoint 4" is not "endpoint 42": where all words are an actor's name, that actor is meant.
      const named = !whole ? [] : [...flight.cells.values()].filter((cell) => [cell.name, cell.name.split(" (")[0], cell.pod].some((name) => name?.toLowerCase() === whole)).map((cell) => cell.id);
      const begin = range ? Math.max(range[0], this.looked) : this.looked;
      this.looked = Math.max(begin, Math.min(end, begin + LOOKED_MAX));
      for (let i = begin; i < this.looked; i += 1) {
        if (!this.app.isHidden(flight.events[i]) && this.matches(flight.events[i], words, named)) this.list.push(i);
      }
    }
    // The rest follows with the next frames: nobody is kept waiting for a long record.
    if (this.looked < end) this.app.later();
    this.rows.update(this.list ? this.list.length : flight.events.length);
    this.follow();
    say(this.summary, `${count(this.rows.count)} of ${count(flight.events.length)} events${flight.dropped ? `; ${count(flight.dropped)} older ones are no longer in the page` : ""}.`);
  }

  matches(event, words, named) {
    if (this.record === "trouble") {
      const bad = event.record === "crash" || event.failed || ["crashed", "refused", "discarded"].includes(event.outcome) || event.answered === false;
      if (!bad) return false;
    } else if (this.record && event.record !== this.record) return false;
    if (named.length) {
      return named.some((id) => event.to === id || event.from === id || event.cell === id || event.who === id || event.whom_cell === id);
    }
    if (!words.length) return true;
    const text = sentence(event, this.app.flight).toLowerCase();
    return words.every((word) => text.includes(word));
  }

  update() {
    this.gather();
  }

  /** Shows the event that the time bar stands at. */
  follow() {
    if (this.moving || !this.rows.count) return;
    const wanted = this.app.time.index;
    let [low, high] = [0, this.rows.count - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.at(middle) <= wanted) low = middle;
      else high = middle - 1;
    }
    this.rows.select(low);
  }

  cells(event) {
    const { flight } = this.app;
    const took = ["message", "kernel", "phase", "waited"].includes(event.record) ? event.ended - (event.started ?? event.since) : undefined;
    const root = event.root && event.record !== "root" ? flight.roots.get(event.root) : undefined;
    const bad = event.record === "crash" || event.outcome === "crashed" || event.failed;
    return [
      flight.at(flight.times[flight.indexOf(event.seq)]),
      bad ? badge(event.record === "kernel" ? "failed" : "crashed") : RECORDS[event.record] ?? event.record,
      sentence(event, flight), took === undefined ? "" : span(took),
      root ? h("a", { href: `#/causes/${root.root}` }, flight.podded(root.what)) : "",
    ];
  }
}
