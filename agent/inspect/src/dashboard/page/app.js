// The page: which life, which view, which moment; keys; and the live stream. All of it is in the address.

import { ActorsView } from "./actors.js";
import { CompareView } from "./compare.js";
import { byId, h, put, say } from "./dom.js";
import { EndpointsView } from "./endpoints.js";
import { EventsView } from "./events.js";
import { Find } from "./find.js";
import { Flows } from "./flows.js";
import { FlowsView } from "./flowview.js";
import { CausesView } from "./causes.js";
import { keyOf, lifeChoice } from "./lives.js";
import { read, write } from "./link.js";
import { MapView } from "./map.js";
import { RestoreView } from "./restore.js";
import { faults, follow, get, lives, load } from "./source.js";
import { themes } from "./theme.js";
import { TimeBar } from "./timebar.js";
import { WaitsView } from "./waits.js";
import { count, many } from "./words.js";

const VIEWS = [
  ["actors", "Actors", ActorsView],
  ["restore", "Restore", RestoreView],
  ["waits", "Waits", WaitsView],
  ["causes", "Causes", CausesView],
  ["endpoints", "Endpoints", EndpointsView],
  ["flows", "Flows", FlowsView],
  ["map", "Map", MapView],
  ["events", "Events", EventsView],
  ["compare", "Compare", CompareView],
];

/** How often what is seen may change while events stream in, milliseconds. */
const REFRESH_MS = 400;
/** How long the address may stay behind what is shown, milliseconds: browsers allow few changes. */
const ADDRESS_MS = 200;
/** A fault that ends a life is later than its last event, but not by more than this, nanoseconds. */
const FAULT_LATE_NS = 1e8;
/** How often the agent is asked for what the ring cannot know: mailboxes' contents. */
const ACTORS_MS = 1_000;

class App {
  constructor() {
    this.lives = [];
    this.flight = undefined;
    /** What the agent says of its actors now; `undefined` if no agent is asked. */
    this.actors = undefined;
    this.lost = 0;
    /** Whether what only looks, as this page and scrapers do, is shown. */
    this.questions = false;
    this.views = new Map();
    this.time = new TimeBar(() => {
      this.refresh();
      this.noted();
    });
    this.flows = new Flows(this);
    this.find = new Find(this);
  }

