//! Settings of how the datapath aggregates its records: the level, the TCP flags, the interval.

use std::{fmt, str::FromStr, time::Duration};

use clap::ValueEnum;
use serde::{Serialize, Serializer};
use volvox_system::duration::parse_duration;

/// How much the records of packets are thinned out. The numbers are Cilium's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
pub enum MonitorAggregation {
    /// Not at all
    #[value(alias = "disabled")]
    None,
    /// No records of packets that come in, only of those that go on
    Lowest,
    /// As lowest
    Low,
    /// Also one for each new connection, TCP flag or interval, not for each packet
    Medium,
    /// As medium
    #[value(alias = "max")]
    #[serde(rename = "Max")]
    Maximum,
}

/// TCP flags by name, and the bits of byte 13 of the header that they are.
const FLAGS: [(&str, u8); 8] = [
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ece", 64),
    ("cwr", 128),
];

/// A set of TCP flags, as the bits of byte 13 of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

/// A word that names no TCP flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is no TCP flag: write all, or a list of fin, syn, rst, psh, ack, urg, ece, cwr")]
pub struct TcpFlagsError {
    word: String,
}

impl FromStr for TcpFlags {
    type Err = TcpFlagsError;

    fn from_str(text: &str) -> Result<Self, TcpFlagsError> {
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        let mut bits = words.map(|word| {
            let flag = FLAGS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            match flag {
                Some((_, bit)) => Ok(*bit),
                None if word.eq_ignore_ascii_case("all") => Ok(u8::MAX),
                None => Err(TcpFlagsError { word: word.to_owned() }),
            }
        });
        bits.try_fold(Self(0), |all, bit| Ok(Self(all.0 | bit?)))
    }
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = FLAGS.iter().filter(|(_, bit)| self.0 & bit != 0).map(|(name, _)| *name);
        f.write_str(&names.collect::<Vec<_>>().join(","))
    }
}

impl Serialize for TcpFlags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.0)
    }
}

/// Reads the time between two records of a connection: whole seconds, as the programs count.
pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text).map_err(|error| error.to_string())?;
    if span.subsec_nanos() != 0 || span.as_secs() > u16::MAX.into() {
        return Err(format!("whole seconds are expected, {} at most", u16::MAX));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_by_name() {
        for (text, bits, written) in [
            ("syn,fin,rst", 7, "fin,syn,rst"),
            ("ACK psh", 24, "psh,ack"),
            ("", 0, ""),
            ("all", 255, "fin,syn,rst,psh,ack,urg,ece,cwr"),
        ] {
            let flags: TcpFlags = text.parse().unwrap();
            assert_eq!((flags, flags.to_string().as_str()), (TcpFlags(bits), written));
        }
        let error = "syn,ns".parse::<TcpFlags>().unwrap_err();
        assert!(error.to_string().starts_with("\"ns\" is no TCP flag: write all"), "{error}");
    }

    #[test]
    fn intervals_are_whole_seconds() {
        assert_eq!(parse_interval("1m5s"), Ok(Duration::from_secs(65)));
        for text in ["1.5s", "19h", "soon"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }
}
