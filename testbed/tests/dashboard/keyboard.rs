//! Without a mouse, and without eyes: everything is reached in order, the focus is seen, and what is there has
//! its place, its heading and room for a finger.

use anyhow::{Context, Result, ensure};
use volvox_testbed::lab::{self, Page};

use crate::{
    recorded::two_lives,
    screen::{Served, VIEWS, browser, go, no_complaints, open},
};

/// More stops than any view has.
const STOPS_MAX: usize = 200;

/// Of all that can be reached by tabulator, in the document's order: how much there is, the number of what has
/// the focus (-1 for nothing), whether that is seen, and what it is. A view may draw itself anew meanwhile.
const FOCUS: &str = "(() => { const it = document.activeElement; \
    const all = 'a[href], button, input, select, summary, [tabindex]'; \
    const stops = [...document.querySelectorAll(all)].filter(it => it.tabIndex >= 0 && !it.disabled \
      && it.checkVisibility({ visibilityProperty: true }) \
      && (!it.closest('details:not([open])') || it.tagName === 'SUMMARY')); \
    const style = getComputedStyle(it); const box = it.getBoundingClientRect(); \
    const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 \
      && box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth; \
    const number = it === document.body || stops.includes(it) ? stops.indexOf(it) : NaN; \
    return [stops.length, number, seen, it.outerHTML.slice(0, 120)]; })()";

/// What is wrong with places, headings, tables and regions that speak.
const STRUCTURE: &str = r#"(() => {
  const bad = [];
  const one = (selector) => { if (document.querySelectorAll(selector).length !== 1) bad.push(`not one ${selector}`); };
  ["body > header", "body > nav[aria-label]", "body > main", "body > footer[aria-label]", "h1"].forEach(one);
  if (!/^[a-z]{2}/.test(document.documentElement.lang)) bad.push("no language");
  if (!document.title.includes("Volvox")) bad.push("no title");
  let level = 1;
  for (const heading of document.querySelectorAll("main :is(h1, h2, h3, h4)")) {
    if (!heading.checkVisibility()) continue;
    const next = Number(heading.tagName[1]);
    if (next > level + 1) bad.push(`${heading.tagName} behind h${level}: ${heading.textContent}`);
    level = next;
  }
  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.querySelectorAll("thead th")];
    if (!heads.length || heads.some((head) => head.scope !== "col" || !head.textContent.trim())) bad.push("a table without headings");
  }
  for (const grid of document.querySelectorAll("[role=grid], [role=treegrid]")) {
    if (!grid.checkVisibility()) continue;
    if (!grid.querySelector("[role=columnheader]") || !grid.getAttribute("aria-label")) bad.push("a grid without headings");
    if (!grid.hasAttribute("aria-rowcount")) bad.push("a grid that does not say how long it is");
  }
  for (const id of ["connection", "told"]) if (document.getElementById(id).getAttribute("role") !== "status") bad.push(`${id} is silent`);
  for (const text of document.querySelectorAll(".alert:not([hidden])")) {
    if (!text.closest("[role=alert], table, section")) bad.push("an alert is silent");
  }
  return bad;
})()"#;

/// What is smaller than a finger needs: 24 pixels each way, but for links within text.
const SMALL: &str = r#"(() => {
  const bad = [];
  for (const it of document.querySelectorAll("a[href], button, input, select, summary")) {
    if (!it.checkVisibility({ visibilityProperty: true }) || it.closest(".skip, [aria-hidden=true]")) continue;
    const box = it.getBoundingClientRect();
    if (!box.width || (it.tagName === "A" && it.closest("p, li:not(nav li), td, th, dd, h2, .row"))) continue;
    if (box.width < 24 || box.height < 24) bad.push(`${it.outerHTML.slice(0, 90)}: ${box.width} x ${box.height}`);
  }
  return bad;
})()"#;

fn nothing(page: &mut Page<'_>, what: &str, expression: &str) -> Result<()> {
    let bad = page.eval(expression)?;
    ensure!(bad.as_array().is_some_and(Vec::is_empty), "{what}: {bad:#}");
    Ok(())
}

