//! What everybody needs of a page: contrast, names, room.

use anyhow::{Result, ensure};
use volvox_testbed::lab::Page;

/// Every text that is seen, whose contrast with its ground is below 4.5 (3 for large text).
const CONTRAST: &str = r#"(() => {
  const number = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = number(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const bad = new Map();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest("svg, script, noscript, dialog:not([open]), .unseen")) continue;
    if (!element.checkVisibility({ visibilityProperty: true }) || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(number(style.color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) bad.set(`${element.className || element.tagName}: ${ratio.toFixed(2)}`, node.textContent.trim().slice(0, 30));
  }
  return [...bad].map(([place, text]) => `${place} “${text}”`);
})()"#;

/// Ids that stand twice, and references to ids that nobody has.
const REFERENCES: &str = r#"(() => {
  const bad = [];
  const seen = new Set();
  for (const element of document.querySelectorAll("[id]")) {
    if (seen.has(element.id)) bad.push(`id ${element.id} twice`);
    seen.add(element.id);
  }
  for (const name of ["aria-labelledby", "aria-controls", "aria-activedescendant", "for"]) {
    for (const element of document.querySelectorAll(`[${name}]`)) {
      for (const id of element.getAttribute(name).split(" ")) if (!seen.has(id)) bad.push(`${name} ${id}`);
    }
  }
  if (document.querySelectorAll("main h1").length !== 1) bad.push("not one h1");
  return bad;
})()"#;

/// Roles that are of no use without a name.
const NAMED: [&str; 12] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "slider",
    "grid",
    "treegrid",
    "image",
    "navigation",
    "region",
    "dialog",
];

/// Checks what is shown just now.
pub(crate) fn usable_by_all(page: &mut Page<'_>, where_: &str) -> Result<()> {
    for (what, expression) in [("contrast", CONTRAST), ("references", REFERENCES)] {
        let bad = page.eval(expression)?;
        let none = bad.as_array().is_some_and(Vec::is_empty);
        ensure!(none, "{where_}: {what}: {bad:#}");
    }
    let unnamed: Vec<_> = (page.accessibility()?.into_iter())
        .filter(|node| node["ignored"] != true)
        .filter(|node| NAMED.iter().any(|role| node["role"]["value"] == *role))
        .filter(|node| node["name"]["value"].as_str().is_none_or(|name| name.trim().is_empty()))
        .map(|node| format!("{} {}", node["role"]["value"], node["properties"]))
        .collect();
    ensure!(unnamed.is_empty(), "{where_}: without a name: {unnamed:#?}");
    Ok(())
}

/// Nothing stands beyond the right edge, so that nobody must scroll sideways to read.
pub(crate) fn fits(page: &mut Page<'_>, where_: &str) -> Result<()> {
    let wide = page.eval(
        "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - innerWidth",
    )?;
    ensure!(wide.as_i64().is_some_and(|wide| wide <= 0), "{where_}: {wide} pixels too wide");
    Ok(())
}
