//! Tests: a place is made, found again and removed, whatever of it is missing; who is there answers, and who is not
//! is said to be silent.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    os::fd::AsFd,
    path::Path,
    thread,
    time::Duration,
};

use tokio::task::LocalSet;
use volvox_actors::{
    model::{Addresses, Families, Mac},
    ports::{DesiredHealthPlace, HEALTH_DEVICE},
};
use volvox_system::{
    netlink::{Socket, Veth},
    netns::{Netns, own_mounts},
};

use super::{
    place::Place,
    probes::Prober,
    responder::{self, Responder},
};

const PORT: u16 = 4240;
const BOTH: Families = Families { ipv4: true, ipv6: true };

/// Does it in a namespace and with mounts of its own, with a directory for the file.
fn apart(work: impl FnOnce(&Path) + Send) {
    thread::scope(|scope| {
        let work = || {
            own_mounts().unwrap();
            let dir = tempfile::tempdir().unwrap();
            let node = Netns::create().unwrap();
            node.visit(|| {
                up("lo");
                work(dir.path());
            })
            .unwrap();
        };
        scope.spawn(work).join().unwrap();
    });
}

fn up(name: &str) {
    let mut socket = Socket::open().unwrap();
    let link = socket.link_by_name(name).unwrap().unwrap();
    socket.set_link_up(link.ifindex).unwrap();
}

fn desired() -> DesiredHealthPlace {
    DesiredHealthPlace {
        addresses: Addresses { ipv4: "10.0.0.7".parse().ok(), ipv6: "fd00::7".parse().ok() },
        router: Addresses { ipv4: "10.0.0.1".parse().ok(), ipv6: "fd00::1".parse().ok() },
        mtu: 1400,
    }
}

fn link() -> Option<u32> {
    Some(Socket::open().unwrap().link_by_name(HEALTH_DEVICE).unwrap()?.ifindex)
}

#[test]
fn a_place_is_made_found_again_and_removed_whatever_of_it_is_missing() {
    apart(|dir| {
        let place = Place::of(dir, Path::new("/proc"));
        assert_eq!(place.look().unwrap(), None);
        assert_eq!(place.remove().unwrap(), [""; 0]);
        let made = place.make(&desired()).unwrap();
        assert_eq!(place.look().unwrap(), Some(made.clone()));
        assert_eq!((link(), made.addresses), (Some(made.ifindex), desired().addresses));
        assert_ne!(made.mac, made.node_mac);
        // The interface is gone, and the namespace is not: it is used again.
        place.clear().unwrap();
        assert_eq!((place.look().unwrap(), link()), (None, None));
        let again = place.make(&desired()).unwrap();
        assert_eq!(again.netns_cookie, made.netns_cookie);
        // Whatever else is missing, it is not whole.
        let inside = Netns::open(Path::new(&again.netns_path)).unwrap();
        inside
            .run(|| {
                let mut socket = Socket::open().unwrap();
                let link = socket.link_by_name("cilium").unwrap().unwrap();
                socket.set_link_down(link.ifindex).unwrap();
            })
            .unwrap();
        assert_eq!(place.look().unwrap(), None);
        let whole = place.make(&desired()).unwrap();
        assert_eq!(place.look().unwrap(), Some(whole));
        let removed = place.remove().unwrap();
        assert_eq!(removed.len(), 2, "{removed:?}");
        assert_eq!((link(), fs::read_dir(dir).unwrap().count()), (None, 0));
    });
}

#[test]
fn what_is_in_the_way_of_a_place_is_none() {
    apart(|dir| {
        let place = Place::of(dir, Path::new("/proc"));
        // A file that holds nothing, as of an agent that was killed before it mounted.
        fs::write(dir.join("health-endpoint.netns"), "").unwrap();
        assert_eq!(place.look().unwrap(), None);
        // And an interface of that name that leads elsewhere.
        let elsewhere = Netns::create().unwrap();
        let veth = Veth {
            name: HEALTH_DEVICE,
            peer: "other",
            peer_netns: Some(elsewhere.as_fd()),
            mtu: 1500,
            mac: Mac([2, 0, 0, 0, 0, 1]),
            peer_mac: Mac([2, 0, 0, 0, 0, 2]),
        };
        Socket::open().unwrap().create_veth(&veth).unwrap();
        assert_eq!(place.look().unwrap(), None);
        let made = place.make(&desired()).unwrap();
        assert_eq!(place.look().unwrap(), Some(made));
    });
}

#[test]
fn who_is_there_answers_and_who_is_not_is_said_to_be_silent() {
    apart(|dir| {
        let place = Place::of(dir, Path::new("/proc"));
        place.make(&desired()).unwrap();
        let listener = place.listen(BOTH, PORT).unwrap();
        let inside = Netns::open(&dir.join("health-endpoint.netns")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local: IpAddr = Ipv4Addr::LOCALHOST.into();
        let nobody: IpAddr = [127, 0, 0, 77].into();
        LocalSet::new().block_on(&runtime, async {
            let own = Addresses { ipv4: Some(Ipv4Addr::LOCALHOST), ipv6: None };
            let _own = responder::on_node(own, BOTH, PORT);
            let _inside = Responder::start(listener, 7).unwrap();
            let prober = Prober::start(BOTH, PORT);
            let patience = Duration::from_secs(20);
            assert!(prober.hello(local, patience).await.is_ok());
            let refused = prober.hello(nobody, patience).await.unwrap_err();
            assert!(refused.contains("connection refused"), "{refused}");
            // One without a way is said to have none; an answer of one does not wait for others.
            let far: IpAddr = [203, 0, 113, 1].into();
            let six: IpAddr = "::1".parse().unwrap();
            let answers = prober.echo(vec![local, six, far], 3, Duration::from_millis(200)).await;
            assert!(answers[&local].is_ok() && answers[&six].is_ok(), "{answers:?}");
            assert!(answers[&far].is_err(), "{answers:?}");
        });
        // In the place itself it is answered, too.
        let answer = inside.run(|| {
            up("lo");
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            LocalSet::new().block_on(&runtime, async {
                let own = Ipv4Addr::new(10, 0, 0, 7).into();
                Prober::start(BOTH, PORT).echo(vec![own], 1, Duration::from_secs(20)).await
            })
        });
        assert!(answer.unwrap().values().all(Result::is_ok));
    });
}
