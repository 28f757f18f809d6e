//! Outlets: an actor says its news to one, and does not know who hears it.
//!
//! The news is a type of whoever says it. Whoever builds the node joins the outlet to an actor above,
//! whose message it becomes. So a lower floor speaks to a higher one without naming it.

use std::{any::Any, fmt, rc::Rc};

use super::{CellId, Message, Ref};

/// What takes an `E`: an actor whose message it is, or an outlet that leads to one.
pub trait Hears<E> {
    /// The number of the actor that hears it.
    fn id(&self) -> CellId;

    /// Puts it into that actor's mailbox.
    fn hear(&self, news: E) -> Result<(), Undelivered>;
}

/// The mailbox was full, or the actor is gone; what was said is lost.
pub struct Undelivered {
    /// Whether the actor is gone for ever.
    pub gone: bool,
    /// The message, with the replies in it: who asked hears of the refusal before these are dropped.
    _msg: Box<dyn Any>,
}

impl fmt::Debug for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.gone { "the actor is gone" } else { "its mailbox is full" })
    }
}

impl std::error::Error for Undelivered {}

/// Where news of type `E` goes. Does not keep alive who hears it.
pub struct Outlet<E> {
    id: CellId,
    put: Rc<dyn Fn(E) -> Result<(), Undelivered>>,
}

impl<M: Message> Ref<M> {
    /// An outlet that leads here; `wrap` makes a message of what is said.
    pub fn outlet<E: 'static>(&self, wrap: impl Fn(E) -> M + 'static) -> Outlet<E> {
        let to = self.clone();
        Outlet { id: to.id(), put: Rc::new(move |news| to.hear(wrap(news))) }
    }
}

impl<M: Message> Hears<M> for Ref<M> {
    fn id(&self) -> CellId {
        Self::id(self)
    }

    fn hear(&self, news: M) -> Result<(), Undelivered> {
        self.tell(news).map_err(|full| Undelivered { gone: full.gone, _msg: Box::new(full.msg) })
    }
}

impl<E> Hears<E> for Outlet<E> {
    fn id(&self) -> CellId {
        self.id
    }

    fn hear(&self, news: E) -> Result<(), Undelivered> {
        self.say(news)
    }
}

impl<E> Outlet<E> {
    /// Says it to whoever hears it.
    pub fn say(&self, news: E) -> Result<(), Undelivered> {
        (self.put)(news)
    }
}

impl<E> Clone for Outlet<E> {
    fn clone(&self) -> Self {
        Self { id: self.id, put: Rc::clone(&self.put) }
    }
}

impl<E> fmt::Debug for Outlet<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outlet({})", self.id)
    }
}
