//! The page of flags says what the agent's flags are.

use volvox_agent::config::reference;

use super::{Problem, Tree};

const PAGE: &str = "agent/docs/flags.md";
const REMEDY: &str = "run cargo testbed flags > agent/docs/flags.md";

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let (page, flags) = (tree.get(PAGE).unwrap_or_default(), reference());
    let mut lines = page.lines().zip(flags.lines());
    let line = match lines.position(|(has, should)| has != should) {
        Some(line) => line + 1,
        None if page == flags => return Vec::new(),
        None => 0,
    };
    let what = format!("this is not what the agent's flags are: {REMEDY}");
    vec![Problem { path: PAGE.into(), line, what }]
}

/// Prints the page.
pub fn print_flags() {
    volvox_system::say!("{}", reference().trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_changed_is_found_in_its_line() {
        let page = reference();
        assert_eq!(check(&Tree::of(&[(PAGE, &page)])), []);
        let line = |text: &str| check(&Tree::of(&[(PAGE, text)])).first().map(|it| it.line);
        let nth = page.lines().position(|line| line.contains("`--mtu BYTES`")).unwrap();
        assert_eq!(line(&page.replace("`--mtu BYTES`", "`--mtu-size`")), Some(nth + 1));
        assert_eq!(line(""), Some(0));
    }
}
