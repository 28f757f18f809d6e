//! Asks before something is done that cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use super::error::ClientError;

/// Asks on the terminal; where there is none, `--yes` is desired.
pub(super) fn confirm(warning: &str) -> Result<(), ClientError> {
    if !io::stdin().is_terminal() {
        return Err(ClientError::Usage(format!("{warning} Say --yes if that is what you want.")));
    }
    write!(io::stderr(), "{warning} Type yes to go on: ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(ClientError::Failed("nothing was done".to_owned())),
    }
}
