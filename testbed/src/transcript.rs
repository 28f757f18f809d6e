//! Commands that a page of the documentation shows, and what it says that they print.

/// Any text, or as a line any lines.
const ANYTHING: char = '…';

/// A command and the lines that it should print.
#[derive(Debug, PartialEq)]
pub struct Step<'a> {
    /// What stands behind `$ `.
    pub command: &'a str,
    /// Lines of the page.
    pub lines: Vec<&'a str>,
}

/// The commands of all console blocks of a page.
pub fn steps(page: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    for line in blocks.flat_map(str::lines) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command, lines: Vec::new() }),
            (None, Some(step)) => step.lines.push(line),
            (None, None) => {}
        }
    }
    steps
}

/// Whether what was printed is what is expected.
pub fn is_as_expected(printed: &[&str], expected: &[&str]) -> bool {
    match (printed, expected) {
        ([], []) => true,
        (_, [line, rest @ ..]) if line.chars().eq([ANYTHING]) => {
            (0..=printed.len()).any(|skipped| is_as_expected(&printed[skipped..], rest))
        }
        ([line, more @ ..], [like, rest @ ..]) => is_like(line, like) && is_as_expected(more, rest),
        _ => false,
    }
}

fn is_like(line: &str, like: &str) -> bool {
    let mut parts = like.split(ANYTHING);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    rest.is_empty() || last.is_some_and(str::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_compared_as_the_page_means_it() {
        let is = |printed: &str, expected: &str| {
            let [printed, expected] = [printed, expected].map(|it| it.lines().collect::<Vec<_>>());
            is_as_expected(&printed, &expected)
        };
        assert!(is("a b c", "a …"));
        assert!(is("a b c", "a … c"));
        assert!(is("one\ntwo\nthree", "…\nthree"));
        assert!(is("three", "…\nthree"));
        assert!(!is("a b d", "a … c"));
        assert!(!is("a", "b"));
        assert!(!is("one\ntwo", "one"));
        assert!(!is("", "one"));
        assert!(!is("a b", "a"));
        let read = steps("x\n```console\n$ one\na\nb\n$ two\n```\n```sh\n$ no\n```\n");
        let step = |command, lines: &[&'static str]| Step { command, lines: lines.to_vec() };
        assert_eq!(read, [step("one", &["a", "b"]), step("two", &[])]);
    }
}
