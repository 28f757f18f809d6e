//! Which of several API servers is asked. All who use a connection ask the same one, and move together
//! to the next one when it cannot be reached.
//!
//! Each change begins a turn. A failure counts only in the turn in which its request began: of many
//! that fail together, one changes the server.

use kube::Client;
use tokio::sync::Mutex;
use volvox_actors::ports::ClusterError;

use super::{Access, access::Asked};

/// The servers, and the one of them that is asked.
pub(super) struct Failover {
    access: Access,
    present: Mutex<Present>,
}

#[derive(Default)]
struct Present {
    /// How often the server was changed.
    turn: usize,
    client: Option<(Client, Asked)>,
    /// Who was asked last.
    asked: Option<Asked>,
}

impl Failover {
    pub(super) fn new(access: Access) -> Self {
        Self { access, present: Mutex::default() }
    }

    /// Whether there is another server to ask.
    pub(super) fn has_several(&self) -> bool {
        self.access.servers.len() > 1
    }

    /// The client of the server that is to be asked.
    pub(super) async fn client(&self) -> Result<(Client, Asked), ClusterError> {
        let mut present = self.present.lock().await;
        if let Some(known) = &present.client {
            return Ok(known.clone());
        }
        let new = self.access.client(present.turn).await?;
        present.asked = Some(new.1.clone());
        Ok(present.client.insert(new).clone())
    }

    /// That server could not be reached: the next request goes to the next one, and reads anew how to
    /// get there.
    pub(super) async fn lost(&self, asked: &Asked, why: &str) -> ClusterError {
        let mut present = self.present.lock().await;
        if present.turn == asked.turn {
            present.client = None;
            present.turn = present.turn.wrapping_add(1);
        }
        let Asked { address, remedy, .. } = asked;
        let next = self.access.next(present.turn);
        let next = next.map_or_else(String::new, |next| format!("; next is {next}"));
        ClusterError::Unreachable(format!("cannot reach {address}: {why}{next}{remedy}"))
    }

    /// Whoever asked last waits no longer.
    pub(super) async fn give_up(&self, why: &str) -> ClusterError {
        let asked = self.present.lock().await.asked.clone();
        match asked {
            Some(asked) => self.lost(&asked, why).await,
            None => ClusterError::Unreachable(why.to_owned()),
        }
    }

    /// The next request reads anew who asks: certificates and tokens may have been renewed.
    pub(super) async fn forget(&self, asked: &Asked) {
        let mut present = self.present.lock().await;
        if present.turn == asked.turn {
            present.client = None;
        }
    }

    /// The server that was asked last.
    pub(super) fn address(&self) -> Option<String> {
        let present = self.present.try_lock().ok()?;
        present.asked.as_ref().map(|asked| asked.address.clone())
    }
}

#[cfg(test)]
mod tests;