  async start() {
    themes(byId("theme"), () => this.view?.update());
    this.navigation();
    this.keys();
    byId("help").addEventListener("click", () => this.help());
    window.addEventListener("hashchange", () => this.route());
    // Where the contents are drawn on canvases, a new width means drawing anew.
    window.addEventListener("resize", () => this.later());
    try {
      const { query } = read(location.hash);
      await this.choose(query.get("life") ?? undefined, query);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Lists the lives and shows one: that which is asked for, or the first. */
  async choose(wanted, query) {
    this.lives = await lives();
    const named = this.lives.find((one) => keyOf(this.lives, one) === wanted || one.id === wanted);
    const life = named ?? this.lives[0];
    if (!life) throw new Error("there is no flight record yet");
    if (wanted !== undefined && !named) this.tell(`Life ${wanted} is no longer kept; this is ${life.name}.`);
    put(byId("life"), lifeChoice(this.lives, life.id, (id) => this.show(id).catch((error) => this.fail(error))));
    await this.show(life.id, named && query);
  }

  /** Shows a life: at its end, or where an address says. */
  async show(id, query) {
    this.stop?.();
    this.stop = undefined;
    this.actors = undefined;
    this.lost = 0;
    this.lifeId = id;
    if (!query) this.forget();
    const life = this.lives.find((one) => one.id === id);
    this.connection("", "reading …");
    let routed = false;
    const flight = await load(id, (flight) => {
      if (this.lifeId !== id) return;
      this.flight = flight;
      if (!routed) this.time.show(flight, this.place(query));
      routed ||= this.route() || true;
      this.connection("", `reading … ${count(flight.events.length)}`);
      this.later();
    });
    if (this.lifeId !== id) return;
    this.flight = flight;
    this.time.name(life.live);
    this.time.refresh();
    this.route();
    const marks = life.live ? [] : await faults(id).catch(() => []);
    if (this.lifeId !== id) return;
    const own = marks.map((fault) => ({ ...fault, at: flight.timeAt(fault.at_unix_ns) }));
    this.time.mark(own.filter((fault) => fault.at >= flight.begin && fault.at <= flight.end + FAULT_LATE_NS));
    if (life.live) this.listen();
    else this.connection("", `record · ${many(flight.events.length, "event")}`);
    document.body.dataset.ready = id;
  }

  /** The moment and the range that an address says, by the life's clock. */
  place(query) {
    const number = (name) => (query?.has(name) && Number.isFinite(Number(query.get(name))) ? Number(query.get(name)) : undefined);
    const [seq, from, till] = ["at", "from", "till"].map(number);
    const { begin } = this.flight;
    return { seq, range: from !== undefined && till > from ? { from: begin + from, till: begin + till } : undefined };
  }

  /** Follows the life that is being lived. */
  listen() {
    const flight = this.flight;
    const stream = follow(flight.life.number, flight.lastSeq, {
      heard: (events, lost) => {
        flight.add(events);
        this.lost += lost;
        this.later();
      },
      state: (state) => this.connection(state, state === "live" ? "live" : "agent does not answer"),
      reborn: () => {
        this.tell("The agent restarted; this is its next life.");
        this.choose("current").catch((error) => this.fail(error));
      },
    });
    const ask = async () => {
      if (this.time.following && !document.hidden) {
        try {
          this.actors = new Map((await get("/api/actors")).map((actor) => [actor.id, actor]));
          flight.learn(this.actors.values());
          this.later();
        } catch {
          // The stream says that the agent is away.
        }
      }
      timer = setTimeout(ask, ACTORS_MS);
    };
    let timer = setTimeout(ask, 0);
    this.stop = () => {
      clearTimeout(timer);
      stream();
    };
  }

  connection(state, text) {
    const place = byId("connection");
    place.dataset.state = state;
    say(place, text);
  }

  /** Says something to those who do not see. */
  tell(text) {
    say(byId("told"), text);
  }

  fail(error) {
    this.connection("lost", "nothing to show");
    put(byId("main"), h("div", { class: "view" }, h("p", { class: "alert", role: "alert" }, error.message)));
  }

  /** Draws anew soon, but not more often than eyes can follow. */
  later() {
    if (this.timer) return;
    const wait = Math.max(0, REFRESH_MS - (performance.now() - (this.drawn ?? 0)));
    this.timer = setTimeout(() => requestAnimationFrame(() => {
      this.timer = undefined;
      this.refresh();
    }), wait);
  }

  refresh() {
    if (!this.flight) return;
    this.drawn = performance.now();
    this.moment = this.time.moment;
    if (this.time.following) this.time.refresh();
    this.view?.update();
    this.tallies();
    // What has been drawn, for those who measure.
    document.body.dataset.seq = String(this.flight.lastSeq);
  }

  /** Whether the newest moment of a running agent is shown. */
  get isNow() {
    return this.time.following && Boolean(this.lives.find((one) => one.id === this.lifeId)?.live);
  }

  /** Whether an event is hidden, as it only looks. */
  isHidden(event) {
    return !this.questions && this.flight.isQuestion(event);
  }

  /** Shows what only looks, or hides it. */
  ask(questions) {
    this.questions = questions;
    this.refresh();
    this.noted();
  }

  /** The part of the life that is looked at, up to the moment, in microseconds since 1970. */
  get span() {
    const { flight, moment, time } = this;
    const micros = (at) => Math.floor(flight.unix(at) / 1e3);
    return { since: time.range && micros(time.range.from), until: micros(moment.at) + 1 };
  }

  go(hash) {
    if (location.hash === hash) this.route();
    else location.hash = hash;
  }

  /** Writes into the address what is shown, a little later. */
  noted() {
    this.noting ??= setTimeout(() => {
      this.noting = undefined;
      this.note();
    }, ADDRESS_MS);
  }

  note() {
    if (!this.flight || !this.view) return;
    const { flight, time } = this;
    const life = this.lives.find((one) => one.id === this.lifeId);
    const address = write(this.viewId, this.view.rest ?? [], {
      ...this.view.link?.(),
      life: keyOf(this.lives, life), at: time.seq,
      from: time.range && Math.round(time.range.from - flight.begin), till: time.range && Math.round(time.range.till - flight.begin),
      clock: flight.clockwise, questions: this.questions,
    });
    if (location.hash !== address) history.replaceState(null, "", address);
  }

  /** Takes out of the address which life, moment and range it was about: another life is shown. */
  forget() {
    const { view, rest, query } = read(location.hash);
    if (!query.has("life")) return;
    for (const name of ["life", "at", "from", "till"]) query.delete(name);
    history.replaceState(null, "", write(view, rest, Object.fromEntries(query)));
  }

  /** What an address that somebody followed says of life, moment and range; true if it is read anew. */
  followed(query) {
    if (!query.has("life")) return false;
    const life = this.lives.find((one) => keyOf(this.lives, one) === query.get("life"));
    if (life && life.id !== this.lifeId) {
      this.choose(query.get("life"), query).catch((error) => this.fail(error));
      return true;
    }
    const { seq, range } = this.place(query);
    Object.assign(this.time, { seq, range });
    this.flight.clockwise = query.has("clock");
    this.questions = query.has("questions");
    this.time.refresh();
    return false;
  }

  route() {
    if (!this.flight) return false;
    if (location.hash === "#main") return false;
    const { view: name, rest, query } = read(location.hash);
    if (this.followed(query)) return false;
    const [id, title, View] = VIEWS.find(([known]) => known === name) ?? VIEWS[0];
    if (!this.views.has(id)) this.views.set(id, new View(this));
    const view = this.views.get(id);
    for (const link of byId("nav").querySelectorAll("a")) {
      if (link.dataset.view === id) {
        link.setAttribute("aria-current", "page");
        link.scrollIntoView({ block: "nearest", inline: "nearest" });
      } else link.removeAttribute("aria-current");
    }
    document.title = `${title} · Volvox`;
    this.moment = this.time.moment;
    if (this.view !== view) {
      this.view = view;
      put(byId("main"), view.element);
    }
    this.viewId = id;
    if (!view.usesFlows) this.flows.close();
    view.show(rest, query);
    this.note();
    this.tallies();
    return true;
  }

  navigation() {
    put(byId("nav"), h("ul", {}, VIEWS.map(([id, title], place) => h("li", {}, h("a", {
      href: `#/${id}`, "data-view": id, "aria-keyshortcuts": String(place + 1),
    }, h("span", {}, title), h("span", { class: "tally", "data-tally": id }))))));
  }

  /** Small numbers beside the views' names. */
  tallies() {
    const set = (id, text, bad) => {
      const place = byId("nav").querySelector(`[data-tally="${id}"]`);
      say(place, text);
      place.classList.toggle("bad", Boolean(bad));
    };
    const { flight, moment } = this;
    set("waits", moment.waits.size ? count(moment.waits.size) : "");
    set("endpoints", count(flight.endpoints().length || 0));
    let causes = 0;
    for (const root of flight.roots.values()) if (this.questions || !root.question) causes += 1;
    set("causes", count(causes));
    const crashes = flight.crashes.length;
    set("actors", crashes ? `${crashes} ✕` : "", crashes > 0);
  }

  keys() {
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("dialog[open]")) return;
      const writing = event.target.closest("input:not([type=range]), select, textarea");
      if (event.key === "/" && !writing) this.find.focus();
      else if (writing) return;
      else if (event.key >= "1" && event.key <= String(VIEWS.length)) this.go(`#/${VIEWS[event.key - 1][0]}`);
      else if (event.key === "[") this.time.step(-1);
      else if (event.key === "]") this.time.step(1);
      else if (event.key === "{") this.time.step(-100);
      else if (event.key === "}") this.time.step(100);
      else if (event.key === "l" || event.key === "L") this.time.follow();
      else if (event.key === "c" || event.key === "C") this.time.byClock(!this.flight?.clockwise);
      else if (event.key === "+") this.time.zoomBy(0.5);
      else if (event.key === "-") this.time.zoomBy(2);
      else if (event.key === "0") this.time.zoom(undefined);
      else if (event.key === "?") this.help();
      else return;
      event.preventDefault();
    });
  }

  help() {
    const keys = [
      [`1 … ${VIEWS.length}`, "the views"], ["/", "search"], ["[ ]", "one event back, one on"],
      ["{ }", "a hundred events back, a hundred on"], ["L", "to the end, or live"], ["C", "times by the clock, or since the start"],
      ["+ −", "closer to the moment, or farther away"], ["0", "the whole life"],
      ["↑ ↓", "rows of a list; Enter opens"], ["← →", "fold and unfold an actor's children"], ["?", "this"],
    ];
    const dialog = byId("help-dialog");
    put(dialog, h("h2", { id: "help-title" }, "Keys"),
      h("dl", {}, keys.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
      h("p", { class: "soft" }, "Everything here is read from the flight recorder; nothing on this page changes the agent."),
      h("form", { method: "dialog" }, h("button", { autofocus: true }, "Close")));
    dialog.showModal();
  }
}

const app = new App();
app.start();
