//! Who has every record, whether anybody listens or not.

use volvox_actors::ports::AgentNews;
use volvox_maps::Event;

/// Keeps records. It is called where they are read, so it must be quick.
pub trait RecordTap: Send {
    /// Takes a record, or how many were lost.
    fn take(&mut self, event: &Event);
    /// Takes what the agent says of itself.
    fn hear(&mut self, news: &AgentNews);
    /// All that was there is taken. Whether it wants to be called again soon, with or without more.
    fn flush(&mut self) -> bool;
}
