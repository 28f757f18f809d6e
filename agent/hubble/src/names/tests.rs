//! Tests: an address is whose it was at the time, also after a restart.

use super::*;

const SECOND: u64 = 1_000_000_000;

fn pod(id: u32, identity: u32, name: &str) -> Arc<FlowEndpoint> {
    Arc::new(FlowEndpoint {
        id,
        identity,
        namespace: "default".into(),
        pod_name: name.into(),
        labels: vec![format!("k8s:app={name}")],
        ..FlowEndpoint::default()
    })
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn snapshot(endpoints: &[(&str, Arc<FlowEndpoint>)]) -> Snapshot {
    let endpoints = endpoints.iter().map(|(ip, it)| (address(ip), Arc::clone(it))).collect();
    Snapshot { endpoints, ..Snapshot::default() }
}

fn name_at(names: &Names, time: u64) -> String {
    names.endpoint(address("10.0.0.1"), time * SECOND, 0).pod_name
}

#[test]
fn an_address_is_whose_it_was_at_the_time() {
    let mut names = Names::new(Node::default());
    names.update(100 * SECOND, snapshot(&[("10.0.0.1", pod(1, 300, "a"))]));
    names.update(200 * SECOND, snapshot(&[]));
    names.update(300 * SECOND, snapshot(&[("10.0.0.1", pod(2, 301, "b"))]));
    assert!(names.has_endpoint(address("10.0.0.1")));
    let at = |time| name_at(&names, time);
    assert_eq!([at(150), at(299), at(300), at(9999)], ["a", "b", "b", "b"]);
    assert_eq!([at(95), at(80), at(205), at(250)], ["a", "", "a", ""], "shortly before and after");
    names.forget_before(280 * SECOND);
    assert_eq!(name_at(&names, 150), "");
}

#[test]
fn names_outlive_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("names");
    let mut names = Names::new(Node::default());
    let mut first = snapshot(&[("10.0.0.1", pod(1, 300, "a")), ("fd00::1", pod(1, 300, "a"))]);
    let policy = FlowPolicy { name: "deny".into(), ..FlowPolicy::default() };
    first.policies.insert(7, Arc::new(vec![policy]));
    first.identities.insert(300, Arc::new(vec!["k8s:app=a".into()]));
    names.update(100 * SECOND, first);
    Names::write(&path, &names.to_keep().unwrap()).unwrap();
    assert_eq!(names.to_keep(), None, "nothing is new");
    let mut next = Names::new(Node::default());
    next.restore(&path);
    assert_eq!(name_at(&next, 150), "a");
    assert_eq!(next.policies(7, 150 * SECOND)[0].name, "deny");
    assert!(!next.has_endpoint(address("10.0.0.1")), "nobody has said so yet");
    // Another pod has the address in the next life.
    let now = crate::messages::now();
    next.update(now + SECOND, snapshot(&[("10.0.0.1", pod(2, 301, "b"))]));
    assert_eq!(name_at(&next, 150), "a");
    assert_eq!(next.endpoint(address("10.0.0.1"), now + 2 * SECOND, 0).pod_name, "b");
    let whole = std::fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        Names::new(Node::default()).restore(&path);
    }
    Names::new(Node::default()).restore(dir.path());
    let absent = dir.path().join("absent/names");
    let error = Names::write(&absent, &[]).unwrap_err().to_string();
    assert!(error.contains("--state-dir"), "{error}");
}

#[test]
fn who_is_no_endpoint_here_is_known_by_identity() {
    let mut names = Names::new(Node::default());
    let mut all = Snapshot::default();
    let labels = |texts: &[&str]| Arc::new(texts.iter().map(|&it| it.into()).collect::<Vec<_>>());
    let of_pod = labels(&["k8s:app=db", "k8s:io.kubernetes.pod.namespace=shop"]);
    all.identities.insert(500, of_pod);
    let of_prefix = labels(&["cidr:0.0.0.0/0", "cidr:8.8.8.0/24", "reserved:world"]);
    all.identities.insert((1 << 24) + 1, of_prefix);
    for (prefix, identity) in
        [("10.0.0.0/8", 2), ("10.1.0.0/16", 6), ("10.1.2.3/32", 500), ("8.8.8.0/24", (1 << 24) + 1)]
    {
        all.prefixes.insert(prefix.parse().unwrap(), Remote { identity });
    }
    names.update(SECOND, all);
    let of = |ip: &str, said: u32| names.endpoint(address(ip), 2 * SECOND, said);
    assert_eq!((of("10.1.2.3", 0).identity, &*of("10.1.2.3", 0).namespace), (500, "shop"));
    assert_eq!(of("10.1.9.9", 0).identity, 6);
    assert_eq!(of("10.9.9.9", 0).identity, 2);
    assert_eq!(of("1.1.1.1", 0).identity, 0);
    assert_eq!(of("10.9.9.9", 500).labels.len(), 2, "what the datapath says wins");
    assert_eq!(of("8.8.8.8", 0).labels, ["cidr:8.8.8.0/24", "reserved:world"]);
    assert_eq!(of("fd00::9", 0).identity, 0);
}