/// Goes through all stops once: each is seen, in the document's order, and at the end comes the browser itself.
fn through_all_stops(page: &mut Page<'_>, view: &str) -> Result<()> {
    page.eval("document.activeElement.blur()")?;
    let count = page.eval(FOCUS)?[0].as_u64().context("no stops")?;
    ensure!(count > 15, "{view}: {count} stops");
    let mut next = 0;
    for _ in 0..STOPS_MAX {
        page.press("Tab")?;
        let now = page.eval(FOCUS)?;
        if now[1] == -1 {
            break;
        }
        ensure!(now[0] == count && now[1] == next, "{view}: stop {next} is expected: {now}");
        ensure!(now[2] == true, "{view}: the focus is not seen: {now}");
        next += 1;
    }
    ensure!(next == count, "{view}: {next} of {count} stops");
    Ok(())
}

#[test]
fn all_views_are_gone_through_by_keyboard_and_have_their_order() {
    lab::test("keyboard::all_views_are_gone_through_by_keyboard_and_have_their_order", || {
        let [first, second] = two_lives()?;
        let served = Served::start(&[&second, &first])?;
        let mut browser = browser()?;
        let mut page = browser.page()?;
        for (width, height) in [(1280, 800), (360, 740)] {
            page.resize(width, height, width < 500)?;
            open(&mut page, &served.address)?;
            for view in VIEWS {
                go(&mut page, view)?;
                if view == "compare" {
                    // The other life is read first.
                    page.wait("document.querySelectorAll('.figures tbody tr').length > 8")?;
                }
                let place = format!("{view}, {width} pixels");
                nothing(&mut page, &place, STRUCTURE)?;
                nothing(&mut page, &place, SMALL)?;
                if width > 500 {
                    through_all_stops(&mut page, view)?;
                }
            }
        }
        no_complaints(&mut page)
    });
}

#[test]
fn the_restore_picture_is_gone_through_by_keyboard() {
    lab::test("keyboard::the_restore_picture_is_gone_through_by_keyboard", || {
        let [_, second] = two_lives()?;
        let served = Served::start(&[&second])?;
        let mut browser = browser()?;
        let mut page = browser.page()?;
        page.resize(1280, 800, false)?;
        open(&mut page, &served.address)?;
        go(&mut page, "restore")?;
        let told = |pod: &str| {
            format!(
                "document.querySelector('.detail').textContent.startsWith('ns/{pod}, endpoint')"
            )
        };
        page.wait(&told("pod-1"))?;
        page.eval("document.querySelector('.picture').focus()")?;
        page.press("ArrowDown")?;
        page.wait(&told("pod-2"))?;
        page.press("End")?;
        page.wait(&told("pod-9"))?;
        page.press("Enter")?;
        page.wait("location.hash.startsWith('#/endpoints/ns/pod-9')")?;
        // From an event to all that followed from its cause.
        go(&mut page, "events?text=ns%2Fpod-9&record=message")?;
        page.wait("document.querySelectorAll('main [data-index]').length > 3")?;
        page.eval("document.querySelector('[aria-label=\"Events, oldest first\"]').focus()")?;
        page.press("Home")?;
        page.press("Enter")?;
        page.wait("location.hash.startsWith('#/causes/')")?;
        // What is drawn anew keeps the focus.
        let focus = "document.activeElement";
        page.eval("[...document.querySelectorAll('main button')].find(it => it.textContent === 'Table').focus()")?;
        page.press("Enter")?;
        page.wait("document.querySelector('[aria-label=\"Steps of this outside event\"]').checkVisibility()")?;
        page.wait(&format!("{focus}.textContent === 'Table' && {focus}.ariaPressed === 'true'"))?;
        page.press("Tab")?;
        page.wait(&format!("{focus}.matches('main select')"))?;
        page.press("ArrowDown")?;
        page.wait("location.hash.includes('through=') || location.hash.includes('show=')")?;
        page.wait(&format!("{focus}.matches('main select')"))?;
        no_complaints(&mut page)
    });
}
