// States as badges: colour, shape and word say the same.

import { h } from "./dom.js";

const KINDS = {
  FORWARDED: "good", ALLOWED: "good", REDIRECTED: "busy", AUDIT: "wait", AUDITED: "wait", DROPPED: "bad", DENIED: "bad", lost: "wait",
  ready: "good", handled: "good", same: "good", read: "good", written: "good", OK: "good", alive: "quiet",
  regenerating: "busy", restoring: "busy", handling: "busy",
  "waiting-for-identity": "wait", "waiting-to-regenerate": "wait", absorbed: "wait",
  "not-ready": "bad", crashed: "bad", refused: "bad", invalid: "bad", failed: "bad", differs: "bad", Warning: "bad", Failed: "bad", discarded: "bad",
};

/** Good, busy, wait, bad or quiet. */
export function kindOf(state) {
  return KINDS[state] ?? "quiet";
}

export function badge(state) {
  return h("span", { class: `badge ${kindOf(state)}` }, state);
}
