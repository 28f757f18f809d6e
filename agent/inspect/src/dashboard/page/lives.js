// The lives that can be looked at, by how they ended.

import { h } from "./dom.js";
import { calendar, many } from "./words.js";

/** In the order of the list. */
const ENDINGS = [
  ["lives", "Running"],
  ["killed", "Killed or crashed"],
  ["machine", "Ended with the machine"],
  ["stopped", "Stopped as they should"],
  ["unknown", "Records"],
];

/** What an address calls a life: its number, or the place of a file. */
export function keyOf(lives, life) {
  return lives.some((one) => one.live) ? String(life.number) : life.id;
}

/** A choice of lives, together by how they ended. */
export function lifeChoice(lives, chosen, act) {
  const select = h("select", { on: { change: () => act(select.value) } }, ENDINGS.map(([ending, title]) => {
    const all = lives.filter((life) => life.ending === ending);
    return all.length ? h("optgroup", { label: title }, all.map((life) => h("option", { value: life.id, selected: life.id === chosen }, label(life)))) : "";
  }));
  return h("label", { class: "field" }, h("span", {}, "Life"), select);
}

function label(life) {
  const started = calendar(life.started_unix_ns);
  const parts = [life.name, started, life.last ? `while handling ${life.last}` : "", life.failed ? `${many(life.failed, "endpoint")} lost` : ""];
  return parts.filter(Boolean).join(" · ");
}
