//! An address carries what is shown; time is the clock's and the life's; a stretch of it is looked at alone.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, Page};

use crate::{
    recorded::{restored, two_lives},
    screen::{Served, browser, go, no_complaints, open},
};

/// Middle of an element, and half of its width.
fn place(page: &mut Page<'_>, selector: &str) -> Result<(f64, f64, f64)> {
    let place = page.eval(&format!(
        "(() => {{ const it = document.querySelector('{selector}').getBoundingClientRect(); \
           return [it.x + it.width / 2, it.y + it.height / 2, it.width / 2]; }})()"
    ))?;
    let number = |at: usize| place[at].as_f64().context("no place");
    Ok((number(0)?, number(1)?, number(2)?))
}

fn text(page: &mut Page<'_>, expression: &str) -> Result<String> {
    Ok(page.eval(expression)?.as_str().unwrap_or_default().to_owned())
}

const WHERE: &str = "document.querySelector('.where').textContent";
/// What of an address names a stretch.
const RANGE: &str = "/[?&]from=\\d+&till=\\d+/.test(location.hash)";

#[test]
fn a_link_shows_the_same_to_somebody_else() {
    lab::test("links::a_link_shows_the_same_to_somebody_else", || {
        let [first, second] = two_lives()?;
        let served = Served::start(&[&second, &first])?;
        let mut browser = browser()?;
        let mut page = browser.page()?;
        page.resize(1280, 800, false)?;
        open(&mut page, &served.address)?;
        // The other life, a stretch of it, a moment, a filter and an order; times by the clock.
        page.eval(
            "(() => { const s = document.querySelector('#life select'); s.value = '1'; \
              s.dispatchEvent(new Event('change')); })()",
        )?;
        page.wait("document.body.dataset.ready === '1'")?;
        go(&mut page, "endpoints/ns/pod-3?filter=pod-&order=id")?;
        let (x, y, half) = place(&mut page, ".strip")?;
        page.drag((x - half * 0.5, y), (x + half * 0.5, y))?;
        page.wait(RANGE)?;
        page.eval("document.getElementById('time-back').click()")?;
        page.eval("document.getElementById('time-clock').click()")?;
        page.wait("location.hash.includes('clock=1') && location.hash.includes('at=')")?;
        let link = text(&mut page, "location.href")?;
        let shown = text(&mut page, WHERE)?;
        let parts = ["#/endpoints/ns/pod-3?", "filter=pod-", "order=id", "life=1"];
        ensure!(parts.iter().all(|part| link.contains(part)), "{link}");

        page.open("about:blank")?;
        open(&mut page, &link)?;
        page.wait("document.body.dataset.ready === '1'")?;
        page.wait(&format!("location.href === {}", json!(link)))?;
        page.wait(&format!("{WHERE} === {}", json!(shown)))?;
        page.wait("document.querySelector('#endpoints-filter').value === 'pod-'")?;
        page.wait("document.querySelector('main .tools select').value === 'id'")?;
        page.wait("document.querySelector('.endpoint h2').textContent.startsWith('ns/pod-3')")?;
        page.wait("!document.getElementById('time-whole').hidden")?;
        // A life that nobody has is said to be gone.
        page.open("about:blank")?;
        open(&mut page, &format!("{}#/waits?life=77", served.address))?;
        page.wait("document.getElementById('told').textContent.includes('77 is no longer kept')")?;
        no_complaints(&mut page)
    });
}

#[test]
fn a_stretch_is_looked_at_by_mouse_and_by_keyboard() {
    lab::test("links::a_stretch_is_looked_at_by_mouse_and_by_keyboard", || {
        let [_, second] = two_lives()?;
        let served = Served::start(&[&second])?;
        let mut browser = browser()?;
        let mut page = browser.page()?;
        page.resize(1280, 800, false)?;
        open(&mut page, &served.address)?;
        go(&mut page, "events")?;
        let all = page.eval("document.querySelector('#time-slider').max")?;
        let bounds = "[Number(document.querySelector('#time-slider').min), \
            Number(document.querySelector('#time-slider').max)]";
        let (x, y, half) = place(&mut page, ".strip")?;
        page.drag((x - half * 0.4, y), (x + half * 0.2, y))?;
        page.wait(RANGE)?;
        let narrow = page.eval(bounds)?;
        let last: f64 = all.as_str().context("no end")?.parse()?;
        let near = |part: &Value, share: f64| {
            part.as_f64().is_some_and(|it| (it / last - share).abs() < 0.05)
        };
        ensure!(near(&narrow[0], 0.3) && near(&narrow[1], 0.6), "{narrow} of {last}");
        // The list of events is of that stretch.
        let fewer = "Number(/^([\\d,]+) of/.exec(document.querySelector('main .say p').textContent)[1].replaceAll(',', ''))";
        page.wait(&format!("{fewer} <= {} - {} + 1", narrow[1], narrow[0]))?;
        page.eval("document.activeElement.blur()")?;
        page.press("0")?;
        page.wait("document.getElementById('time-whole').hidden")?;
        page.press("+")?;
        page.wait(&format!("{RANGE} && {bounds}[1] - {bounds}[0] < {last}"))?;
        page.press("-")?;
        page.wait("document.getElementById('time-whole').hidden")?;
        // Both ways to tell time stand in the bar; one of them in lists.
        let said = text(&mut page, WHERE)?;
        ensure!(said.contains(" UTC · +"), "{said}");
        let at = "document.querySelector('[data-index] > *').textContent";
        page.wait(&format!("{at}.startsWith('+')"))?;
        page.press("c")?;
        page.wait(&format!("/^\\d\\d:\\d\\d:\\d\\d\\./.test({at})"))?;
        no_complaints(&mut page)
    });
}

