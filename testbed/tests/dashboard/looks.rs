//! Each view of opened records, drawn: light, dark, and as wide as a phone.

use anyhow::{Result, ensure};
use volvox_testbed::lab::{self, Page};

use crate::{
    checks::{fits, usable_by_all},
    recorded::{PODS, two_lives},
    screen::{Served, VIEWS, browser, go, no_complaints, open, picture},
};

/// Points of a canvas that something was drawn on.
fn drawn(canvas: &str) -> String {
    format!(
        "(() => {{ const c = document.querySelector('{canvas}'); \
           return c.getContext('2d').getImageData(0, 0, c.width, c.height).data \
             .filter((value, place) => place % 4 === 3 && value > 0).length; }})()"
    )
}

/// Waits for what each view must show of the second life.
fn shows_its_subject(page: &mut Page<'_>, view: &str) -> Result<()> {
    match view {
        "actors" => {
            page.wait("document.querySelectorAll('[role=treegrid] [role=row]').length > 8")?;
            page.wait("document.querySelector('.restarts')?.textContent.includes('on purpose')")
        }
        "restore" => {
            page.wait(&format!(
                "document.querySelector('main .say p').textContent.startsWith('{PODS} of {PODS} ')"
            ))?;
            page.wait("document.querySelectorAll('.legend li').length >= 3")?;
            page.wait(&format!("{} > 500", drawn("canvas.bars")))
        }
        "waits" => {
            page.wait("document.querySelectorAll('.node.ring').length === 2")?;
            page.wait("/(left → right → left|right → left → right)/.test(document.querySelector('[role=alert]').textContent)")
        }
        "causes" => {
            page.wait("document.querySelectorAll('.sequence .arrow.head').length >= 3")?;
            page.wait("document.querySelectorAll('.lifeline').length >= 3")
        }
        "endpoints" => {
            page.wait("document.querySelector('.endpoint h2').textContent.includes('ns/pod-')")?;
            page.wait("[...document.querySelectorAll('[aria-label=History] td')].some(td => td.textContent.includes('ready'))")
        }
        // A recording has none, and says so.
        "flows" | "map" => page.wait(
            "[...document.querySelectorAll('main [role=alert]')].some(it => it.textContent.includes('volvox observe'))",
        ),
        "events" => page.wait("document.querySelectorAll('[role=grid] [role=row]').length > 8"),
        _ => {
            page.wait("document.querySelectorAll('.figures tbody tr').length > 8")?;
            page.wait(&format!("{} > 100", drawn(".pair canvas")))
        }
    }
}

#[test]
fn every_view_is_drawn_for_every_eye() {
    lab::test("looks::every_view_is_drawn_for_every_eye", || {
        let [first, second] = two_lives()?;
        let served = Served::start(&[&second, &first])?;
        let mut browser = browser()?;
        let mut page = browser.page()?;
        for (name, width, height, dark) in
            [("light", 1280, 800, false), ("dark", 1280, 800, true), ("phone", 360, 740, true)]
        {
            page.resize(width, height, width < 500)?;
            page.prefer_dark(dark)?;
            open(&mut page, &served.address)?;
            for view in VIEWS {
                go(&mut page, view)?;
                shows_its_subject(&mut page, view)?;
                page.picture(&picture(&format!("{view}-{name}"))?)?;
                let place = format!("{view}, {name}");
                usable_by_all(&mut page, &place)?;
                fits(&mut page, &place)?;
            }
            no_complaints(&mut page)?;
        }
        Ok(())
    });
}

#[test]
fn a_picture_has_a_table_beside_it() {
    lab::test("looks::a_picture_has_a_table_beside_it", || {
        let [_, second] = two_lives()?;
        let served = Served::start(&[&second])?;
        let mut browser = browser()?;
        let mut page = browser.page()?;
        open(&mut page, &served.address)?;
        let table = "[...document.querySelectorAll('.segments button')].find(b => b.textContent === 'Table').click()";
        go(&mut page, "restore")?;
        page.eval(table)?;
        let rows = "document.querySelectorAll('[aria-label=\"Endpoints of this restart\"] [role=row]').length";
        page.wait(&format!("{rows} === {} + 1", PODS))?;
        go(&mut page, "causes")?;
        page.eval(table)?;
        page.wait("document.querySelectorAll('[aria-label=\"Steps of this outside event\"] [role=row]').length > 5")?;
        go(&mut page, "waits")?;
        // The graph's table stands below it: each wait of the ring, and who asked from outside.
        page.wait("document.querySelectorAll('[aria-label=\"Waits, oldest first\"] .row.ring').length === 2")?;
        let hidden = page
            .eval("[...document.querySelectorAll('canvas')].every(c => c.ariaHidden === 'true')")?;
        ensure!(hidden == true, "a canvas says nothing to a screen reader");
        no_complaints(&mut page)
    });
}
