//! The options that an endpoint can have: their names, their values as text, and which of them can
//! be changed at run time.

use std::collections::BTreeMap;

/// Values of the one option that is not a switch, from 0.
const AGGREGATION_LEVELS: [&str; 5] = ["None", "Lowest", "Low", "Medium", "Max"];
const AGGREGATION: &str = "MonitorAggregationLevel";

/// How an option comes to another value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changed {
    /// While the agent runs.
    Anytime,
    /// While the agent runs, but of the whole node only.
    OfNode,
    /// Not at all: this agent has no such function, or always does it.
    Never,
}

/// Whether the agent logs more.
pub const DEBUG: &str = "Debug";

/// Whose options are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionsOf {
    /// The node's: of all its endpoints, and the agent's own.
    Node,
    /// One endpoint's.
    Endpoint,
}

/// Every option of an endpoint, and how it is changed.
const OPTIONS: [(&str, Changed); 11] = [
    ("ConntrackAccounting", Changed::Never),
    (DEBUG, Changed::OfNode),
    ("DebugLB", Changed::Never),
    ("DebugPolicy", Changed::Never),
    ("DropNotification", Changed::Anytime),
    (AGGREGATION, Changed::Anytime),
    ("PolicyAccounting", Changed::Never),
    ("PolicyAuditMode", Changed::Never),
    ("PolicyVerdictNotification", Changed::Anytime),
    ("SourceIPVerification", Changed::Anytime),
    ("TraceNotification", Changed::Anytime),
];

/// Options as the API writes them: `Enabled`, `Disabled`, or a level.
pub type OptionTexts = BTreeMap<String, String>;

/// All options with their values; those that `set` does not name are as in `defaults`, else off.
pub fn option_texts(defaults: &BTreeMap<String, i64>, set: &BTreeMap<String, i64>) -> OptionTexts {
    OPTIONS
        .iter()
        .map(|&(name, _)| {
            let value = set.get(name).or_else(|| defaults.get(name)).copied().unwrap_or(0);
            (name.to_owned(), value_text(name, value))
        })
        .collect()
}

fn value_text(name: &str, value: i64) -> String {
    let text = if name == AGGREGATION {
        usize::try_from(value).ok().and_then(|level| AGGREGATION_LEVELS.get(level))
    } else {
        Some(if value == 0 { &"Disabled" } else { &"Enabled" })
    };
    text.map_or_else(|| value.to_string(), |&text| text.to_owned())
}

/// Reads a change of options. One that cannot be changed may be named with the value it has. The error is
/// for whoever asked for the change.
pub fn parse_options(
    texts: &OptionTexts,
    now: &OptionTexts,
    of: OptionsOf,
) -> Result<BTreeMap<String, i64>, String> {
    let mut changed = BTreeMap::new();
    for (name, text) in texts {
        let Some((known, how)) = OPTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))
        else {
            let known: Vec<_> = OPTIONS.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "options: unknown option {name:?}: known are {}",
                known.join(", ")
            ));
        };
        let value = parse_value(known, text)?;
        let is_now = || now.get(*known).is_some_and(|now| *now == value_text(known, value));
        match how {
            Changed::Anytime => {
                changed.insert((*known).to_owned(), value);
            }
            Changed::OfNode if of == OptionsOf::Node => {
                changed.insert((*known).to_owned(), value);
            }
            Changed::OfNode | Changed::Never if is_now() => {}
            Changed::OfNode => {
                return Err(format!(
                    "options: {known} cannot be changed for one endpoint: change it for the node, by \
                     PATCH /config"
                ));
            }
            Changed::Never => {
                let now = now.get(*known).map_or("not known", String::as_str);
                return Err(format!("options: {known} cannot be changed here: it is always {now}"));
            }
        }
    }
    Ok(changed)
}

fn parse_value(name: &str, text: &str) -> Result<i64, String> {
    let lower = text.to_ascii_lowercase();
    let value = if name == AGGREGATION {
        let level = AGGREGATION_LEVELS
            .iter()
            .position(|level| level.eq_ignore_ascii_case(text))
            .or_else(|| text.parse().ok().filter(|&level| level < AGGREGATION_LEVELS.len()));
        level.and_then(|level| i64::try_from(level).ok())
    } else {
        match lower.as_str() {
            "enabled" | "enable" | "true" | "on" | "1" => Some(1),
            "disabled" | "disable" | "false" | "off" | "0" => Some(0),
            _ => None,
        }
    };
    value.ok_or_else(|| {
        let expected = if name == AGGREGATION {
            AGGREGATION_LEVELS.join(", ")
        } else {
            "Enabled or Disabled".to_owned()
        };
        format!("options: {name} cannot be {text:?}: {expected} is expected")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(of: &[(&str, &str)]) -> OptionTexts {
        of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_option_has_a_text() {
        let defaults = BTreeMap::from([("TraceNotification".to_owned(), 1)]);
        let set = BTreeMap::from([(AGGREGATION.to_owned(), 3)]);
        let all = option_texts(&defaults, &set);
        assert_eq!(all.len(), OPTIONS.len());
        assert_eq!(all["TraceNotification"], "Enabled");
        assert_eq!(all["Debug"], "Disabled");
        assert_eq!(all[AGGREGATION], "Medium");
    }

    #[test]
    fn only_what_can_change_changes() {
        let now = option_texts(&BTreeMap::new(), &BTreeMap::new());
        let expected = texts(&[("dropnotification", "enabled"), ("Debug", "Disabled")]);
        let changed = parse_options(&expected, &now, OptionsOf::Endpoint).unwrap();
        assert_eq!(changed, BTreeMap::from([("DropNotification".to_owned(), 1)]));
        for (name, value, says) in [
            ("Debug", "Enabled", "cannot be changed for one endpoint: change it for the node"),
            ("PolicyAuditMode", "Enabled", "cannot be changed here: it is always Disabled"),
            ("ConntrackAccounting", "Enabled", "ConntrackAccounting cannot be changed here"),
            ("Bogus", "Enabled", "unknown option"),
            ("TraceNotification", "perhaps", "Enabled or Disabled"),
            (AGGREGATION, "Extreme", "Lowest"),
        ] {
            let of = OptionsOf::Endpoint;
            let error = parse_options(&texts(&[(name, value)]), &now, of).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
