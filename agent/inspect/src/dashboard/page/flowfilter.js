// The filter of flows, in words and as buttons that take a word out again.

import { h, put, say } from "./dom.js";
import { quoted, wordsOf } from "./flows.js";

/** How long somebody may write before flows are asked for, milliseconds. */
const WRITING_MS = 350;
/** What can be written, with what it means. */
const HELP = [
  ["dropped, forwarded, audit", "the verdict"],
  ["tcp, udp, icmp, 5432", "protocol or port"],
  ["shop/web, 10.0.0.7, app=web", "a pod (or how its name begins), an address, a label; of either end"],
  ["from-pod:shop/web to-port:5432", "a flag of volvox observe, with a colon"],
  ["-icmp -to-namespace:kube-system", "not that"],
  ["checkout", "any other word: in a name of either end"],
];

export class FlowFilter {
  constructor(app, id) {
    this.app = app;
    this.input = h("input", {
      type: "search", id, placeholder: "dropped to-pod:shop/web", spellcheck: "false", autocomplete: "off",
      on: {
        input: () => {
          const written = this.input.value;
          clearTimeout(this.timer);
          this.timer = setTimeout(() => this.set(written), WRITING_MS);
        },
        keydown: (event) => { if (event.key === "Enter") this.set(this.input.value); },
      },
    });
    this.drops = h("button", { type: "button", "aria-pressed": "false", on: { click: () => this.toggle("dropped") } }, "Drops only");
    this.words = h("ul", { class: "chips", "aria-label": "Parts of the filter" });
    this.alert = h("p", { class: "alert", role: "alert", hidden: true });
    this.element = h("div", { class: "flow-filter" },
      h("div", { class: "tools" },
        h("label", { class: "field wide" }, h("span", {}, "Filter"), this.input), this.drops,
        h("details", { class: "filter-help" }, h("summary", {}, "How to write it"),
          h("dl", {}, HELP.map(([words, what]) => [h("dt", {}, h("code", {}, words)), h("dd", {}, what)])))),
      this.words, this.alert);
  }

  set(filter) {
    clearTimeout(this.timer);
    this.app.flows.filter = filter.trim();
    this.app.refresh();
    this.app.noted();
  }

  /** Adds words to the filter, or what they select to what is left out. */
  add(terms, not = false) {
    const words = wordsOf(this.app.flows.filter);
    for (const term of terms) {
      const word = quoted(not ? `-${term}` : term);
      if (!words.includes(word)) words.push(word);
    }
    this.set(words.join(" "));
  }

  toggle(word) {
    const words = wordsOf(this.app.flows.filter);
    this.set((words.includes(word) ? words.filter((one) => one !== word) : [...words, word]).join(" "));
  }

  update() {
    const { filter, error } = this.app.flows;
    if (document.activeElement !== this.input) this.input.value = filter;
    this.alert.hidden = !error;
    say(this.alert, error ?? "");
    if (this.shown === filter) return;
    this.shown = filter;
    const words = wordsOf(filter);
    this.drops.setAttribute("aria-pressed", String(words.includes("dropped")));
    put(this.words, words.map((word) => h("li", {}, h("button", {
      type: "button", "aria-label": `Take ${word} out of the filter`, on: { click: () => { this.toggle(word); this.input.focus(); } },
    }, word, h("span", { "aria-hidden": "true" }, " ×")))));
    this.words.hidden = !words.length;
  }
}
