//! Takes secrets out of what goes into a sysdump: passwords in URLs, tokens, private keys, Secrets,
//! authorization headers, and values whose name says that they are secret.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// What stands in place of a secret.
pub(super) const LEFT_OUT: &str = "(left out)";

/// Words in names of values that are secret.
const WORDS: &str = "password|passwd|passphrase|secret|token|credential|credentials|apikey|api[-_]?key|\
                     private[-_]?key|key[-_]data|psk";

static RULES: LazyLock<[(Regex, &str); 7]> = LazyLock::new(|| {
    let rule = |pattern: &str| Regex::new(pattern).expect("a pattern of this file");
    [
        // The beginning of a PEM block in Base64, as Secrets and kubeconfig files have it.
        (rule("LS0tLS1CRUdJTi[A-Za-z0-9+/=_-]+"), LEFT_OUT),
        (
            rule(
                r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|$)",
            ),
            LEFT_OUT,
        ),
        (rule(r"eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"), LEFT_OUT),
        (rule(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#@'\x22\\]+@"), "${1}(left out)@"),
        (
            rule(r"(?i)((?:proxy-)?authorization[\x22'\\]*\s*[:=]\s*[\x22'\\]*)[^\r\n\x22'\\]+"),
            "${1}(left out)",
        ),
        (rule(r"(?i)\b(bearer)(\s+)[A-Za-z0-9+/=._~-]{6,}"), "${1}${2}(left out)"),
        // What was cut off before the host: a port would be a number.
        (
            rule(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#@:]+:[^\s/?#@]*[A-Za-z_][^\s/?#@]*$"),
            "${1}(left out)",
        ),
    ]
});

/// `name=value`, `name: value`, `"name":"value"`, with a name that says what it is.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = format!(
        r"(?i)((?:[\w.-]*[\W_])?(?:{WORDS})(?:[_.-][\w.-]*)?[\x22'\\]*\s*[:=]\s*)([\x22'\\]*)([^\s\x22'\\,;&}}\]]+)"
    );
    Regex::new(&pattern).expect("a pattern of this file")
});

/// A name that says that its value is secret.
static SECRET_NAME: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = format!(r"(?i)(^|[^A-Za-z])({WORDS})([^A-Za-z]|$)");
    Regex::new(&pattern).expect("a pattern of this file")
});

static SECRET_KIND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)\bkind[\x22'\\]*\s*:\s*[\x22'\\]*Secret\b").expect("a pattern of this file")
});

/// A text without its secrets.
pub(super) fn redact_text(text: &str) -> String {
    let mut out = without_secret_objects(text);
    for (rule, instead) in RULES.iter() {
        if rule.is_match(&out) {
            out = rule.replace_all(&out, *instead).into_owned();
        }
    }
    if NAMED.is_match(&out) {
        let instead = |found: &Captures<'_>| match found[3].contains("(left") {
            true => found[0].to_owned(),
            false => format!("{}{}{LEFT_OUT}", &found[1], &found[2]),
        };
        out = NAMED.replace_all(&out, instead).into_owned();
    }
    out
}

