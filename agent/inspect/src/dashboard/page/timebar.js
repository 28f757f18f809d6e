// Time: a slider over the events of a life, steps, the way back to now, and the part of it that is looked at.

import { byId, canvasContext, h, put, say, token } from "./dom.js";
import { clock, count, many, offset, sentence } from "./words.js";

/** A stretch of the strip that is shorter is a click, pixels. */
const DRAG_MIN = 5;

export class TimeBar {
  /** `moved()` is called when another moment or another range is to be shown. */
  constructor(moved) {
    this.moved = moved;
    this.flight = undefined;
    /** Number of the event that is shown; `undefined` follows the end. */
    this.seq = undefined;
    /** The part that is looked at, { from, till } by the life's clock; `undefined` is all of it. */
    this.range = undefined;
    /** Faults that somebody caused, { at, took, what } by the life's clock. */
    this.faults = [];
    this.canvas = h("canvas", { class: "density", "aria-hidden": "true" });
    this.strip = h("div", {
      class: "strip", title: "Drag to zoom into a stretch; + and − do the same by keyboard",
      on: {
        pointerdown: (event) => this.dragged(event, "down"),
        pointermove: (event) => this.dragged(event, "move"),
        pointerup: (event) => this.dragged(event, "up"),
        pointercancel: () => { this.drag = undefined; this.density(true); },
      },
    }, this.canvas);
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
    this.clock = h("button", {
      type: "button", id: "time-clock", class: "step", "aria-pressed": "false", title: "Times by the clock, in UTC, or since the start (C)",
      on: { click: () => this.byClock(!this.flight?.clockwise) },
    }, "Clock");
    this.whole = button("time-whole", "Whole", "The whole life (0)", () => this.zoom(undefined));
    this.whole.hidden = true;
    this.faultPlace = h("span", { class: "fault-choice", hidden: true });
    put(byId("time"),
      h("div", { class: "steps" },
        button("time-first", "|◀", "First event (Home)", () => this.go(0)),
        button("time-back", "◀", "One event back ([)", () => this.step(-1)),
        button("time-on", "▶", "One event on (])", () => this.step(1)),
        this.now, this.clock,
        button("time-closer", "+", "Zoom in (+)", () => this.zoomBy(0.5)),
        button("time-wider", "−", "Zoom out (−)", () => this.zoomBy(2)),
        this.whole, this.faultPlace),
      h("div", { class: "track" }, this.strip, this.slider),
      h("div", { class: "readout" }, this.where, this.what));
    new ResizeObserver(() => this.density(true)).observe(this.strip);
  }

  /** Shows a life at its end, or at a moment and in a range that an address named. */
  show(flight, { seq, range } = {}) {
    const clockwise = this.flight?.clockwise ?? flight.clockwise;
    this.flight = flight;
    flight.clockwise = clockwise;
    [this.seq, this.range] = [seq, range];
    this.refresh();
  }

  /** Whether the end is followed. */
  get following() {
    return this.seq === undefined;
  }

  /** Indices of the first and the last event that are looked at. */
  get bounds() {
    const last = Math.max(0, (this.flight?.events.length ?? 0) - 1);
    if (!this.range || !last) return [0, last];
    const low = this.flight.times[0] >= this.range.from ? 0 : Math.min(last, this.flight.indexAt(this.range.from - 1) + 1);
    return [low, Math.max(low, this.flight.indexAt(this.range.till))];
  }

  get index() {
    if (!this.flight) return 0;
    const [low, high] = this.bounds;
    return this.following ? high : Math.max(low, Math.min(high, this.flight.indexOf(this.seq)));
  }

  get moment() {
    return this.flight.moment(this.index);
  }

  go(index) {
    const events = this.flight?.events ?? [];
    if (!events.length) return;
    const [low, high] = this.bounds;
    const within = Math.max(low, Math.min(high, index));
    const isEnd = within === events.length - 1 && !this.live && !this.range;
    this.seq = isEnd ? undefined : events[within].seq;
    this.refresh();
    this.moved();
  }

  step(by) {
    this.go(this.index + by);
  }

  follow() {
    this.seq = this.range = undefined;
    this.refresh();
    this.moved();
  }

  byClock(clockwise) {
    if (this.flight) this.flight.clockwise = clockwise;
    this.refresh();
    this.moved();
  }

  /** Looks at a part of the life, or at all of it. */
  zoom(range) {
    const { flight } = this;
    if (!flight?.events.length) return;
    const at = flight.times[this.index];
    this.range = range && { from: Math.max(flight.begin, range.from), till: Math.max(range.from + 1, range.till) };
    if (this.range) {
      const [low, high] = this.bounds;
      const near = at < this.range.from ? low : at > this.range.till ? high : flight.indexAt(at);
      this.seq = flight.events[Math.max(low, Math.min(high, near))].seq;
    }
    this.refresh();
    this.density(true);
    this.moved();
  }

  /** Looks closer, or from farther away, at what is around the moment. */
  zoomBy(factor) {
    const { flight } = this;
    if (!flight?.events.length) return;
    const [low, high] = this.bounds;
    const [from, till] = this.range ? [this.range.from, this.range.till] : [flight.times[low], flight.times[high]];
    const length = Math.max(2_000, (till - from) * factor);
    if (factor > 1 && length >= flight.end - flight.times[0]) return this.zoom(undefined);
    const at = flight.times[this.index];
    // The moment stays where it is in the picture.
    const share = till > from ? (at - from) / (till - from) : 0.5;
    this.zoom({ from: at - length * share, till: at + length * (1 - share) });
  }

