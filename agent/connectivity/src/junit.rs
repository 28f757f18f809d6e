//! The report as JUnit's XML, which servers of continuous integration read.

use std::fmt::Write;

use crate::{Outcome, Report, TestReport};

/// Writes a report: a suite with a case for each test. A run that ended before its end has a case for
/// that, which is an error.
pub fn junit(report: &Report) -> String {
    let failed = report.count(Outcome::Failed);
    let skipped = report.count(Outcome::NotTried);
    let errors = usize::from(report.error.is_some());
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a text does not fail.
    let _ = writeln!(
        text,
        "<testsuite name=\"volvox connectivity\" tests=\"{}\" failures=\"{failed}\" errors=\"{errors}\" \
         skipped=\"{skipped}\" time=\"{:.3}\">",
        report.tests.len() + errors,
        report.seconds
    );
    text.push_str("  <properties>\n");
    let nodes = report.nodes.join(", ");
    for (name, value) in
        [("namespace", &report.namespace), ("nodes", &nodes), ("image", &report.image)]
    {
        let _ = writeln!(text, "    <property name=\"{name}\" value=\"{}\"/>", escaped(value));
    }
    text.push_str("  </properties>\n");
    report.tests.iter().for_each(|it| case(&mut text, it));
    if let Some(error) = &report.error {
        let error = escaped(error);
        let _ = writeln!(
            text,
            "  <testcase classname=\"volvox.connectivity\" name=\"run\" time=\"0.000\">\n    \
             <error message=\"{error}\" type=\"error\">{error}</error>\n  </testcase>"
        );
    }
    text.push_str("</testsuite>\n");
    text
}

fn case(text: &mut String, test: &TestReport) {
    let _ = write!(
        text,
        "  <testcase classname=\"volvox.connectivity\" name=\"{}\" time=\"{:.3}\"",
        escaped(&test.name),
        test.seconds
    );
    let mut lines: Vec<String> = Vec::new();
    for failure in &test.failures {
        lines.push(failure.line());
        if !failure.hint.is_empty() {
            lines.push(format!("  see: {}", failure.hint));
        }
    }
    let _ = match test.outcome {
        Outcome::Passed if test.notes.is_empty() => writeln!(text, "/>"),
        Outcome::Passed => {
            writeln!(
                text,
                ">\n    <system-out>{}</system-out>\n  </testcase>",
                escaped(&test.notes.join("\n"))
            )
        }
        Outcome::Failed => writeln!(
            text,
            ">\n    <failure message=\"{} of {} probes\" type=\"failure\">{}</failure>\n  </testcase>",
            test.failed,
            test.probes,
            escaped(&lines.join("\n"))
        ),
        Outcome::NotTried => {
            writeln!(text, ">\n    <skipped message=\"{}\"/>\n  </testcase>", escaped(&test.reason))
        }
    };
}

/// A text as XML has it. What XML 1.0 cannot have is replaced.
fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => all.push_str("&amp;"),
            '<' => all.push_str("&lt;"),
            '>' => all.push_str("&gt;"),
            '"' => all.push_str("&quot;"),
            '\n' => all.push_str("&#10;"),
            '\t' => all.push_str("&#9;"),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => all.push('\u{fffd}'),
            it => all.push(it),
        }
    }
    all
}

#[cfg(test)]
mod tests;
