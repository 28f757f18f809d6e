//! What a probe shall come to, and whether it did.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use crate::probe::{Answer, ENOUGH, Fault, Target};

/// What is wanted of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// An answer, of one of these if any are named.
    Answer {
        /// Who may answer.
        by: Vec<String>,
        /// What else must hold.
        also: Also,
    },
    /// Silence: what a policy denies is dropped.
    Denied,
    /// A name with these addresses.
    Addresses(Vec<IpAddr>),
}

/// What else must hold of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Also {
    /// Nothing.
    Nothing,
    /// All are by the same pod.
    OneServer,
    /// The address that was seen is the one that was asked from.
    Source,
}

/// A probe of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// The pod that asks.
    pub(crate) from: String,
    /// Whom, in words.
    pub(crate) to: String,
    /// Whom, and how.
    pub(crate) target: Target,
    /// What shall come of it.
    pub(crate) want: Want,
}

/// How long silence is listened to.
const SILENCE: Duration = Duration::from_secs(1);

impl Check {
    /// An answer is wanted.
    pub(crate) fn answered(from: &str, to: impl Into<String>, target: Target) -> Self {
        let want = Want::Answer { by: Vec::new(), also: Also::Nothing };
        Self { from: from.to_owned(), to: to.into(), target, want }
    }

    /// An answer of one of these.
    pub(crate) fn by(mut self, servers: &[&str]) -> Self {
        if let Want::Answer { by, .. } = &mut self.want {
            *by = servers.iter().map(|it| (*it).to_owned()).collect();
        }
        self
    }

    /// Something else must hold, too.
    pub(crate) fn also(mut self, more: Also) -> Self {
        if let Want::Answer { also, .. } = &mut self.want {
            *also = more;
        }
        self
    }

    /// Asked so often, one after the other.
    pub(crate) fn times(mut self, times: u32) -> Self {
        self.target.times = times;
        self
    }

    /// Nobody may answer.
    pub(crate) fn denied(from: &str, to: impl Into<String>, mut target: Target) -> Self {
        target.wait = SILENCE;
        Self { from: from.to_owned(), to: to.into(), target, want: Want::Denied }
    }
}

/// What came of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What was wanted.
    Passed,
    /// Something else, for that reason.
    Failed(String),
    /// It could not be asked, for that reason.
    NotTried(String),
}

/// Judges one probe by its answers.
pub(crate) fn judge(check: &Check, answers: &[&Answer]) -> Verdict {
    let times = check.target.times as usize;
    let silent = answers.iter().filter(|it| it.fault == Some(Fault::TimedOut)).count();
    if answers.len() < times && silent < ENOUGH {
        return Verdict::Failed(format!("the pod told of {} of {times} probes", answers.len()));
    }
    if let Some(answer) = answers.iter().find(|it| it.fault == Some(Fault::NotAllowed)) {
        return Verdict::NotTried(answer.reason().unwrap_or_default());
    }
    let wrong = match &check.want {
        Want::Denied => answers.iter().find_map(|it| not_silent(it)),
        Want::Answer { by, also } => answered(answers, by, *also),
        Want::Addresses(wanted) => answers.iter().find_map(|it| {
            let missing = wanted.iter().any(|one| !it.addresses.contains(one));
            it.reason().or_else(|| {
                missing.then(|| {
                    format!("it is {}, and {} was wanted", list(&it.addresses), list(wanted))
                })
            })
        }),
    };
    wrong.map_or(Verdict::Passed, Verdict::Failed)
}

fn list(addresses: &[IpAddr]) -> String {
    let all: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(" and ") }
}

/// Why it is not silence.
fn not_silent(answer: &Answer) -> Option<String> {
    match answer.fault {
        Some(Fault::TimedOut) => None,
        None if answer.by.is_empty() => Some("it was answered, and should be denied".to_owned()),
        None => Some(format!("{} answered, and it should be denied", answer.by)),
        Some(_) => answer
            .reason()
            .map(|it| format!("{it}: what is denied is dropped, so somebody else answered")),
    }
}

