// Search over everything that has a name: actors, endpoints, outside events, kinds, waits, crashes.

import { byId, h, put } from "./dom.js";
import { endpointPage } from "./link.js";
import { count, sentence } from "./words.js";

const EACH = 6;

/** Whether that is an actor's name: an endpoint is called by its number, too. */
function isCalled(cell, name) {
  return cell.title.toLowerCase() === name || cell.name.toLowerCase().split(" (")[0] === name;
}

export class Find {
  constructor(app) {
    this.app = app;
    this.results = [];
    this.active = 0;
    this.input = h("input", {
      type: "search", id: "find-input", role: "combobox", placeholder: "Search  ( / )", autocomplete: "off", spellcheck: "false",
      "aria-label": "Search actors, outside events, message kinds, waits and crashes",
      "aria-expanded": "false", "aria-controls": "find-results", "aria-autocomplete": "list", "aria-keyshortcuts": "/",
      on: {
        input: () => this.search(),
        focus: () => this.search(),
        blur: () => this.close(),
        keydown: (event) => this.key(event),
      },
    });
    this.list = h("div", { id: "find-results", class: "find-results", role: "listbox", "aria-label": "Found", hidden: true });
    put(byId("find"), this.input, this.list);
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  search() {
    const words = this.input.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length || !this.app.flight) return this.close();
    this.results = this.look(words);
    this.active = 0;
    const parts = [];
    let group;
    this.results.forEach((one, index) => {
      if (one.group !== group) parts.push(h("div", { class: "group", role: "presentation" }, (group = one.group)));
      parts.push(h("div", {
        role: "option", id: `found-${index}`, "aria-selected": String(index === 0),
        on: { mousedown: (event) => { event.preventDefault(); this.open(index); } },
      }, h("span", {}, one.text), h("span", { class: "soft" }, one.more ?? "")));
    });
    put(this.list, parts.length ? parts : h("div", { class: "group" }, "Nothing found."));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.mark();
  }

  look(words) {
    const { flight, moment } = this.app;
    const fits = (text) => {
      const low = text.toLowerCase();
      return words.every((word) => low.includes(word));
    };
    const found = [];
    const take = (group, items) => found.push(...items.slice(0, EACH).map((item) => ({ group, ...item })));
    const exact = words.join(" ");
    const cells = [...flight.cells.values()].filter((cell) => fits(`${cell.name} ${cell.title}`))
      .sort((a, b) => isCalled(b, exact) - isCalled(a, exact) || String(b.endpoint ?? "").startsWith(exact) - String(a.endpoint ?? "").startsWith(exact) || a.title.length - b.title.length);
    take("Actors", cells.map((cell) => ({
      text: cell.title, more: `${cell.pod ? `endpoint ${cell.endpoint}, ` : ""}${moment.stateOf(cell, flight)}`,
      go: cell.endpoint === undefined ? `#/events?text=${encodeURIComponent(cell.name)}` : endpointPage(cell),
    })));
    const roots = [...flight.roots.values()].filter((root) => root.messages && (this.app.questions || !root.question) && fits(flight.podded(root.what))).sort((a, b) => b.at - a.at);
    take("Outside events", roots.map((root) => ({ text: flight.podded(root.what), more: `${count(root.messages)} messages`, go: `#/causes/${root.root}` })));
    take("Waits now", [...moment.waits.values()].filter((wait) => fits(`${flight.nameOf(wait.who)} ${wait.whom} ${wait.why}`))
      .map((wait) => ({ text: `${flight.nameOf(wait.who)} for ${wait.whom}: ${wait.why}`, go: "#/waits" })));
    take("Crashes", flight.crashes.filter((crash) => fits(sentence(crash, flight)))
      .map((crash) => ({ text: sentence(crash, flight), seq: crash.seq, go: "#/events?text=&record=crash" })));
    take("Kinds", [...flight.words.keys()].filter(fits).map((kind) => ({ text: kind, go: `#/events?text=${encodeURIComponent(kind)}` })));
    const written = this.input.value.trim();
    take("Everything", [
      { text: `events with “${written}”`, go: `#/events?text=${encodeURIComponent(written)}` },
      { text: `flows with “${written}”`, go: `#/flows?filter=${encodeURIComponent(written)}` },
    ]);
    return found;
  }

  key(event) {
    if (event.key === "Escape") {
      this.input.value = "";
      this.close();
    } else if (this.list.hidden) return;
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.active = (this.active + step + this.results.length) % Math.max(1, this.results.length);
      this.mark();
    } else if (event.key === "Enter") this.open(this.active);
    else return;
    event.preventDefault();
  }

  mark() {
    this.list.querySelectorAll("[role=option]").forEach((option, index) => {
      option.setAttribute("aria-selected", String(index === this.active));
      if (index === this.active) {
        this.input.setAttribute("aria-activedescendant", option.id);
        option.scrollIntoView({ block: "nearest" });
      }
    });
  }

  open(index) {
    const one = this.results[index];
    if (!one) return;
    this.close();
    if (one.seq !== undefined) this.app.time.go(this.app.flight.indexOf(one.seq));
    this.app.go(one.go);
    byId("main").focus();
  }
}
