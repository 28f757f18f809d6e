//! The report as one page that needs nothing else: what was done and when, when agents died, what each stream
//! noticed and when, and where the recordings are.

use std::{fmt::Write, path::Path, time::Duration};

use super::{
    outcome::{Outcome, Stream},
    report::escaped,
};
use crate::judge::{Verdict, significant_time};

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;\
color:#222}table{border-collapse:collapse;margin:.5rem 0 1.2rem}td,th{padding:.2rem .9rem .2rem 0;text-align:left;\
vertical-align:top}th{font-weight:600;border-bottom:1px solid #bbb}td.n{text-align:right;\
font-variant-numeric:tabular-nums}.well{color:#176b2c}.broken{color:#b00020;font-weight:600}\
.not-judged{color:#8a5a00;font-weight:600}svg{width:100%;background:#f6f6f6;border:1px solid #ddd}\
.step{fill:#9bb8d9}.gap{fill:#e0a030}.death{stroke:#b00020;stroke-width:1.5}text{font-size:11px;fill:#444}\
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}svg{background:#222;border-color:#444}\
text{fill:#bbb}.well{color:#6cc47f}.broken{color:#ff6b7d}}";

/// Width of a time bar, and height of a line of it, in its own units.
const WIDTH: f64 = 1000.0;
const LINE: f64 = 14.0;

/// The page; recordings are in a directory of that name beside it, below the names of histories.
pub(super) fn page(outcomes: &[Outcome], recordings: &Path) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Chaos</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<style>{STYLE}</style>\n<h1>Chaos</h1>\n"
    );
    text.push_str("<table><tr><th>history<th>in<th>seed<th>took<th>verdict\n");
    for outcome in outcomes {
        let Outcome { place, seed, took, .. } = outcome;
        let name = escaped(&outcome.history);
        let _ = writeln!(
            text,
            "<tr><td><a href=\"#{name}\">{name}</a><td>{place}<td class=n>{seed}<td class=n>{}<td \
             class={}>{}",
            seconds(*took),
            class(outcome.verdict),
            outcome.verdict
        );
    }
    text.push_str("</table>\n");
    outcomes.iter().for_each(|outcome| section(&mut text, outcome, recordings));
    text.push_str("</html>\n");
    text
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Well => "well",
        Verdict::Broken => "broken",
        Verdict::NotJudged => "not-judged",
    }
}

fn seconds(time: f64) -> String {
    significant_time(Duration::from_secs_f64(time.max(0.0)))
}

fn section(text: &mut String, outcome: &Outcome, recordings: &Path) {
    let name = escaped(&outcome.history);
    let _ = writeln!(text, "<h2 id=\"{name}\">{name}</h2>");
    if let Some(error) = &outcome.error {
        let _ = writeln!(text, "<p class=not-judged>It could not be judged: {}", escaped(error));
    }
    findings(text, outcome);
    time_bar(text, outcome);
    steps(text, outcome);
    streams(text, outcome);
    links(text, outcome, recordings);
}

fn findings(text: &mut String, outcome: &Outcome) {
    text.push_str("<table><tr><th>judged<th>found<th>at most<th>guarantee<th><th>\n");
    for finding in &outcome.findings {
        let found = finding.found.map_or("?".to_owned(), |found| finding.show(found));
        let guarantee = finding.guarantee.map_or("all".to_owned(), |it| it.to_string());
        let _ = writeln!(
            text,
            "<tr><td>{}<td class=n>{found}<td class=n>{}<td class=n>{guarantee}<td class={}>{}<td>{}",
            finding.measure.about(),
            finding.show(finding.limit),
            class(finding.verdict),
            finding.verdict,
            escaped(&finding.detail)
        );
    }
    text.push_str("</table>\n");
}

/// Steps, then the longest silence of each stream, over the same time; deaths go through all of them.
fn time_bar(text: &mut String, outcome: &Outcome) {
    let ends = outcome.steps.iter().map(|step| step.at + step.took);
    let gaps = outcome.streams.iter().filter_map(|it| Some(it.gap_at? + it.longest_gap));
    let end = ends.chain(gaps).chain(outcome.deaths.iter().copied()).fold(0.0, f64::max);
    if end <= 0.0 {
        return;
    }
    let lines = outcome.steps.len() + outcome.streams.len();
    let height = (lines as f64 + 1.5) * LINE;
    let _ = writeln!(text, "<svg viewBox=\"0 0 {WIDTH} {height}\" role=img>");
    let x = |at: f64| at.clamp(0.0, end) / end * WIDTH;
    let mut bar = |line: usize, at: f64, took: f64, kind: &str, what: &str| {
        let (left, y) = (x(at), line as f64 * LINE);
        let width = (x(at + took) - left).max(1.0);
        let _ = writeln!(
            text,
            "<rect class={kind} x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{}\"><title>{}</title>\
             </rect>",
            y + 2.0,
            LINE - 4.0,
            escaped(what)
        );
    };
    for (line, step) in outcome.steps.iter().enumerate() {
        bar(line, step.at, step.took, "step", &step.what);
    }
    for (line, stream) in outcome.streams.iter().enumerate() {
        let Some(at) = stream.gap_at else { continue };
        let what = format!("longest silence of {}: {}", stream.what, seconds(stream.longest_gap));
        bar(outcome.steps.len() + line, at, stream.longest_gap, "gap", &what);
    }
    for at in &outcome.deaths {
        let x = x(*at);
        let _ = writeln!(
            text,
            "<line class=death x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{height}\"><title>the agent dies at \
             {at:.3} s</title></line>"
        );
    }
    let _ = writeln!(
        text,
        "<text x=\"2\" y=\"{0:.1}\">0 s: steps blue, longest silences yellow, deaths red</text><text x=\"{WIDTH}\" \
         y=\"{0:.1}\" text-anchor=\"end\">{1}</text>\n</svg>",
        height - 4.0,
        seconds(end)
    );
}

fn steps(text: &mut String, outcome: &Outcome) {
    text.push_str("<table><tr><th>at<th>took<th>what was done\n");
    for step in &outcome.steps {
        let _ = writeln!(
            text,
            "<tr><td class=n>{:.3} s<td class=n>{}<td>{}",
            step.at,
            seconds(step.took),
            escaped(&step.what)
        );
    }
    text.push_str("</table>\n");
}

fn streams(text: &mut String, outcome: &Outcome) {
    if outcome.streams.is_empty() {
        return;
    }
    text.push_str("<table><tr><th>traffic<th>sent<th>lost<th>longest silence<th>at\n");
    for Stream { what, sent, lost, longest_gap, gap_at } in &outcome.streams {
        let at = gap_at.map_or(String::new(), |at| format!("{at:.3} s"));
        let class = if *lost == 0 { "n" } else { "\"n broken\"" };
        let _ = writeln!(
            text,
            "<tr><td>{}<td class=n>{sent}<td class={class}>{lost}<td class=n>{}<td class=n>{at}",
            escaped(what),
            seconds(*longest_gap)
        );
    }
    text.push_str("</table>\n");
}

fn links(text: &mut String, outcome: &Outcome, recordings: &Path) {
    if outcome.recordings.is_empty() {
        return;
    }
    let folder = recordings.file_name().unwrap_or_default().to_string_lossy();
    let _ = writeln!(
        text,
        "<p>What the agents recorded: flight.ring is of the last one, flight.previous.ring of the one before; \
         <code>volvox trace --life FILE</code> shows them, and <code>volvox dashboard FILE</code> with what was done on \
         the time bar.<ul>"
    );
    for name in &outcome.recordings {
        let place = escaped(&format!("{folder}/{}/{name}", outcome.history));
        let _ = writeln!(text, "<li><a href=\"{place}\">{place}</a>");
    }
    text.push_str("</ul>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::outcome::{Done, Place};

    #[test]
    fn the_page_needs_nothing_else_and_marks_deaths() {
        let mut outcome = Outcome::new("a<b", Place::Lab, 1);
        outcome.steps.push(Done { what: "x & y".into(), at: 1.0, took: 1.0 });
        outcome.deaths = vec![0.5, 1.5];
        outcome.recordings = vec!["flight.ring".into()];
        outcome.streams.push(Stream {
            what: "udp".into(),
            sent: 9,
            lost: 1,
            longest_gap: 0.25,
            gap_at: Some(-1.0),
        });
        let text = page(&[outcome], Path::new("/tmp/x.recordings"));
        assert_eq!(text.matches("class=death").count(), 2, "{text}");
        // Half of two seconds.
        assert!(text.contains("x=\"500.0\"") && text.contains("x1=\"250.0\""), "{text}");
        assert!(text.contains("href=\"x.recordings/a&lt;b/flight.ring\""), "{text}");
        assert!(
            !text.contains("script") && !text.contains("http") && !text.contains("a<b"),
            "{text}"
        );
    }
}