/// How many rows of text stand in the left column of the restore picture.
const LABELS: &str = r"(() => {
  const c = document.querySelector('canvas.bars');
  const data = c.getContext('2d').getImageData(0, 0, 40, c.height).data;
  let [rows, inked] = [0, false];
  for (let y = 0; y < c.height; y += 1) {
    let any = false;
    for (let x = 4; x < 40; x += 1) any ||= data[(y * 40 + x) * 4 + 3] > 100;
    if (any && !inked) rows += 1;
    inked = any;
  }
  return [rows, c.height];
})()";

#[test]
fn bars_have_labels_however_many_there_are() {
    lab::test("links::bars_have_labels_however_many_there_are", || {
        let files = [25, 124, 1000].map(restored);
        let files = files.into_iter().collect::<Result<Vec<_>>>()?;
        let paths: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
        let served = Served::start(&paths)?;
        let mut browser = browser()?;
        let mut page = browser.page()?;
        page.resize(1280, 800, false)?;
        for (life, endpoints) in [25_u64, 124, 1000].into_iter().enumerate() {
            page.open("about:blank")?;
            open(&mut page, &format!("{}#/restore?life={life}", served.address))?;
            let all = if endpoints < 1000 { endpoints.to_string() } else { "1,000".to_owned() };
            page.wait(&format!(
                "document.querySelector('main .say p').textContent.startsWith('{all} of {all} endpoints')"
            ))?;
            // The first is born at 31 ms: what was before is no part of the picture.
            page.wait(
                "document.querySelector('main .say p').textContent.includes('begins at +0.031')",
            )?;
            let seen = page.eval(LABELS)?;
            let (rows, height) = (seen[0].as_u64().unwrap_or(0), seen[1].as_u64().unwrap_or(0));
            // As many as there is room for, and none over another.
            let room = height / 13;
            ensure!(
                rows + 3 >= endpoints.min(room * 3 / 5) && rows <= room + 1,
                "{endpoints}: {seen}"
            );
            page.wait("document.querySelector('.detail').textContent.startsWith('shop/web-1, endpoint 1:')")?;
        }
        // Dragging over the picture looks at that time alone.
        let (x, y, half) = place(&mut page, ".picture")?;
        page.drag((x - half * 0.2, y), (x + half * 0.2, y + 20.0))?;
        page.wait(RANGE)?;
        page.wait("document.querySelector('nav [aria-current=page]').dataset.view === 'restore'")?;
        no_complaints(&mut page)
    });
}

#[test]
fn faults_of_a_history_stand_on_the_time_bar() {
    lab::test("links::faults_of_a_history_stand_on_the_time_bar", || {
        let file = restored(25)?;
        let fault = json!([{
            "at_unix_ns": 1_700_000_000_050_000_000_u64, "took_ns": 1_000_000, "what": "kill the agent",
        }]);
        fs::write("/run/faults.json", fault.to_string())?;
        let served = Served::start(&[file.as_ref()])?;
        let mut browser = browser()?;
        let mut page = browser.page()?;
        page.resize(1280, 800, false)?;
        open(&mut page, &served.address)?;
        let option = "document.querySelector('#time-fault option:nth-child(2)')?.textContent";
        page.wait(&format!("{option} === '+0.050 000 s kill the agent'"))?;
        page.eval(
            "(() => { const s = document.getElementById('time-fault'); s.value = '0'; \
              s.dispatchEvent(new Event('change')); })()",
        )?;
        page.wait(&format!("/· \\+0\\.0(49|50)/.test({WHERE})"))?;
        // A triangle in the colour of what to look at.
        let marked = page.eval(
            "(() => { const c = document.querySelector('canvas.density'); \
               const ink = getComputedStyle(document.documentElement).getPropertyValue('--wait').trim(); \
               const wanted = [1, 3, 5].map((at) => parseInt(ink.slice(at, at + 2), 16)); \
               const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
               let found = 0; \
               for (let i = 0; i < data.length; i += 4) \
                 if (data[i + 3] > 200 && wanted.every((part, at) => Math.abs(data[i + at] - part) < 30)) found += 1; \
               return found; })()",
        )?;
        ensure!(marked.as_u64().is_some_and(|points| points > 10), "{marked} points");
        no_complaints(&mut page)
    });
}
