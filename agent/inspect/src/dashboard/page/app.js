// The page: which life, which view, which moment; keys; and the live stream.

import { ActorsView } from "./actors.js";
import { CompareView } from "./compare.js";
import { byId, choice, h, put, say } from "./dom.js";
import { EndpointsView } from "./endpoints.js";
import { EventsView } from "./events.js";
import { Find } from "./find.js";
import { CausesView } from "./causes.js";
import { RestoreView } from "./restore.js";
import { follow, get, lives, load } from "./source.js";
import { themes } from "./theme.js";
import { TimeBar } from "./timebar.js";
import { WaitsView } from "./waits.js";
import { calendar, count, many } from "./words.js";

const VIEWS = [
  ["actors", "Actors", ActorsView],
  ["restore", "Restore", RestoreView],
  ["waits", "Waits", WaitsView],
  ["causes", "Causes", CausesView],
  ["endpoints", "Endpoints", EndpointsView],
  ["events", "Events", EventsView],
  ["compare", "Compare", CompareView],
];

/** How often what is seen may change while events stream in, milliseconds. */
const REFRESH_MS = 400;
/** How often the agent is asked for what the ring cannot know: mailboxes' contents. */
const ACTORS_MS = 1_000;

class App {
  constructor() {
    this.lives = [];
    this.flight = undefined;
    /** What the agent says of its actors now; `undefined` if no agent is asked. */
    this.actors = undefined;
    this.lost = 0;
    this.views = new Map();
    this.time = new TimeBar(() => this.refresh());
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
      await this.choose();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Lists the lives and shows one: that which is asked for, or the first. */
  async choose(wanted) {
    this.lives = await lives();
    const life = this.lives.find((one) => one.id === wanted) ?? this.lives[0];
    if (!life) throw new Error("there is no flight record yet");
    const options = this.lives.map((one) => [one.id, label(one)]);
    put(byId("life"), choice("Life", options, life.id, (id) => this.show(id).catch((error) => this.fail(error))));
    await this.show(life.id);
  }

  async show(id) {
    this.stop?.();
    this.stop = undefined;
    this.actors = undefined;
    this.lost = 0;
    this.lifeId = id;
    const life = this.lives.find((one) => one.id === id);
    this.connection("", "reading …");
    let routed = false;
    const flight = await load(id, (flight) => {
      if (this.lifeId !== id) return;
      this.flight = flight;
      if (!routed) this.time.show(flight);
      routed ||= this.route() || true;
      this.connection("", `reading … ${count(flight.events.length)}`);
      this.later();
    });
    if (this.lifeId !== id) return;
    this.flight = flight;
    this.time.name(life.live);
    this.time.show(flight);
    this.route();
    if (life.live) this.listen();
    else this.connection("", `record · ${many(flight.events.length, "event")}`);
    document.body.dataset.ready = id;
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

  go(hash) {
    if (location.hash === hash) this.route();
    else location.hash = hash;
  }

  route() {
    if (!this.flight) return false;
    const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
    const [name, ...rest] = path.split("/").map(decodeURIComponent);
    if (location.hash === "#main") return false;
    const [id, title, View] = VIEWS.find(([known]) => known === name) ?? VIEWS[0];
    if (!this.views.has(id)) this.views.set(id, new View(this));
    const view = this.views.get(id);
    for (const link of byId("nav").querySelectorAll("a")) {
      if (link.dataset.view === id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${title} · Volvox`;
    this.moment = this.time.moment;
    if (this.view !== view) {
      this.view = view;
      put(byId("main"), view.element);
    }
    view.show(rest, new URLSearchParams(query ?? ""));
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
    set("causes", count(flight.roots.size));
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
      else if (event.key === "?") this.help();
      else return;
      event.preventDefault();
    });
  }

  help() {
    const keys = [
      ["1 … 7", "the views"], ["/", "search"], ["[ ]", "one event back, one on"],
      ["{ }", "a hundred events back, a hundred on"], ["L", "to the end, or live"],
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

function label(life) {
  const started = calendar(life.started_unix_ns);
  return started ? `${life.name} · ${started}` : life.name;
}

const app = new App();
app.start();
