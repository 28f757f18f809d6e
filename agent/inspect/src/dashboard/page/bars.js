// Bars of phases on a canvas, and the legend that explains them.

import { h, token } from "./dom.js";
import { PHASES } from "./phases.js";

const SIZE = 6;
let fills;
let theme;

/** A fill for each phase: its colour with its pattern, made anew when the theme changes. */
function fillOf(context, phase) {
  const now = document.documentElement.dataset.theme;
  if (theme !== now) {
    theme = now;
    fills = new Map();
  }
  if (!fills.has(phase)) {
    const { pattern } = PHASES.find((one) => one.id === phase);
    fills.set(phase, tile(context, token(`--phase-${phase}`), token("--panel"), pattern));
  }
  return fills.get(phase);
}

function tile(context, colour, ground, pattern) {
  if (pattern === "solid") return colour;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SIZE;
  const draw = canvas.getContext("2d");
  draw.fillStyle = colour;
  draw.fillRect(0, 0, SIZE, SIZE);
  draw.strokeStyle = draw.fillStyle = ground;
  draw.globalAlpha = 0.55;
  draw.beginPath();
  const line = (x, y, u, v) => {
    draw.moveTo(x, y);
    draw.lineTo(u, v);
  };
  if (pattern === "rising" || pattern === "cross") {
    line(-1, SIZE + 1, SIZE + 1, -1);
  }
  if (pattern === "falling" || pattern === "cross") {
    line(-1, -1, SIZE + 1, SIZE + 1);
  }
  if (pattern === "level") line(0, 2, SIZE, 2);
  if (pattern === "upright") line(2, 0, 2, SIZE);
  if (pattern === "dots") draw.fillRect(2, 2, 2, 2);
  draw.stroke();
  return context.createPattern(canvas, "repeat");
}

/** Draws the pieces of one endpoint between `left` and `right`, which stand for `from` and `till`. */
export function drawBar(context, one, { top, height, left, right, from, till }) {
  const scale = (right - left) / Math.max(1, till - from);
  for (const piece of one.pieces) {
    const x = left + (piece.from - from) * scale;
    const width = Math.max(0.4, (piece.till - piece.from) * scale);
    context.fillStyle = fillOf(context, piece.phase);
    context.fillRect(x, top, width, height);
  }
  if (!one.ready) {
    // Not ready: an open end.
    context.fillStyle = token("--bad");
    context.fillRect(left + (one.till - from) * scale - 1, top, 3, height);
  }
}

/** What the colours and patterns mean; only of the phases that occur. */
export function legend(occurring) {
  return h("ul", { class: "legend", "aria-label": "Phases" }, PHASES.filter((one) => occurring.has(one.id)).map((one) => {
    const canvas = h("canvas", { width: 22, height: 14, "aria-hidden": "true" });
    const context = canvas.getContext("2d");
    context.fillStyle = fillOf(context, one.id);
    context.fillRect(0, 0, 22, 14);
    return h("li", {}, canvas, one.title);
  }));
}

/** Steps of an axis: about `wanted` round numbers between 0 and `length`. */
export function ticks(length, wanted) {
  const rough = length / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? power * 10;
  const list = [];
  for (let at = 0; at <= length; at += step) list.push(at);
  return list;
}
