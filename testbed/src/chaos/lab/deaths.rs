//! An agent that is started, and does not live long.

use std::thread;

use anyhow::{Context, Result, ensure};

use super::World;
use crate::chaos::history::{Death, Phase};

impl World<'_> {
    /// Starts an agent for each death, and has it die.
    pub(super) fn die(&mut self, deaths: &[Death]) -> Result<()> {
        for death in deaths {
            match death {
                Death::Before { call, nth } => {
                    let died = self.die_before(call, *nth)?;
                    ensure!(
                        died,
                        "a start makes fewer than {nth} calls of {call} in any thread: take a \
                         smaller number"
                    );
                }
                Death::Every { call, step } => {
                    let mut nth = 1;
                    while self.die_before(call, nth)? {
                        nth += step;
                    }
                    ensure!(nth > 1, "a start makes no call of {call}");
                }
                Death::After(span) => {
                    let span = self.time(*span);
                    self.node.exec_agent()?;
                    thread::sleep(span);
                }
                Death::At(phase) => {
                    self.node.exec_agent()?;
                    let count = self.pods.len();
                    match phase {
                        Phase::Api => self.node.wait_for_api().map(drop)?,
                        Phase::Ready => self.node.wait_for_ready(count).map(drop)?,
                        Phase::Restored => {
                            self.node.wait_for_api()?;
                            self.node.wait_until_restored()?;
                        }
                    }
                }
            }
            self.kill()?;
        }
        Ok(())
    }

    /// Starts an agent that dies before its nth call of that name, counted in each thread; whether it made
    /// so many before all was ready.
    fn die_before(&mut self, call: &str, nth: u32) -> Result<bool> {
        self.node.doom(call, nth);
        self.node.exec_agent()?;
        let lives = self.node.ready_or_ended(self.pods.len());
        let lives = lives.with_context(|| format!("killed before call {nth} of {call}"))?;
        self.kill()?;
        Ok(!lives)
    }
}
