//! When to look at a directory: inotify says it, and a timer in case that misses a change.

use std::{collections::BTreeSet, io, path::Path, thread, time::Duration};

use inotify::{EventMask, Inotify, WatchMask};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Look;

/// A look at the directory at least that often, should a notice be missed.
const LOOK_AT_LEAST: Duration = Duration::from_secs(10);
/// After that long a directory that could not be listened to is tried again.
const RELISTEN_AFTER: Duration = Duration::from_secs(1);

/// Has a directory looked at whenever something changes there, on this thread, until `look` says
/// that nobody wants to know any more. The first look is at all of it.
pub fn follow(dir: &Path, mut look: impl FnMut(&Look) -> bool) {
    let mut notices = listen(dir);
    // What changed before the listening began is seen by this look.
    let mut next = Look::All;
    while look(&next) {
        next = match notices.as_mut().map(wait) {
            Some(Ok(look)) => look,
            _ => {
                thread::sleep(RELISTEN_AFTER);
                notices = listen(dir);
                Look::Passing
            }
        };
    }
}

fn listen(dir: &Path) -> Option<Inotify> {
    let inotify = Inotify::init().ok()?;
    let mask = WatchMask::CLOSE_WRITE
        | WatchMask::MOVE
        | WatchMask::DELETE
        | WatchMask::DELETE_SELF
        | WatchMask::MOVE_SELF;
    inotify.watches().add(dir, mask).ok()?;
    Some(inotify)
}

/// Waits for notices, or until it is time to look anyway; says what to look at. An error means:
/// listen anew.
fn wait(inotify: &mut Inotify) -> io::Result<Look> {
    let longest = Timespec::try_from(LOOK_AT_LEAST).map_err(io::Error::other)?;
    let mut fds = [PollFd::new(inotify, PollFlags::IN)];
    if poll(&mut fds, Some(&longest))? == 0 {
        return Ok(Look::Passing);
    }
    let mut buffer = [0; 4096];
    let mut closed = BTreeSet::new();
    for event in inotify.read_events(&mut buffer)? {
        let lost = EventMask::IGNORED | EventMask::DELETE_SELF | EventMask::MOVE_SELF;
        if event.mask.intersects(lost) {
            return Err(io::Error::other("the directory was replaced"));
        }
        match event.name.and_then(|name| name.to_str()) {
            // A mounted ConfigMap changes all its files at once, by one link that it moves.
            Some(name) if name.starts_with("..") => return Ok(Look::All),
            Some(name) => {
                closed.insert(name.to_owned());
            }
            None => return Ok(Look::Passing),
        }
    }
    Ok(Look::Closed(closed))
}
