// Time: a slider over the events of a life, steps, and the way back to now.

import { byId, canvasContext, h, put, say, token } from "./dom.js";
import { count, offset, sentence } from "./words.js";

export class TimeBar {
  /** `moved()` is called when another moment is to be shown. */
  constructor(moved) {
    this.moved = moved;
    this.flight = undefined;
    /** Number of the event that is shown; `undefined` follows the end. */
    this.seq = undefined;
    this.canvas = h("canvas", { class: "density", "aria-hidden": "true" });
    this.slider = h("input", {
      type: "range", min: 0, max: 0, value: 0, id: "time-slider", "aria-label": "Time, one step an event",
      on: { input: () => this.go(Number(this.slider.value)) },
    });
    this.where = h("output", { class: "where", for: "time-slider" });
    this.what = h("span", { class: "what" });
    const button = (id, text, label, act) =>
      h("button", { type: "button", id, class: "step", "aria-label": label, title: label, on: { click: act } }, text);
    this.now = h("button", {
      type: "button", id: "time-now", class: "now", "aria-pressed": "true", title: "To the end (L)", on: { click: () => this.follow() },
    }, "End");
    put(byId("time"),
      h("div", { class: "steps" },
        button("time-first", "|◀", "First event (Home)", () => this.go(0)),
        button("time-back", "◀", "One event back ([)", () => this.step(-1)),
        button("time-on", "▶", "One event on (])", () => this.step(1)),
        this.now),
      h("div", { class: "track" }, this.canvas, this.slider),
      h("div", { class: "readout" }, this.where, this.what));
    new ResizeObserver(() => this.density()).observe(this.canvas.parentElement);
  }

  show(flight) {
    this.flight = flight;
    this.seq = undefined;
    this.refresh();
  }

  /** Whether the end is followed. */
  get following() {
    return this.seq === undefined;
  }

  get index() {
    if (!this.flight) return 0;
    const last = Math.max(0, this.flight.events.length - 1);
    return this.following ? last : Math.min(last, this.flight.indexOf(this.seq));
  }

  get moment() {
    return this.flight.moment(this.index);
  }

  go(index) {
    const events = this.flight?.events ?? [];
    if (!events.length) return;
    const within = Math.max(0, Math.min(events.length - 1, index));
    this.seq = within === events.length - 1 && !this.live ? undefined : events[within].seq;
    this.refresh();
    this.moved();
  }

  step(by) {
    this.go(this.index + by);
  }

  follow() {
    this.seq = undefined;
    this.refresh();
    this.moved();
  }

  /** What is said of the end: that it is now, or only where the record stops. */
  name(live) {
    this.live = live;
    say(this.now, live ? "Live" : "End");
  }

  refresh() {
    if (!this.flight) return;
    const { events, times } = this.flight;
    const index = this.index;
    this.slider.max = String(Math.max(0, events.length - 1));
    this.slider.value = String(index);
    this.now.setAttribute("aria-pressed", String(this.following));
    const event = events[index];
    const at = event ? offset(times[index] - this.flight.begin) : "no events";
    const place = `${count(index + (events.length ? 1 : 0))} of ${count(events.length)}`;
    say(this.where, `${at} · ${place}`);
    const text = event && !(this.live && this.following) ? sentence(event, this.flight) : "";
    say(this.what, text);
    this.slider.setAttribute("aria-valuetext", `${at}, ${place}${text ? `: ${text}` : ""}`);
    this.density();
  }

  /** How busy each stretch of events was, and where a crash was: drawn behind the slider. */
  density() {
    const now = performance.now();
    if (!this.flight || now - (this.drawn ?? 0) < 200) return;
    this.drawn = now;
    const { clientWidth: width, clientHeight: height } = this.canvas.parentElement;
    if (!width) return;
    const context = canvasContext(this.canvas, width, height);
    const { times, events } = this.flight;
    const bars = Math.max(1, Math.floor(width / 3));
    const per = times.length / bars;
    context.fillStyle = token("--line-strong");
    for (let bar = 0; bar < bars && times.length > 1; bar += 1) {
      const [from, till] = [Math.floor(bar * per), Math.min(times.length - 1, Math.floor((bar + 1) * per))];
      if (till <= from) continue;
      // The quicker events follow each other, the higher the bar; on a logarithmic scale.
      const rate = (till - from) / Math.max(1, (times[till] - times[from]) / 1e9);
      const tall = Math.min(1, Math.log10(1 + rate) / 6) * (height - 6);
      context.fillRect((bar * width) / bars, height - tall, width / bars - 1, tall);
    }
    context.fillStyle = token("--bad");
    for (const crash of this.flight.crashes) {
      const x = (this.flight.indexOf(crash.seq) / Math.max(1, events.length - 1)) * width;
      context.fillRect(x - 1, 0, 3, height);
    }
  }
}
