//! Filters in words, as the dashboard takes them: `dropped to-pod:shop/web port:5432 -icmp checkout`.
//!
//! `FLAG:VALUE` is a flag of `volvox observe`. Words without a flag mean what they look like: a verdict, a
//! protocol, a direction, a port, an address, a label with `=`, `NAMESPACE/POD`. Any other word is looked for
//! in the names of both ends. `-` before a word leaves out what it selects.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{FLAGS, Filters, FlagError, FlagFilter, flag_filters};
use crate::{
    filter::FilterError,
    messages::{Flow, FlowEndpoint, FlowService},
};

/// How long a filter may be, bytes.
const BYTES_MAX: usize = 4096;
/// Words that say what they are, each with its flag.
const PLAIN: [(&str, &str); 14] = [
    ("forwarded", "verdict"),
    ("dropped", "verdict"),
    ("redirected", "verdict"),
    ("audit", "verdict"),
    ("tcp", "protocol"),
    ("udp", "protocol"),
    ("sctp", "protocol"),
    ("icmp", "protocol"),
    ("icmpv4", "protocol"),
    ("icmpv6", "protocol"),
    ("vrrp", "protocol"),
    ("igmp", "protocol"),
    ("ingress", "traffic-direction"),
    ("egress", "traffic-direction"),
];

/// Why words are no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// A value that a flag does not take.
    #[error("filter {0}")]
    Flag(#[from] FlagError),
    /// A value that means nothing.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A word before a colon that is no flag.
    #[error("filter {word:?}: there is no {flag:?}; known are {}", known())]
    Unknown {
        /// The word.
        word: String,
        /// What stands before its colon.
        flag: String,
    },
    /// A quotation mark that nothing closes.
    #[error("filter {0:?}: a quotation mark is missing at its end")]
    Open(String),
    /// More than anybody writes.
    #[error("filter: it is longer than {BYTES_MAX} bytes: name fewer, or prefixes of many")]
    TooLong,
}

fn known() -> String {
    FLAGS.iter().map(|(flag, ..)| *flag).collect::<Vec<_>>().join(", ")
}

/// Filters that words say.
#[derive(Debug, Default)]
pub struct Words {
    filters: Filters,
    /// Texts that a name of an end has, or has not.
    texts: Vec<(bool, String)>,
}

impl Words {
    /// Reads them. No word lets everything pass.
    pub fn parse(text: &str) -> Result<Self, WordsError> {
        if text.len() > BYTES_MAX {
            return Err(WordsError::TooLong);
        }
        let (mut flags, mut texts) = (Vec::new(), Vec::new());
        for word in split(text)? {
            let (not, word) = match word.strip_prefix('-') {
                Some(rest) if !rest.is_empty() => (true, rest),
                _ => (false, word.as_str()),
            };
            match flag(word)? {
                Some((flag, value)) => flags.push(FlagFilter { flag, value, not }),
                None => texts.push((not, word.to_owned())),
            }
        }
        let (allow, deny) = flag_filters(&flags)?;
        Ok(Self { filters: Filters::new(&allow, &deny)?, texts })
    }

    /// Whether a flow is asked for.
    pub fn pass(&self, flow: &Flow) -> bool {
        self.filters.pass(flow) && self.texts.iter().all(|(not, text)| names(flow, text) != *not)
    }
}

/// Words are apart by blanks, but for what stands between quotation marks.
fn split(text: &str) -> Result<Vec<String>, WordsError> {
    let (mut all, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        match letter {
            '"' => quoted = !quoted,
            letter if letter.is_whitespace() && !quoted => {
                all.extend(Some(std::mem::take(&mut word)).filter(|it| !it.is_empty()));
            }
            letter => word.push(letter),
        }
    }
    if quoted {
        return Err(WordsError::Open(word));
    }
    all.extend(Some(word).filter(|it| !it.is_empty()));
    Ok(all)
}

/// The flag that a word means, and its value; none if it is any text.
fn flag(word: &str) -> Result<Option<(&'static str, String)>, WordsError> {
    let named = |name: &str| FLAGS.iter().map(|(flag, ..)| *flag).find(|flag| *flag == name);
    let means = |name: &str| Ok(named(name).map(|flag| (flag, word.to_owned())));
    if let Some((flag, value)) = word.split_once(':')
        && let Some(flag) = named(flag)
    {
        return Ok(Some((flag, value.to_owned())));
    }
    let lower = word.to_lowercase();
    if let Some((_, flag)) = PLAIN.iter().find(|(plain, _)| *plain == lower) {
        return means(flag);
    }
    match word {
        _ if word.parse::<IpAddr>().is_ok() || word.parse::<IpNet>().is_ok() => means("ip"),
        _ if word.parse::<u16>().is_ok() => means("port"),
        _ if word.contains('=') => means("label"),
        _ => match word.split_once(':') {
            Some((flag, _)) => {
                Err(WordsError::Unknown { word: word.to_owned(), flag: flag.to_owned() })
            }
            None if word.contains('/') => means("pod"),
            None => Ok(None),
        },
    }
}

/// Whether a name of an end has that text in it, in capitals or not.
fn names(flow: &Flow, text: &str) -> bool {
    let ends = [&flow.source, &flow.destination];
    let services = [&flow.source_service, &flow.destination_service];
    let of_end = |end: &FlowEndpoint| {
        let labels = end.labels.iter().any(|label| has(label, text));
        has(&end.pod_name, text) || has(&end.namespace, text) || labels
    };
    let of_service = |it: &FlowService| has(&it.name, text) || has(&it.namespace, text);
    let hosts = || flow.source_names.iter().chain(&flow.destination_names);
    ends.into_iter().flatten().any(of_end)
        || services.into_iter().flatten().any(of_service)
        || flow.ip.as_ref().is_some_and(|ip| has(&ip.source, text) || has(&ip.destination, text))
        || hosts().any(|name| has(name, text))
        || has(&flow.summary, text)
}

fn has(text: &str, part: &str) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    text.windows(part.len().max(1)).any(|window| window.eq_ignore_ascii_case(part))
}