  /** What is said of the end: that it is now, or only where the record stops. */
  name(live) {
    this.live = live;
    say(this.now, live ? "Live" : "End");
  }

  /** Faults are marked, and can be gone to. */
  mark(faults) {
    this.faults = faults;
    this.faultPlace.hidden = !faults.length;
    const select = h("select", {
      id: "time-fault", on: { change: () => select.value !== "" && this.go(this.flight.indexAt(faults[Number(select.value)].at)) },
    }, h("option", { value: "" }, many(faults.length, "fault")),
    faults.map((fault, place) => h("option", { value: place }, `${offset(fault.at - this.flight.begin)} ${fault.what}`)));
    put(this.faultPlace, faults.length ? h("label", { class: "field" }, h("span", { class: "unseen" }, "Faults"), select) : "");
    this.density(true);
  }

  refresh() {
    if (!this.flight) return;
    const { events, times } = this.flight;
    const [low, high] = this.bounds;
    const index = this.index;
    this.slider.min = String(low);
    this.slider.max = String(high);
    this.slider.value = String(index);
    this.now.setAttribute("aria-pressed", String(this.following));
    this.clock.setAttribute("aria-pressed", String(this.flight.clockwise));
    this.whole.hidden = !this.range;
    const event = events[index];
    const time = times[index];
    const at = event ? offset(time - this.flight.begin) : "no events";
    const wall = event && this.flight.life?.started_unix_ns ? `${clock(this.flight.unix(time))} UTC · ` : "";
    const place = `${count(index + (events.length ? 1 : 0))} of ${count(events.length)}`;
    say(this.where, `${wall}${at} · ${place}`);
    const text = event && !(this.live && this.following) ? sentence(event, this.flight) : "";
    say(this.what, text);
    this.slider.setAttribute("aria-valuetext", `${wall}${at}, ${place}${text ? `: ${text}` : ""}`);
    this.density(false);
  }

  /** The index of the event at a place of the strip. */
  indexAtX(x) {
    const [low, high] = this.bounds;
    return Math.round(low + Math.max(0, Math.min(1, x / Math.max(1, this.strip.clientWidth))) * (high - low));
  }

  dragged(event, what) {
    const x = event.clientX - this.strip.getBoundingClientRect().left;
    if (what === "down" && event.button === 0) {
      this.strip.setPointerCapture(event.pointerId);
      this.drag = { from: x, till: x };
    } else if (!this.drag) return;
    this.drag.till = x;
    if (what === "up") {
      const [a, b] = [this.drag.from, x].sort((p, q) => p - q);
      this.drag = undefined;
      const { times } = this.flight;
      if (b - a < DRAG_MIN) this.go(this.indexAtX(b));
      else this.zoom({ from: times[this.indexAtX(a)], till: times[this.indexAtX(b)] });
    }
    this.density(true);
  }

  /** How busy each stretch of events was, crashes and faults, and what is being dragged over. */
  density(anew) {
    const now = performance.now();
    if (!this.flight || (!anew && now - (this.drawn ?? 0) < 200)) return;
    this.drawn = now;
    const { clientWidth: width, clientHeight: height } = this.strip;
    if (!width) return;
    const context = canvasContext(this.canvas, width, height);
    const { times } = this.flight;
    const [low, high] = this.bounds;
    const bars = Math.max(1, Math.floor(width / 3));
    const per = (high - low) / bars;
    context.fillStyle = token("--line-strong");
    for (let bar = 0; bar < bars && high > low; bar += 1) {
      const [from, till] = [low + Math.floor(bar * per), Math.min(high, low + Math.floor((bar + 1) * per))];
      if (till <= from) continue;
      // The quicker events follow each other, the higher the bar; on a logarithmic scale.
      const rate = (till - from) / Math.max(1, (times[till] - times[from]) / 1e9);
      const tall = Math.min(1, Math.log10(1 + rate) / 6) * (height - 4);
      context.fillRect((bar * width) / bars, height - tall, width / bars - 1, tall);
    }
    const x = (index) => ((index - low) / Math.max(1, high - low)) * width;
    context.fillStyle = token("--bad");
    for (const crash of this.flight.crashes) {
      const index = this.flight.indexOf(crash.seq);
      if (index >= low && index <= high) context.fillRect(x(index) - 1, 0, 3, height);
    }
    this.drawFaults(context, x, [low, high]);
    if (this.drag) {
      context.globalAlpha = 0.35;
      context.fillStyle = token("--focus");
      context.fillRect(Math.min(this.drag.from, this.drag.till), 0, Math.abs(this.drag.till - this.drag.from), height);
      context.globalAlpha = 1;
    }
  }

  /** A triangle where a fault was caused. */
  drawFaults(context, x, [low, high]) {
    context.fillStyle = token("--wait");
    for (const fault of this.faults) {
      const index = this.flight.indexAt(fault.at);
      if (index < low || index > high) continue;
      const at = x(index);
      context.beginPath();
      context.moveTo(at - 5, 0);
      context.lineTo(at + 5, 0);
      context.lineTo(at, 9);
      context.fill();
      context.fillRect(at - 0.5, 0, 1, this.strip.clientHeight);
    }
  }
}
