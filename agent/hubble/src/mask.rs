//! Field masks: which members of a flow are answered.

use crate::{
    schema::{FLOW, Kind, Schema},
    wire::{Wire, members, put_bytes},
};

/// How many paths a mask may have, and how long each may be.
const PATHS_MAX: usize = 256;
const PATH_BYTES_MAX: usize = 256;

/// Why a mask is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskError {
    /// There is no such member.
    #[error("field mask: {0:?} is no member of a flow; write as `source.pod_name` or `l4.TCP`")]
    Unknown(String),
    /// Nobody writes that.
    #[error("field mask: at most {PATHS_MAX} paths of {PATH_BYTES_MAX} bytes each are taken")]
    TooMuch,
}

/// Members that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask(Vec<(u32, Branch)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Branch {
    /// The member, whole.
    Whole,
    /// These of its members.
    Parts(Mask),
}

impl Mask {
    /// Reads the paths of a mask of flows; none is everything.
    pub fn of_flow(paths: &[String]) -> Result<Option<Self>, MaskError> {
        if paths.len() > PATHS_MAX || paths.iter().any(|path| path.len() > PATH_BYTES_MAX) {
            return Err(MaskError::TooMuch);
        }
        let mut mask = Self::default();
        for path in paths {
            mask.add(&FLOW, path).ok_or_else(|| MaskError::Unknown(path.clone()))?;
        }
        Ok((!paths.is_empty()).then_some(mask))
    }

    fn add(&mut self, schema: &'static Schema, path: &str) -> Option<()> {
        let (name, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
        let field = schema.named(name)?;
        let at = self.0.iter().position(|(number, _)| *number == field.number);
        let Some(rest) = rest else {
            match at {
                Some(at) => self.0[at].1 = Branch::Whole,
                None => self.0.push((field.number, Branch::Whole)),
            }
            return Some(());
        };
        let Kind::Message(inner) = field.kind else { return None };
        let at = at.unwrap_or_else(|| {
            self.0.push((field.number, Branch::Parts(Self::default())));
            self.0.len() - 1
        });
        match &mut self.0[at].1 {
            // A path into what is kept whole must exist all the same.
            Branch::Whole => Self::default().add(inner, rest),
            Branch::Parts(parts) => parts.add(inner, rest),
        }
    }

    /// What is kept of a message's bytes.
    pub fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        let mut kept = Vec::with_capacity(bytes.len());
        for (number, value, whole) in members(bytes) {
            match (self.0.iter().find(|(it, _)| *it == number), value) {
                (Some((_, Branch::Whole)), _) => kept.extend(whole),
                (Some((_, Branch::Parts(parts))), Wire::Bytes(inner)) => {
                    put_bytes(&mut kept, number, &parts.apply(inner));
                }
                _ => {}
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::messages::{Flow, FlowEndpoint, Ip};

    fn flow() -> Flow {
        Flow {
            verdict: 2,
            ip: Some(Ip { source: "10.0.0.1".into(), ip_version: 1, ..Ip::default() }),
            source: Some(FlowEndpoint {
                id: 7,
                pod_name: "web".into(),
                namespace: "default".into(),
                ..FlowEndpoint::default()
            }),
            is_reply: Some(false),
            ..Flow::default()
        }
    }

    fn masked(paths: &[&str]) -> Result<Flow, MaskError> {
        let paths: Vec<_> = paths.iter().map(|&path| path.to_owned()).collect();
        let mask = Mask::of_flow(&paths)?.unwrap();
        Ok(Flow::decode(&*mask.apply(&flow().encode_to_vec())).unwrap())
    }

    #[test]
    fn only_named_members_are_kept() {
        let kept = masked(&["source.pod_name", "verdict", "is_reply"]).unwrap();
        let source = FlowEndpoint { pod_name: "web".into(), ..FlowEndpoint::default() };
        let expected =
            Flow { verdict: 2, source: Some(source), is_reply: Some(false), ..Flow::default() };
        assert_eq!(kept, expected);
        let whole = masked(&["source.pod_name", "source", "source.ID", "IP"]).unwrap();
        assert_eq!((whole.source, whole.ip), (flow().source, flow().ip));
    }

    #[test]
    fn paths_that_lead_nowhere_are_refused_by_name() {
        for path in ["ip", "source.nobody", "verdict.name", "", "source.", "IP.source.x"] {
            assert_eq!(masked(&[path]).unwrap_err(), MaskError::Unknown(path.into()), "{path}");
        }
        assert_eq!(Mask::of_flow(&[]), Ok(None));
        assert_eq!(Mask::of_flow(&vec!["time".into(); 257]), Err(MaskError::TooMuch));
    }
}
