//! What is written is read back by a reader that takes nothing but well-formed XML.

use std::collections::BTreeMap;

use super::*;
use crate::Failure;

/// An element.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    children: Vec<Element>,
    text: String,
}

impl Element {
    fn of(&self, name: &str) -> Vec<&Element> {
        self.children.iter().filter(|it| it.name == name).collect()
    }
}

fn plain(text: &str) -> String {
    assert!(!text.contains('<') && !text.contains('"'), "not escaped: {text}");
    assert!(!text.chars().any(|it| it < ' ' && !"\n\t ".contains(it)), "XML has no {text:?}");
    let mut all = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        let (name, after) = after.split_once(';').expect("an entity ends");
        all.push_str(before);
        all.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#10" => '\n',
            "#9" => '\t',
            other => panic!("no entity {other}"),
        });
        rest = after;
    }
    all + rest
}

/// Reads an element and gives what is behind it.
fn element(text: &str) -> (Element, &str) {
    let text = text.strip_prefix('<').expect("an element begins");
    let (head, mut rest) = text.split_once('>').expect("a tag ends");
    let empty = head.ends_with('/');
    let head = head.trim_end_matches('/');
    let (name, mut attributes) = head.split_once(' ').unwrap_or((head, ""));
    let mut read = Element { name: name.to_owned(), ..Element::default() };
    while let Some((key, after)) = attributes.trim().split_once("=\"") {
        let (value, after) = after.split_once('"').expect("a value ends");
        let before = read.attributes.insert(key.to_owned(), plain(value));
        assert_eq!(before, None, "{key} is there twice");
        attributes = after;
    }
    assert!(attributes.trim().is_empty(), "{attributes}");
    if empty {
        return (read, rest);
    }
    loop {
        let (text, after) = rest.split_at(rest.find('<').expect("an element ends"));
        read.text.push_str(&plain(text));
        if let Some(after) = after.strip_prefix(&format!("</{name}>")) {
            return (read, after);
        }
        let (child, after) = element(after);
        read.children.push(child);
        rest = after;
    }
}

fn read(text: &str) -> Element {
    let text = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").expect("a head");
    let (suite, rest) = element(text);
    assert_eq!(rest.trim(), "");
    suite
}

#[test]
fn each_test_is_a_case() {
    let mut failed = TestReport::new("dns", "names");
    (failed.outcome, failed.probes, failed.failed, failed.seconds) = (Outcome::Failed, 3, 2, 1.5);
    failed.failures.push(Failure {
        stage: "a \"stage\" & <more>".to_owned(),
        from: "a".to_owned(),
        to: "b".to_owned(),
        target: "tcp 10.0.0.1:80".to_owned(),
        reason: "timed\u{1b}out\nafter 1 s".to_owned(),
        hint: "volvox why".to_owned(),
    });
    let mut noted = TestReport::new("slow", "passes");
    noted.note("it took long".to_owned());
    let report = Report {
        namespace: "a<b".to_owned(),
        tests: vec![
            TestReport::new("pod", "passes"),
            failed,
            noted,
            TestReport::new("world", "is not there").not_tried("nobody & nothing"),
        ],
        seconds: 2.25,
        ..Report::default()
    };
    let suite = read(&junit(&report));
    assert_eq!(suite.name, "testsuite");
    for (name, value) in
        [("tests", "4"), ("failures", "1"), ("skipped", "1"), ("errors", "0"), ("time", "2.250")]
    {
        assert_eq!(suite.attributes[name], value, "{name}");
    }
    assert_eq!(suite.of("properties")[0].children[0].attributes["value"], "a<b");
    let cases = suite.of("testcase");
    let names: Vec<_> = cases.iter().map(|it| it.attributes["name"].as_str()).collect();
    assert_eq!(names, ["pod", "dns", "slow", "world"]);
    assert!(cases[0].children.is_empty() && cases[1].attributes["time"] == "1.500");
    let failure = cases[1].of("failure")[0];
    assert_eq!(failure.attributes["message"], "2 of 3 probes");
    let words = "a \"stage\" & <more>: a to b (tcp 10.0.0.1:80): timed\u{fffd}out\nafter 1 s\n  see: volvox why";
    assert_eq!(failure.text, words);
    assert_eq!(cases[2].of("system-out")[0].text, "it took long");
    assert_eq!(cases[3].of("skipped")[0].attributes["message"], "nobody & nothing");
}

#[test]
fn a_run_that_ended_early_is_an_error() {
    let report = Report { error: Some("no node is ready".to_owned()), ..Report::default() };
    let suite = read(&junit(&report));
    assert_eq!(
        (suite.attributes["tests"].as_str(), suite.attributes["errors"].as_str()),
        ("1", "1")
    );
    assert_eq!(suite.of("testcase")[0].of("error")[0].attributes["message"], "no node is ready");
}
