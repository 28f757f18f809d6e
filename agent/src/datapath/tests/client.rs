//! The commands over maps of the kernel, with no agent.

use clap::Parser;
use serde_json::{Value, json};
use volvox_cli::{Arguments, execute};

use super::{sandbox::Sandbox, services::serve};

fn text(command: &str) -> String {
    let fixed = ["volvox", "--socket-path", "/nowhere"].into_iter();
    let arguments = Arguments::try_parse_from(fixed.chain(command.split(' '))).unwrap();
    let mut out = Vec::new();
    execute(arguments, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn json(command: &str) -> Value {
    serde_json::from_str(&text(&format!("-o json {command}"))).unwrap()
}

#[test]
fn maps_of_services_are_listed_with_no_agent() {
    Sandbox::run(|sandbox| {
        serve(sandbox);
        let flags = "[LoadBalancer, maglev, affinity, source-ranges, internal-local]";
        assert_eq!(
            text("bpf lb list"),
            format!(
                "FRONTEND                  SLOT  ID  BACKEND\n\
                 10.96.0.1:80/TCP          0     3   {flags} 1 used, 1 quarantined\n\
                 10.96.0.1:80/TCP          1     3   10.9.0.0:8080/TCP (10)\n\
                 10.96.0.1:80/TCP          2     3   10.9.0.1:8080/TCP (20, quarantined)\n\
                 10.96.0.2:443/TCP/i       0     4   [ClusterIP, random] 1 used\n\
                 10.96.0.2:443/TCP/i       1     4   nothing (99)\n\
                 [fd00::96:0:1]:80/TCP     0     5   {flags} 1 used, 1 quarantined\n\
                 [fd00::96:0:1]:80/TCP     1     5   [fd00::9:0:0]:8080/TCP (11)\n\
                 [fd00::96:0:1]:80/TCP     2     5   [fd00::9:0:1]:8080/TCP (21, quarantined)\n\
                 [fd00::96:0:2]:443/TCP/i  0     6   [ClusterIP, random] 1 used\n\
                 [fd00::96:0:2]:443/TCP/i  1     6   nothing (99)\n"
            )
        );
        assert_eq!(
            text("bpf lb list --backends"),
            "ID  BACKEND                 STATE        ZONE\n\
             10  10.9.0.0:8080/TCP       active\n\
             20  10.9.0.1:8080/TCP       quarantined  1\n\
             11  [fd00::9:0:0]:8080/TCP  active\n\
             21  [fd00::9:0:1]:8080/TCP  quarantined  1\n"
        );
        assert_eq!(
            text("bpf lb list --revnat"),
            "ID  FRONTEND\n\
             3   10.96.0.1:80\n\
             4   10.96.0.2:443\n\
             5   [fd00::96:0:1]:80\n\
             6   [fd00::96:0:2]:443\n"
        );
        assert_eq!(
            text("bpf lb list --affinity"),
            "ID  BACKEND  CLIENT      LAST USED\n\
             3   10       (may stay)\n\
             3   20       (may stay)\n\
             5   11       (may stay)\n\
             5   21       (may stay)\n\
             3   10       192.0.2.7   77\n\
             5   21       netns 4711  77\n"
        );
        assert_eq!(
            text("bpf lb list --source-ranges"),
            "ID  RANGE\n3   192.0.2.0/24\n5   2001:db8::/32\n"
        );
        assert_eq!(
            text("bpf lb list --maglev"),
            "ID  FAMILY  SIZE  PLACES BY BACKEND\n\
             3   ipv4    251   10: 126\n\
             \x20                 20: 125\n\
             5   ipv6    251   11: 126\n\
             \x20                 21: 125\n"
        );
    });
}

#[test]
fn maps_of_services_are_written_for_programs() {
    Sandbox::run(|sandbox| {
        serve(sandbox);
        let slots = json("bpf lb list");
        let first = json!({
            "kind": "LoadBalancer", "flags": ["affinity", "source-ranges", "internal-local"],
            "used": 1, "quarantined": 1, "algorithm": "maglev", "affinity-seconds": 600,
        });
        let expected =
            json!({"frontend": "10.96.0.1:80/TCP", "slot": 0, "service": 3, "first": first});
        assert_eq!(slots[0], expected);
        let target = json!({"id": 20, "at": "10.9.0.1:8080/TCP", "state": "quarantined"});
        assert_eq!(slots[2]["backend"], target);
        assert_eq!(slots[4]["backend"], json!({"id": 99, "at": null, "state": null}));
        let backend =
            json!({"id": 20, "at": "10.9.0.1:8080/TCP", "state": "quarantined", "zone": 1});
        assert_eq!(json("bpf lb list --backends")[1], backend);
        let reverse = json!({"service": 3, "frontend": "10.96.0.1:80"});
        assert_eq!(json("bpf lb list --revnat")[0], reverse);
        let range = json!({"service": 3, "range": "192.0.2.0/24"});
        assert_eq!(json("bpf lb list --source-ranges")[0], range);
        let affinity = json("bpf lb list --affinity");
        assert_eq!(affinity["matches"][1], json!({"service": 3, "backend": 20}));
        let client = json!({"service": 5, "netns-cookie": 4711, "backend": 21, "last-used": 77});
        assert_eq!(affinity["clients"][1], client);
        let table = json!({"service": 3, "family": "ipv4", "places": {"10": 126, "20": 125}});
        assert_eq!(json("bpf lb list --maglev")[0], table);
    });
}
