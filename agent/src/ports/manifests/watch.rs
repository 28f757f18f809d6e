use std::{collections::BTreeSet, io, thread, time::Duration};

use inotify::{EventMask, Inotify, WatchMask};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;
use volvox_actors::workloads::Manifest;

use super::{Look, Manifests};

/// A look at the directory at least that often, should a notice be missed.
const LOOK_AT_LEAST: Duration = Duration::from_secs(10);
/// After that long a directory that could not be listened to is tried again.
const RELISTEN_AFTER: Duration = Duration::from_secs(1);
/// Changes that wait for the actors.
const CHANGES_MAX: usize = 16;

/// Why a directory cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread that watches manifests: {0}; raise the limit of threads")]
pub struct WatchError(io::Error);

/// Changes of a directory of manifests, as they come.
pub struct Watch(mpsc::Receiver<Vec<Manifest>>);

impl Watch {
    /// Goes on from what `manifests` has seen. The thread ends when this is dropped, at the next
    /// look.
    pub fn start(manifests: Manifests) -> Result<Self, WatchError> {
        let (sender, receiver) = mpsc::channel(CHANGES_MAX);
        thread::Builder::new()
            .name("manifests".to_owned())
            .spawn(move || watch(manifests, &sender))
            .map_err(WatchError)?;
        Ok(Self(receiver))
    }

    /// The next changes.
    pub async fn next(&mut self) -> Option<Vec<Manifest>> {
        self.0.recv().await
    }
}

fn watch(mut manifests: Manifests, changes: &mpsc::Sender<Vec<Manifest>>) {
    let mut notices = listen(&manifests);
    // What changed before the listening began is seen by this look.
    let mut look = Look::All;
    while !changes.is_closed() {
        let seen = manifests.look(&look);
        if !seen.is_empty() && changes.blocking_send(seen).is_err() {
            return;
        }
        look = match notices.as_mut().map(wait) {
            Some(Ok(look)) => look,
            _ => {
                thread::sleep(RELISTEN_AFTER);
                notices = listen(&manifests);
                Look::Passing
            }
        };
    }
}

fn listen(manifests: &Manifests) -> Option<Inotify> {
    let inotify = Inotify::init().ok()?;
    let mask = WatchMask::CLOSE_WRITE
        | WatchMask::MOVE
        | WatchMask::DELETE
        | WatchMask::DELETE_SELF
        | WatchMask::MOVE_SELF;
    inotify.watches().add(manifests.dir(), mask).ok()?;
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
