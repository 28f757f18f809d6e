//! What histories came to: for people, for programs, and for what gathers results of tests.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::outcome::Outcome;
use crate::judge::{Finding, Verdict, significant_time};

fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// A table for people.
pub(super) fn table(outcome: &Outcome) -> String {
    let mut text = String::new();
    let took = significant_time(std::time::Duration::from_secs_f64(outcome.took));
    let Outcome { history, place, seed, verdict, .. } = outcome;
    let _ = writeln!(text, "{history} in the {place}, seed {seed}, {took}: {verdict}");
    if !outcome.findings.is_empty() {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["", "found", "at most", "guarantee", "", ""]);
        for finding in &outcome.findings {
            let found = finding.found.map_or("?".to_owned(), |found| finding.show(found));
            let guarantee = finding.guarantee.map_or("all".to_owned(), |it| it.to_string());
            table.add_row(vec![
                Cell::new(finding.measure.about()),
                right(found),
                right(finding.show(finding.limit)),
                right(guarantee),
                Cell::new(finding.verdict),
                Cell::new(&finding.detail),
            ]);
        }
        let _ = writeln!(text, "{table}");
    }
    if !outcome.streams.is_empty() {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["traffic", "sent", "lost", "longest silence"]);
        for stream in &outcome.streams {
            let gap = std::time::Duration::from_secs_f64(stream.longest_gap);
            let numbers = [right(stream.sent), right(stream.lost), right(significant_time(gap))];
            table.add_row([vec![Cell::new(&stream.what)], numbers.into()].concat());
        }
        let _ = writeln!(text, "{table}");
    }
    if let Some(error) = &outcome.error {
        let _ = writeln!(text, "It could not be judged: {error}");
    }
    if *verdict != Verdict::Well && !outcome.steps.is_empty() {
        let _ = writeln!(text, "What was done:");
        for step in &outcome.steps {
            let _ = writeln!(text, "  {:8.3} s  {}", step.at, step.what);
        }
    }
    text
}

/// One line a finding that is not well.
fn broken(findings: &[Finding]) -> String {
    let bad = findings.iter().filter(|finding| finding.verdict != Verdict::Well);
    let lines = bad.map(|finding| {
        let found = finding.found.map_or("?".to_owned(), |found| finding.show(found));
        let limit = finding.show(finding.limit);
        let Finding { measure, detail, .. } = finding;
        format!("{}: {found}, at most {limit} {detail}", measure.about())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The exit status: 0 if all is well, 1 if a guarantee was broken, 2 if something could not be judged.
pub(super) fn status(outcomes: &[Outcome]) -> i32 {
    let has = |verdict| outcomes.iter().any(|outcome| outcome.verdict == verdict);
    match () {
        () if has(Verdict::Broken) => 1,
        () if has(Verdict::NotJudged) => 2,
        () => 0,
    }
}

pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no other control characters.
            '\n' | '\t' => escaped.push(letter),
            letter if letter.is_control() => escaped.push('?'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// JUnit's XML.
pub(super) fn junit(outcomes: &[Outcome]) -> String {
    let count = |verdict| outcomes.iter().filter(|outcome| outcome.verdict == verdict).count();
    let took: f64 = outcomes.iter().map(|outcome| outcome.took).sum();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        text,
        "<testsuite name=\"chaos\" tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{took:.3}\">",
        outcomes.len(),
        count(Verdict::Broken),
        count(Verdict::NotJudged),
    );
    for outcome in outcomes {
        let (name, place) = (escaped(&outcome.history), outcome.place);
        let _ = write!(
            text,
            "  <testcase classname=\"chaos.{place}\" name=\"{name}\" time=\"{:.3}\">",
            outcome.took
        );
        let element = match outcome.verdict {
            Verdict::Well => "",
            Verdict::Broken => "failure",
            Verdict::NotJudged => "error",
        };
        if !element.is_empty() {
            let why = outcome.error.clone().unwrap_or_default() + &broken(&outcome.findings);
            let first = why.lines().next().unwrap_or_default();
            let (first, why) = (escaped(first), escaped(&why));
            let _ = write!(text, "<{element} message=\"{first}\">{why}</{element}>");
        }
        text.push_str("</testcase>\n");
    }
    text.push_str("</testsuite>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chaos::outcome::Place, judge::Measure};

    fn outcome(found: Option<f64>) -> Outcome {
        let mut outcome = Outcome::new("a<b", Place::Lab, 1);
        outcome.findings.push(Finding::new(Measure::Lost, found, 0.0, "\u{1}"));
        outcome.judge();
        outcome
    }

    #[test]
    fn the_worst_decides_the_status() {
        let (well, broken, unknown) = (outcome(Some(0.0)), outcome(Some(1.0)), outcome(None));
        assert_eq!(status(std::slice::from_ref(&well)), 0);
        assert_eq!(status(&[well.clone(), unknown.clone()]), 2);
        assert_eq!(status(&[unknown, broken, well]), 1);
    }

    #[test]
    fn what_stands_in_xml_is_escaped() {
        let text = junit(&[outcome(Some(2.0)), outcome(Some(0.0))]);
        assert!(text.contains("tests=\"2\" failures=\"1\" errors=\"0\""), "{text}");
        assert!(text.contains("name=\"a&lt;b\""), "{text}");
        assert!(text.contains("packets and connections lost: 2, at most 0 ?"), "{text}");
    }
}
