// Light or dark: as the system has it, until somebody says otherwise.

import { say } from "./dom.js";

const KEY = "volvox-theme";

function kept() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function keep(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}

/** Makes `button` change between light and dark; `changed` draws anew. */
export function themes(button, changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = kept();
  const apply = () => {
    const dark = chosen ? chosen === "dark" : system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    say(button, dark ? "Light" : "Dark");
    button.setAttribute("aria-label", `Use the ${dark ? "light" : "dark"} theme`);
    changed();
  };
  button.addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    keep(chosen);
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}
