//! The page of all flags, `agent/docs/flags.md`, made from the flags themselves.

use std::fmt::Write;

use clap::Arg;

use super::command;

const HEAD: &str = "\
# Flags

All flags of `volvox-agent`, in the order of `volvox-agent --help`. [Running the agent](running.md#settings)
says in which other places a setting may stand: `--state-dir` is also the environment variable
`VOLVOX_STATE_DIR` and the file `state-dir` of `--config-dir`. A switch is `--debug`, `--debug=true` or
`--debug=false`. A duration is `1h2m3s`, or `500ms`.

`cargo testbed flags > agent/docs/flags.md` writes this page anew from the code.

| flag | default | meaning |
|---|---|---|
";

/// The page, in Markdown.
pub fn reference() -> String {
    let command = command();
    let rows = command.get_arguments().filter_map(row);
    HEAD.to_owned() + &rows.collect::<String>()
}

/// The row of one flag.
fn row(arg: &Arg) -> Option<String> {
    let long = arg.get_long()?;
    let mut flag = format!("--{long}");
    if let Some(name) = arg.get_value_names().and_then(<[_]>::first)
        && arg.get_action().takes_values()
    {
        let joint = if arg.is_require_equals_set() { '=' } else { ' ' };
        let _ = write!(flag, "{joint}{name}");
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|it| it.to_string_lossy()).collect();
    let default = defaults.join(",");
    let default = if default.is_empty() { "–".to_owned() } else { code(&default) };
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
    let mut meaning = text(&help.unwrap_or_default());
    let values = arg.get_possible_values();
    if !arg.is_hide_possible_values_set() && !values.is_empty() {
        let values = values.iter().filter(|it| !it.is_hide_set());
        let values = values.map(|it| match it.get_help() {
            Some(help) => format!("{}: {}", code(it.get_name()), text(&help.to_string())),
            None => code(it.get_name()),
        });
        let _ = write!(meaning, ".<br>{}", values.collect::<Vec<_>>().join("<br>"));
    }
    for alias in arg.get_all_aliases().unwrap_or_default() {
        let _ = write!(meaning, ".<br>Also called {}", code(&format!("--{alias}")));
    }
    Some(format!("| {} | {default} | {meaning} |\n", code(&flag)))
}

/// Words of a help text, as a cell of a table has them.
fn text(help: &str) -> String {
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace('|', "\\|").replace('<', "&lt;")
}

fn code(words: &str) -> String {
    format!("`{}`", words.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_has_its_value_its_default_and_its_choices() {
        let page = reference();
        let row = |flag: &str| {
            let begin = format!("| `--{flag}");
            page.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("{flag}"))
        };
        assert!(row("mtu").starts_with("| `--mtu BYTES` | `0` | Largest packet"));
        assert!(row("log-level").contains("`debug`"), "{}", row("log-level"));
        assert!(row("config-dir").contains("| – |"));
        assert!(row("k8s-api-server").ends_with("Also called `--k8s-api-server-urls` |"));
        assert!(row("enable-k8s").starts_with("| `--enable-k8s=BOOL` |"));
        assert!(!row("enable-k8s").contains("<br>"), "{}", row("enable-k8s"));
    }
}
