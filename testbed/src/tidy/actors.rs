//! How actors are written: what anybody may send, and what outlives a crash.

use std::path::Path;

use super::{Problem, Tree};

/// Where shared cells are no actor's memory: the runtime, ports in memory, and permits, which are shared
/// with who holds one.
const SHARED: [&str; 4] = [
    "actors/src/host",
    "actors/src/ports",
    "actors/src/testing",
    "actors/src/endpoints/build_queue/permits.rs",
];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let files = || tree.rust("actors/src").filter(|(path, _)| !is_test(path));
    let mut problems: Vec<_> = files().flat_map(|(path, text)| answers(path, text)).collect();
    let memory = files().filter(|(path, _)| !SHARED.iter().any(|shared| path.starts_with(shared)));
    problems.extend(Tree::lines(memory, |_, line| {
        let what = "what outlives a crash of an actor is a `host::Survives`, lent to each life";
        line.contains("RefCell<").then(|| what.to_owned())
    }));
    problems
}

fn is_test(path: &Path) -> bool {
    path.iter().any(|part| part == "tests" || part == "tests.rs")
}

/// Lines of public message enums that carry an answer: it says so by its error. It belongs to
/// `Behaviour::Answer`, which nobody else can send.
fn answers(path: &Path, text: &str) -> Vec<Problem> {
    let mut within = None;
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(name) = opened(line) {
            within = Some(name);
        } else if line == "}" {
            within = None;
        } else if let Some(name) = within
            && line.contains("AskError")
        {
            let what = format!(
                "{name} is public, and this is an answer to an own question: move it to the actor's \
                 type Answer"
            );
            problems.push(Problem { path: path.into(), line: number + 1, what });
        }
    }
    problems
}

/// The message enum that a line opens.
fn opened(line: &str) -> Option<&str> {
    let (before, name) = line.strip_suffix(" {")?.split_once("enum ")?;
    (before.starts_with("pub") && name.ends_with("Msg")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_a_public_message_is_out_of_order() {
        let text = "\
pub enum AMsg {
    /// Fine.
    Show(Reply<u32>),
    Shown(Result<u32, AskError>),
}

pub enum AAnswer {
    Shown(Result<u32, AskError>),
}
";
        let tree = Tree::of(&[("actors/src/a.rs", text), ("actors/src/a/tests.rs", text)]);
        let found: Vec<_> = check(&tree).into_iter().map(|it| (it.path, it.line)).collect();
        assert_eq!(found, [("actors/src/a.rs".into(), 4)]);
    }

    #[test]
    fn a_shared_cell_is_no_way_to_outlive_a_crash() {
        let text = "struct A {\n    kept: Rc<RefCell<u32>>,\n}\n";
        let names = ["actors/src/a.rs", "actors/src/host/b.rs", "actors/src/a/tests/c.rs"];
        let tree = Tree::of(&names.map(|name| (name, text)));
        let found: Vec<_> = check(&tree).into_iter().map(|it| (it.path, it.line)).collect();
        assert_eq!(found, [("actors/src/a.rs".into(), 2)]);
    }
}
