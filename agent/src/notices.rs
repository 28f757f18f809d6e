//! What the agent says of itself, to who listens to it: the first of it is that it started.

use std::{io, rc::Rc};

use volvox_actors::ports::{AgentNews, AgentNotices};
use volvox_hubble::{json::moment, messages::Timestamp};
use volvox_inspect::monitor::{Notified, notices};

/// Who takes what is said, and who hands it on.
pub(crate) fn told_of_start() -> io::Result<(Rc<dyn AgentNotices>, Notified)> {
    let (notifier, notified) = notices()?;
    notifier.happened(AgentNews::Started { time: moment(&Timestamp::now()) });
    Ok((Rc::new(notifier), notified))
}
