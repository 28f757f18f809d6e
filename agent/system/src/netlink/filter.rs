//! BPF filters at the clsact hooks of interfaces: added, listed and removed. Only filters at our
//! priority and handle, and with our name, count as ours.

use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::{
    RouteNetlinkMessage,
    tc::{TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcMessage, TcOption},
};
use rustix::io::Errno;

use super::{
    NetlinkError, Socket,
    socket::{Call, decode},
};

/// Priority of our filters; Cilium's `bpf-filter-priority` has the same default.
const PRIORITY: u32 = 1;
/// Handle of our filters.
const HANDLE: u32 = 1;
/// `ETH_P_ALL`: a filter for packets of every protocol.
const EVERY_PROTOCOL: u16 = 3;

/// Which packets of an interface a filter sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Those that arrive at it.
    Ingress,
    /// Those that leave by it.
    Egress,
}

impl Direction {
    fn parent(self) -> TcHandle {
        let minor = match self {
            Self::Ingress => TcHandle::MIN_INGRESS,
            Self::Egress => TcHandle::MIN_EGRESS,
        };
        TcHandle { major: TcHandle::CLSACT.major, minor }
    }
}

/// A BPF filter at an interface's clsact hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Its priority, lower runs first.
    pub priority: u16,
    /// Its handle.
    pub handle: u32,
    /// The program's number.
    pub prog_id: u32,
    /// The name it was given.
    pub name: String,
}

impl Filter {
    /// Whether it stands where ours do, whoever put it there.
    pub fn is_at_our_place(&self) -> bool {
        u32::from(self.priority) == PRIORITY && self.handle == HANDLE
    }
}

impl Socket {
    /// Gives an interface the clsact queueing discipline, which carries filters; one that is there
    /// stays.
    pub fn clsact_add(&mut self, ifindex: u32) -> Result<(), NetlinkError> {
        let mut request = message(ifindex);
        request.header.handle = TcHandle { major: TcHandle::CLSACT.major, minor: 0 };
        request.header.parent = TcHandle::CLSACT;
        request.attributes.push(TcAttribute::Kind("clsact".to_owned()));
        let call = Call::new("add clsact to", format!("interface {ifindex}"));
        let message = RouteNetlinkMessage::NewQueueDiscipline(request);
        match self.change(&call, message, NLM_F_CREATE | NLM_F_EXCL) {
            Err(error) if error.is_taken() => Ok(()),
            result => self.with_name(result, ifindex),
        }
    }

    /// Removes the clsact queueing discipline of an interface, unless somebody's filter hangs on
    /// it. False if there was nothing to remove.
    pub fn clsact_del_unused(&mut self, ifindex: u32) -> Result<bool, NetlinkError> {
        for direction in [Direction::Ingress, Direction::Egress] {
            let mut request = message(ifindex);
            request.header.parent = direction.parent();
            let call = Call::new("list filters of", format!("interface {ifindex}"));
            let request = RouteNetlinkMessage::GetTrafficFilter(request);
            // Of whatever kind, understood here or not.
            let any = |kind, _: &[u8]| (kind == libc::RTM_NEWTFILTER).then_some(());
            if !self.dump(&call, &request, any)?.is_empty() {
                return Ok(false);
            }
        }
        let mut request = message(ifindex);
        request.header.handle = TcHandle { major: TcHandle::CLSACT.major, minor: 0 };
        request.header.parent = TcHandle::CLSACT;
        let call = Call::new("remove clsact from", format!("interface {ifindex}"));
        match self.change(&call, RouteNetlinkMessage::DelQueueDiscipline(request), 0) {
            Ok(()) => Ok(true),
            // The latter is what the kernel says of an interface that never had one.
            Err(error) if error.is_absent() || error.errno() == Some(Errno::INVAL) => Ok(false),
            Err(error) => self.with_name(Err(error), ifindex),
        }
    }

    /// Lets a program decide over packets (direct action); one at our priority and handle stays, and is an
    /// error that [`is_taken`](NetlinkError::is_taken). The interface needs
    /// [`clsact_add`](Self::clsact_add) first.
    pub fn filter_add(
        &mut self,
        ifindex: u32,
        direction: Direction,
        program: BorrowedFd<'_>,
        name: &str,
    ) -> Result<(), NetlinkError> {
        self.filter_put((ifindex, direction), program, name, NLM_F_EXCL)
    }

