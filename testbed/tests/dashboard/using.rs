//! Search, filters, stepping through time and the theme, by keyboard.

use anyhow::{Result, ensure};
use volvox_testbed::lab::{self, Page};

use crate::{
    recorded::{PODS, two_lives},
    screen::{Served, browser, go, no_complaints, open},
};

/// Runs `body` on a page that shows the second of two lives.
fn with_page(name: &str, body: impl FnOnce(&mut Page<'_>) -> Result<()>) {
    lab::test(name, || {
        let [first, second] = two_lives()?;
        let served = Served::start(&[&second, &first])?;
        let mut browser = browser()?;
        let mut page = browser.page()?;
        page.resize(1280, 800, false)?;
        open(&mut page, &served.address)?;
        body(&mut page)?;
        no_complaints(&mut page)
    });
}

/// Which event is shown, from 1.
const PLACE: &str = "Number(/· ([\\d,]+) of/.exec(document.querySelector('.where').textContent)[1].replaceAll(',', ''))";

#[test]
fn what_has_a_name_is_found() {
    with_page("using::what_has_a_name_is_found", |page| {
        page.press("/")?;
        page.wait("document.activeElement.id === 'find-input'")?;
        page.write("endpoint 4")?;
        page.wait("document.querySelector('#find-results [role=option]')?.textContent.includes('endpoint 4')")?;
        page.press("Enter")?;
        page.wait("location.hash.startsWith('#/endpoints/ns/pod-')")?;
        page.wait("document.querySelector('.endpoint h2').textContent.includes('endpoint 4')")?;
        page.press("/")?;
        page.eval("document.activeElement.select()")?;
        page.write("question without end")?;
        page.wait("document.querySelectorAll('#find-results [role=option]').length >= 1")?;
        page.press("Enter")?;
        page.wait("location.hash.startsWith('#/causes/')")?;
        page.wait("document.querySelector('.side h2').textContent === 'a question without end'")?;
        page.press("/")?;
        page.eval("document.activeElement.select()")?;
        page.write("no such thing anywhere")?;
        page.wait("document.querySelectorAll('#find-results [role=option]').length === 2")?;
        page.press("Escape")?;
        page.wait("document.getElementById('find-results').hidden")
    });
}

#[test]
fn events_are_filtered() {
    with_page("using::events_are_filtered", |page| {
        go(page, "events?text=ns%2Fpod-3")?;
        page.wait("document.querySelector('#events-filter').value === 'ns/pod-3'")?;
        let others = "[...document.querySelectorAll('[role=grid] [role=row][data-index]')] \
            .filter(row => !/pod-3\\b/.test(row.children[2].textContent)).length";
        page.wait(&format!(
            "{others} === 0 && document.querySelectorAll('[data-index]').length > 3"
        ))?;
        go(page, "events?text=&record=crash")?;
        page.wait("document.querySelectorAll('[data-index]').length === 1")?;
        page.wait(
            "document.querySelector('[data-index]').textContent.includes('ipam crashed in Dump')",
        )?;
        go(page, "actors")?;
        page.eval("document.getElementById('actors-filter').focus()")?;
        page.write("endpoint 7")?;
        page.wait("document.querySelectorAll('[role=treegrid] [data-index]').length === 1")
    });
}

#[test]
fn time_is_gone_through_step_by_step() {
    with_page("using::time_is_gone_through_step_by_step", |page| {
        go(page, "endpoints/2")?;
        let state = "document.querySelector('.endpoint .badge').textContent";
        page.wait(&format!("{state} === 'ready'"))?;
        let last = page.eval(PLACE)?.as_u64().unwrap_or(0);
        ensure!(last > 100, "{last} events");
        page.eval("document.activeElement.blur()")?;
        page.press("[")?;
        page.wait(&format!("{PLACE} === {}", last - 1))?;
        page.press("]")?;
        page.wait(&format!("{PLACE} === {last}"))?;
        page.eval("document.getElementById('time-first').click()")?;
        page.wait(&format!("{PLACE} === 1"))?;
        // From the first event on: the endpoint is born, restores, and is ready.
        let mut seen: Vec<String> = Vec::new();
        for step in 1..last {
            page.press("]")?;
            page.wait(&format!("{PLACE} === {}", step + 1))?;
            let now =
                page.eval("document.querySelector('.endpoint .badge')?.textContent ?? 'none'")?;
            let now = now.as_str().unwrap_or_default().to_owned();
            if seen.last() != Some(&now) {
                seen.push(now);
            }
            if seen.last().is_some_and(|now| now == "ready") {
                break;
            }
        }
        ensure!(
            seen.ends_with(&["restoring", "regenerating", "ready"].map(str::to_owned)),
            "states in passing: {seen:?}"
        );
        page.press("l")?;
        page.wait(&format!("{PLACE} === {last}"))
    });
}

#[test]
fn a_life_is_chosen_and_compared_with_another() {
    with_page("using::a_life_is_chosen_and_compared_with_another", |page| {
        let choose = |life: &str| {
            format!(
                "(() => {{ const s = document.querySelector('#life select'); s.value = '{life}'; \
                   s.dispatchEvent(new Event('change')); }})()"
            )
        };
        page.eval(&choose("1"))?;
        page.wait("document.body.dataset.ready === '1'")?;
        go(page, "restore")?;
        // In the first life pods were made, none restored.
        page.wait(&format!(
            "document.querySelector('main .say p').textContent.includes('of {PODS} endpoints ready')"
        ))?;
        go(page, "compare")?;
        page.wait("document.querySelectorAll('.figures tbody tr').length > 8")?;
        let row = "[...document.querySelectorAll('.figures tr')].find(row => \
            row.firstChild.textContent === 'endpoints restored').textContent";
        page.wait(&format!("{row} === 'endpoints restored{PODS}0−100 %'"))?;
        page.wait(
            "[...document.querySelectorAll('h2')].some(h => h.textContent === 'First difference')",
        )
    });
}

#[test]
fn the_theme_is_kept_and_the_keyboard_reaches_everything() {
    with_page("using::the_theme_is_kept_and_the_keyboard_reaches_everything", |page| {
        let theme = "document.documentElement.dataset.theme";
        page.prefer_dark(false)?;
        page.wait(&format!("{theme} === 'light'"))?;
        page.eval("document.getElementById('theme').click()")?;
        page.wait(&format!("{theme} === 'dark'"))?;
        // Not the page of before: that one is there, and dark, until the new one begins.
        page.eval("window.before = true; void location.reload()")?;
        page.wait(&format!("!window.before && {} && {theme} === 'dark'", crate::screen::READY))?;
        // The first tab stop leads past everything.
        page.press("Tab")?;
        page.wait("document.activeElement.className === 'skip'")?;
        page.press("2")?;
        page.wait("location.hash.startsWith('#/restore')")?;
        page.press("?")?;
        page.wait("document.getElementById('help-dialog').open")?;
        page.press("Escape")?;
        page.wait("!document.getElementById('help-dialog').open")?;
        // In the tree, arrows move and fold.
        page.press("1")?;
        page.wait("document.querySelectorAll('[role=treegrid] [data-index]').length > 8")?;
        page.eval("document.querySelector('[role=treegrid]').focus()")?;
        let active = "document.querySelector('[role=treegrid] [aria-selected=true]')";
        for _ in 0..30 {
            page.press("ArrowDown")?;
            if page.eval(&format!("{active}?.ariaExpanded"))? == "true" {
                break;
            }
        }
        page.press("ArrowLeft")?;
        page.wait(&format!("{active}.ariaExpanded === 'false'"))?;
        page.press("ArrowRight")?;
        page.wait(&format!("{active}.ariaExpanded === 'true'"))
    });
}
