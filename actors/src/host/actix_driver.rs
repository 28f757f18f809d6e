//! The driver of production: actix says when a cell runs and when the next timer fires.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use actix::{Actor, Addr, AsyncContext, Context, Handler, SpawnHandle};

use super::{CellId, Driver, Host};
use crate::host::Time;

/// Runs cells on the current thread's actix system: each cell has an actix actor as its doorbell.
///
/// The mailbox proper is the cell's own, because actix's grows by one for each sender and knows
/// no lanes. One ring at a time is under way, so the doorbell's own mailbox never fills.
#[derive(Default)]
pub struct ActixDriver {
    doors: RefCell<BTreeMap<CellId, Door>>,
    keeper: RefCell<Option<Addr<Keeper>>>,
}

struct Door {
    bell: Addr<Doorbell>,
    ringing: Rc<Cell<bool>>,
}

impl Driver for ActixDriver {
    fn spawned(&self, host: &Host, cell: CellId) {
        let mut keeper = self.keeper.borrow_mut();
        if keeper.is_none() {
            *keeper = Some(Keeper { host: host.clone(), armed: None }.start());
        }
        let ringing = Rc::new(Cell::new(false));
        let bell = Doorbell { host: host.clone(), cell, ringing: Rc::clone(&ringing) }.start();
        self.doors.borrow_mut().insert(cell, Door { bell, ringing });
    }

    fn ring(&self, cell: CellId) {
        if let Some(door) = self.doors.borrow().get(&cell)
            && !door.ringing.replace(true)
            && door.bell.try_send(Ring).is_err()
        {
            // Only a closed doorbell refuses its single ring, and then the host is going down.
            door.ringing.set(false);
        }
    }

    fn wake_at(&self, _: Time) {
        if let Some(keeper) = self.keeper.borrow().as_ref() {
            // A full mailbox holds a wake-up already, and that one re-arms for the earliest timer.
            let _ = keeper.try_send(WakeUp);
        }
    }

    fn stopped(&self, cell: CellId) {
        self.doors.borrow_mut().remove(&cell);
    }
}

struct Doorbell {
    host: Host,
    cell: CellId,
    ringing: Rc<Cell<bool>>,
}

#[derive(actix::Message)]
#[rtype(result = "()")]
struct Ring;

impl Actor for Doorbell {
    type Context = Context<Self>;

    fn started(&mut self, cx: &mut Self::Context) {
        cx.set_mailbox_capacity(1);
    }
}

impl Handler<Ring> for Doorbell {
    type Result = ();

    fn handle(&mut self, _: Ring, _: &mut Self::Context) {
        self.ringing.set(false);
        self.host.run(self.cell);
    }
}

/// Keeps the one timer that the earliest of all timers needs.
struct Keeper {
    host: Host,
    armed: Option<(Time, SpawnHandle)>,
}

#[derive(actix::Message)]
#[rtype(result = "()")]
struct WakeUp;

impl Actor for Keeper {
    type Context = Context<Self>;
}

impl Keeper {
    fn arm(&mut self, cx: &mut Context<Self>) {
        let Some(next) = self.host.next_timer() else { return };
        if let Some((at, handle)) = self.armed {
            if at <= next {
                return;
            }
            cx.cancel_future(handle);
        }
        let handle = cx.run_later(next.since(self.host.now()), |keeper, cx| {
            keeper.armed = None;
            keeper.host.fire_due();
            keeper.arm(cx);
        });
        self.armed = Some((next, handle));
    }
}

impl Handler<WakeUp> for Keeper {
    type Result = ();

    fn handle(&mut self, _: WakeUp, cx: &mut Self::Context) {
        self.arm(cx);
    }
}
