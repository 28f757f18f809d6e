//! Text in lines that a terminal has room for.

use std::{env, io};

use rustix::termios::tcgetwinsize;

/// Narrower ones are not wrapped for.
const NARROWEST: usize = 40;

/// How many columns the terminal has; none if nobody looks at one. `COLUMNS` counts before it.
pub(crate) fn terminal_width() -> Option<usize> {
    let said = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let seen = || tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    said.or_else(seen).filter(|width| *width >= NARROWEST)
}

/// Lines of at most so many columns, broken between words; those behind the first are indented. A word
/// that is longer has a line of its own.
pub(crate) fn wrapped(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for part in text.lines() {
        let own = part.len() - part.trim_start().len();
        let mut line = " ".repeat(own);
        let mut is_empty = true;
        for word in part.split_whitespace() {
            let room = line.chars().count() + usize::from(!is_empty) + word.chars().count();
            if !is_empty && room > width {
                lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        let text = "  an endpoint waits for a permit to build";
        assert_eq!(
            wrapped(text, 20, 4),
            ["  an endpoint waits", "    for a permit to", "    build"]
        );
        assert_eq!(wrapped("one", 20, 4), ["one"]);
        assert_eq!(
            wrapped("a averyveryverylongword b", 10, 2),
            ["a", "  averyveryverylongword", "  b"]
        );
        assert_eq!(wrapped("one\ntwo", 20, 4), ["one", "two"]);
    }
}