fn answered(answers: &[&Answer], by: &[String], also: Also) -> Option<String> {
    let lost: Vec<_> = answers.iter().filter_map(|it| it.reason()).collect();
    if let Some(first) = lost.first() {
        let all = answers.len();
        return Some(match lost.len() {
            lost if lost == all => first.clone(),
            lost => format!("{lost} of {all}: {first}"),
        });
    }
    if let Some(other) = answers.iter().find(|it| !by.is_empty() && !by.contains(&it.by)) {
        let who = if other.by.is_empty() { "somebody" } else { &other.by };
        return Some(format!("{who} answered in place of {}", by.join(" or ")));
    }
    match also {
        Also::Nothing => None,
        Also::OneServer => {
            let servers: BTreeSet<_> = answers.iter().map(|it| it.by.as_str()).collect();
            let names: Vec<_> = servers.into_iter().collect();
            (names.len() > 1).then(|| format!("{} took turns", names.join(" and ")))
        }
        Also::Source => answers.iter().find(|it| it.seen != it.from).map(|it| {
            let words =
                |address: Option<IpAddr>| address.map_or("nothing".to_owned(), |it| it.to_string());
            format!("it came from {} and was seen from {}", words(it.from), words(it.seen))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Protocol;

    fn target() -> Target {
        Target::at(Protocol::Tcp, [10, 0, 0, 1].into(), 80)
    }

    fn by(name: &str) -> Answer {
        let own = Some([10, 0, 0, 9].into());
        Answer { by: name.to_owned(), from: own, seen: own, ..Answer::default() }
    }

    fn fault(fault: Fault) -> Answer {
        Answer { fault: Some(fault), detail: "after 1 s".to_owned(), ..Answer::default() }
    }

    fn of(check: &Check, answers: &[Answer]) -> Verdict {
        judge(check, &answers.iter().collect::<Vec<_>>())
    }

    fn failed(verdict: Verdict, words: &str) {
        assert!(
            matches!(&verdict, Verdict::Failed(why) if why.contains(words)),
            "{verdict:?}, {words}"
        );
    }

    #[test]
    fn an_answer_is_of_whom_it_is_wanted() {
        let check = Check::answered("a", "b", target()).by(&["one", "two"]).times(2);
        assert_eq!(of(&check, &[by("one"), by("two")]), Verdict::Passed);
        failed(of(&check, &[by("one"), by("three")]), "three answered in place of one or two");
        failed(of(&check, &[by("one"), by("")]), "somebody answered");
        failed(of(&check, &[by("one"), fault(Fault::Refused)]), "1 of 2: refused (after 1 s)");
        failed(of(&check, &[by("one")]), "told of 1 of 2");
        // Who is silent is asked no more.
        let often = check.clone().times(5);
        failed(
            of(&often, &[by("one"), fault(Fault::TimedOut), fault(Fault::TimedOut)]),
            "2 of 3: timed out",
        );
        failed(of(&often, &[by("one"), fault(Fault::TimedOut)]), "told of 2 of 5");
        failed(of(&check, &[fault(Fault::TimedOut), fault(Fault::TimedOut)]), "timed out");
        assert!(matches!(of(&check, &[by("one"), fault(Fault::NotAllowed)]), Verdict::NotTried(_)));
    }

    #[test]
    fn a_client_stays_with_its_server_and_keeps_its_address() {
        let check = Check::answered("a", "b", target()).also(Also::OneServer).times(2);
        assert_eq!(of(&check, &[by("one"), by("one")]), Verdict::Passed);
        failed(of(&check, &[by("one"), by("two")]), "one and two took turns");
        let check = check.also(Also::Source).times(1);
        assert_eq!(of(&check, &[by("one")]), Verdict::Passed);
        let mut other = by("one");
        other.seen = Some([10, 0, 0, 1].into());
        failed(of(&check, &[other]), "it came from 10.0.0.9 and was seen from 10.0.0.1");
    }

    #[test]
    fn only_silence_is_denied() {
        let check = Check::denied("a", "b", target());
        assert_eq!(of(&check, &[fault(Fault::TimedOut)]), Verdict::Passed);
        failed(of(&check, &[by("one")]), "one answered, and it should be denied");
        failed(of(&check, &[fault(Fault::Refused)]), "refused");
        failed(of(&check, &[fault(Fault::Unreachable)]), "somebody else answered");
        failed(of(&check, &[]), "told of 0 of 1");
        // In silence a lost line of the pod is no silence.
        assert_eq!(check.target.wait, SILENCE);
    }

    #[test]
    fn a_name_has_the_addresses_of_its_service() {
        let one: IpAddr = [10, 96, 0, 1].into();
        let want = Want::Addresses(vec![one]);
        let check = Check { want, ..Check::answered("a", "b", target()) };
        let found = |addresses: Vec<IpAddr>| Answer { addresses, ..Answer::default() };
        assert_eq!(of(&check, &[found(vec![one])]), Verdict::Passed);
        failed(of(&check, &[found(Vec::new())]), "10.96.0.1 was wanted");
        failed(of(&check, &[fault(Fault::NoName)]), "name not resolved");
    }
}
