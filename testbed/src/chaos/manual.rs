//! The manual page of `testbed chaos`, and completions for shells: both come from the command line itself.

use std::io::{self, Write};

use anyhow::Result;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;

/// What the program is called.
const PROGRAM: &str = "testbed";

/// Prints a script that completes words.
pub(super) fn completions(shell: Shell) -> Result<i32> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), PROGRAM, &mut script);
    print(&script)
}

/// Prints the page: the verbs, then each with its options.
pub(super) fn page() -> Result<i32> {
    let chaos = chaos();
    let mut text = Vec::new();
    Man::new(chaos.clone()).render(&mut text)?;
    for verb in chaos.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("{PROGRAM} chaos {}", verb.get_name());
        writeln!(text, ".SH \"{}\"", name.to_uppercase())?;
        let named = verb.clone().bin_name(&name).display_name(&name);
        let man = Man::new(named);
        man.render_synopsis_section(&mut text)?;
        man.render_description_section(&mut text)?;
        man.render_options_section(&mut text)?;
    }
    print(&text)
}

/// The command with its verbs, as it is called.
fn chaos() -> Command {
    let mut program = Cli::command();
    program.build();
    let chaos = program.find_subcommand("chaos").expect("it is one of the verbs").clone();
    chaos.display_name("testbed-chaos").version(env!("CARGO_PKG_VERSION"))
}

/// Nobody need read to the end.
fn print(bytes: &[u8]) -> Result<i32> {
    match io::stdout().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_knows_every_verb() {
        let chaos = chaos();
        let verbs: Vec<_> = chaos.get_subcommands().map(Command::get_name).collect();
        assert!(verbs.contains(&"run") && verbs.contains(&"learn"), "{verbs:?}");
    }
}