/// A value without its secrets.
pub(super) fn redact_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            let clean = redact_text(text);
            if clean != *text {
                *text = clean;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(redact_value),
        Value::Object(members) => {
            let is_secret = members.get("kind").is_some_and(|kind| kind == "Secret");
            for (name, mut member) in std::mem::take(members) {
                let hidden = is_secret && (name == "data" || name == "stringData");
                let named = SECRET_NAME.is_match(&words(&name)) && !member.is_boolean();
                match hidden || (named && !is_empty(&member)) {
                    true => member = Value::from(LEFT_OUT),
                    false => redact_value(&mut member),
                }
                // Something may be called by where it is reached.
                members.insert(redact_text(&name), member);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// `bearerToken` as `bearer Token`.
fn words(name: &str) -> String {
    let mut out = String::new();
    let mut lower = false;
    for sign in name.chars() {
        if lower && sign.is_ascii_uppercase() {
            out.push(' ');
        }
        lower = sign.is_ascii_lowercase();
        out.push(sign);
    }
    out
}

/// Objects that are Secrets go whole: each on a line of its own, as logs have them, or as a document of
/// YAML.
fn without_secret_objects(text: &str) -> String {
    if !SECRET_KIND.is_match(text) {
        return text.to_owned();
    }
    let document = |document: &str| {
        if !SECRET_KIND.is_match(document) {
            return document.to_owned();
        }
        let is_block = document
            .lines()
            .any(|line| line.trim_end() == "data:" || line.trim_end() == "stringData:");
        if is_block {
            return format!("\n{LEFT_OUT}: a Secret\n");
        }
        let line = |line: &str| match SECRET_KIND.is_match(line) {
            true => format!("{LEFT_OUT}: a line with a Secret"),
            false => line.to_owned(),
        };
        document.split('\n').map(line).collect::<Vec<_>>().join("\n")
    };
    text.split("\n---").map(document).collect::<Vec<_>>().join("\n---")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_go_and_the_rest_stays() {
        for (text, expected) in [
            ("http://root:hunter2@10.0.0.1:2379/x", "http://(left out)@10.0.0.1:2379/x"),
            ("Authorization: Bearer abcdef123456", "Authorization: (left out)"),
            ("token=abc, next=1", "token=(left out), next=1"),
            ("etcd.password: hunter2", "etcd.password: (left out)"),
            ("ETCD_PASSWORD=hunter2 A=b", "ETCD_PASSWORD=(left out) A=b"),
            (r#"{\"password\":\"hunter2\",\"a\":1}"#, r#"{\"password\":\"(left out)\",\"a\":1}"#),
            ("client-key-data: LS0tLS1CRUdJTiBSU0Eg", "client-key-data: (left out)"),
            (
                "endpoint 42 waits for port kernel: a row",
                "endpoint 42 waits for port kernel: a row",
            ),
            ("hubble-tls-key-file: /etc/key.pem", "hubble-tls-key-file: /etc/key.pem"),
            ("shop/web@sha256:abc http://10.0.0.1/a@b", "shop/web@sha256:abc http://10.0.0.1/a@b"),
            ("tokens: none at the passage", "tokens: none at the passage"),
        ] {
            assert_eq!(redact_text(text), expected);
        }
        let key = "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb";
        assert_eq!(redact_text(key), "a\n(left out)\nb");
        assert_eq!(redact_text("-----BEGIN PRIVATE KEY-----\nMIIE"), LEFT_OUT);
        let yaml = "kind: Pod\nname: a\n---\nkind: Secret\ndata:\n  x: c2VjcmV0\n---\nkind: Node";
        assert_eq!(
            redact_text(yaml),
            "kind: Pod\nname: a\n---\n(left out): a Secret\n\n---\nkind: Node"
        );
        let log = "info a\nwarn {\"kind\":\"Secret\",\"data\":{\"x\":\"c2VjcmV0\"}}\ninfo b";
        assert_eq!(redact_text(log), "info a\n(left out): a line with a Secret\ninfo b");
    }

    #[test]
    fn members_with_such_names_go_whole() {
        let mut value = json!({
            "kind": "Secret", "data": {"x": "c2VjcmV0"}, "stringData": {"y": "z"},
            "bearerToken": "abc", "client-key-data": "abc", "secretName": "shop-tls",
            "nested": [{"etcd.password": "hunter2", "port": 80}],
            "text": "etcd at http://u:p@h", "tokenReview": false, "token": "",
        });
        redact_value(&mut value);
        assert_eq!(
            value,
            json!({
                "kind": "Secret", "data": LEFT_OUT, "stringData": LEFT_OUT,
                "bearerToken": LEFT_OUT, "client-key-data": LEFT_OUT, "secretName": LEFT_OUT,
                "nested": [{"etcd.password": LEFT_OUT, "port": 80}],
                "text": "etcd at http://(left out)@h", "tokenReview": false, "token": "",
            })
        );
    }
}