    /// The same in place of one at our priority and handle, without a moment between.
    pub fn filter_replace(
        &mut self,
        ifindex: u32,
        direction: Direction,
        program: BorrowedFd<'_>,
        name: &str,
    ) -> Result<(), NetlinkError> {
        self.filter_put((ifindex, direction), program, name, NLM_F_REPLACE)
    }

    fn filter_put(
        &mut self,
        (ifindex, direction): (u32, Direction),
        program: BorrowedFd<'_>,
        name: &str,
        flags: u16,
    ) -> Result<(), NetlinkError> {
        let fd = u32::try_from(program.as_raw_fd()).expect("an open descriptor is not negative");
        let mut request = filter(ifindex, direction);
        request.attributes.push(TcAttribute::Options(vec![
            TcOption::Bpf(TcFilterBpfOption::ProgFd(fd)),
            TcOption::Bpf(TcFilterBpfOption::ProgName(name.to_owned())),
            TcOption::Bpf(TcFilterBpfOption::Flags(TcBpfFlags::DirectAction)),
        ]));
        let call = Call::new("attach", format!("{name} to interface {ifindex}"));
        let message = RouteNetlinkMessage::NewTrafficFilter(request);
        let result = self.change(&call, message, NLM_F_CREATE | flags);
        self.with_name(result, ifindex)
    }

    /// The BPF filters that see the packets of an interface; none if it has no clsact.
    pub fn filter_show(
        &mut self,
        ifindex: u32,
        direction: Direction,
    ) -> Result<Vec<Filter>, NetlinkError> {
        let mut request = message(ifindex);
        request.header.parent = direction.parent();
        let call = Call::new("list filters of", format!("interface {ifindex}"));
        self.dump(&call, &RouteNetlinkMessage::GetTrafficFilter(request), parse)
    }

    /// Removes our filter of that name. False if there was none.
    pub fn filter_del(
        &mut self,
        ifindex: u32,
        direction: Direction,
        name: &str,
    ) -> Result<bool, NetlinkError> {
        let filters = self.filter_show(ifindex, direction)?;
        if !filters.iter().any(|found| found.is_at_our_place() && found.name == name) {
            return Ok(false);
        }
        self.filter_clear(ifindex, direction, name)
    }

    /// Removes what is at our priority and handle, whose name the caller has seen to be this. False if nothing
    /// is there any more.
    pub fn filter_clear(
        &mut self,
        ifindex: u32,
        direction: Direction,
        name: &str,
    ) -> Result<bool, NetlinkError> {
        let request = filter(ifindex, direction);
        let call = Call::new("detach", format!("{name} from interface {ifindex}"));
        match self.change(&call, RouteNetlinkMessage::DelTrafficFilter(request), 0) {
            Ok(()) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => self.with_name(Err(error), ifindex),
        }
    }
}

fn message(ifindex: u32) -> TcMessage {
    TcMessage::with_index(i32::try_from(ifindex).expect("the kernel numbers interfaces in i32"))
}

fn filter(ifindex: u32, direction: Direction) -> TcMessage {
    let mut request = message(ifindex);
    request.header.parent = direction.parent();
    request.header.handle = HANDLE.into();
    request.header.info = PRIORITY << 16 | u32::from(EVERY_PROTOCOL.to_be());
    request.attributes.push(TcAttribute::Kind(TcFilterBpf::KIND.to_owned()));
    request
}

pub(super) fn parse(kind: u16, bytes: &[u8]) -> Option<Filter> {
    let RouteNetlinkMessage::NewTrafficFilter(message) = decode(kind, bytes)? else { return None };
    let mut filter = Filter {
        priority: u16::try_from(message.header.info >> 16).unwrap_or_default(),
        handle: message.header.handle.into(),
        ..Filter::default()
    };
    for attribute in message.attributes {
        let TcAttribute::Options(options) = attribute else { continue };
        for option in options {
            match option {
                TcOption::Bpf(TcFilterBpfOption::ProgId(id)) => filter.prog_id = id,
                TcOption::Bpf(TcFilterBpfOption::ProgName(name)) => filter.name = name,
                _ => {}
            }
        }
    }
    // A priority without a program is only the list's head.
    (filter.prog_id != 0).then_some(filter)
}
