//! What a gauntlet walks through: an operation, told as a history whose first step it is.

use anyhow::{Context, Result, ensure};

use super::calls::Moment;
use crate::chaos::{
    history::{History, Step},
    library::Source,
    run,
    tree::Tree,
};

/// What is walked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Walk {
    /// A restart with nothing changed
    Restart,
    /// A pod is created
    Create,
    /// A pod is deleted
    Delete,
    /// A policy changes
    Policy,
    /// A service changes
    Service,
    /// A pod gets another identity
    Identity,
    /// An agent with other programs takes over
    Upgrade,
    /// All that agents left is removed
    Uninstall,
    /// One after the other
    All,
}

/// A file below `testbed/gauntlets`.
macro_rules! text {
    ($name:literal) => {
        include_str!(concat!("../../../gauntlets/", $name, ".yaml"))
    };
}

/// The node and its traffic, which are the same for all.
const NODE: &str = text!("node");

impl Walk {
    /// Those that it stands for.
    pub(super) fn each(self) -> Vec<Self> {
        use Walk::{Create, Delete, Identity, Policy, Restart, Service, Uninstall, Upgrade};
        match self {
            Self::All => {
                vec![Restart, Create, Delete, Policy, Service, Identity, Upgrade, Uninstall]
            }
            one => vec![one],
        }
    }

    /// As it is asked for.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Policy => "policy",
            Self::Service => "service",
            Self::Identity => "identity",
            Self::Upgrade => "upgrade",
            Self::Uninstall => "uninstall",
            Self::All => "all",
        }
    }

    /// In words: "calls of ...".
    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Restart => "a restart",
            Self::Create => "a creation",
            Self::Delete => "a deletion",
            Self::Policy => "a policy change",
            Self::Service => "a service change",
            Self::Identity => "an identity change",
            Self::Upgrade => "an upgrade",
            Self::Uninstall => "an uninstall",
            Self::All => "all",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Restart | Self::All => text!("restart"),
            Self::Create => text!("create"),
            Self::Delete => text!("delete"),
            Self::Policy => text!("policy"),
            Self::Service => text!("service"),
            Self::Identity => text!("identity"),
            Self::Upgrade => text!("upgrade"),
            Self::Uninstall => text!("uninstall"),
        }
    }

    /// Whether it is a start of an agent that dies, and not one that has run for a while.
    pub(super) fn is_start(self) -> bool {
        matches!(self, Self::Restart | Self::Upgrade)
    }
}

/// A walk as a history: the operation and what is looked at behind it.
pub(super) struct Plan {
    pub(super) walk: Walk,
    tree: Tree,
    pub(super) history: History,
}

impl Plan {
    /// The walk on a node of so many pods.
    pub(super) fn make(walk: Walk, endpoints: usize) -> Result<Self> {
        let read =
            |text| Tree::read(text).map_err(|(place, what)| anyhow::anyhow!("{place:?}: {what}"));
        let (mut tree, own) = (read(NODE)?, read(walk.text())?);
        for word in ["about", "steps"] {
            *tree.entry(word) = own.get(word).cloned().unwrap_or(Tree::Empty);
        }
        for word in ["manifests", "traffic"] {
            if let Tree::List(all) = tree.entry(word) {
                all.extend_from_slice(own.get(word).map(Tree::items).unwrap_or_default());
            }
        }
        let Tree::Map(pods) = tree.entry("pods") else { anyhow::bail!("there are no pods") };
        pods.extend_from_slice(own.get("pods").map(Tree::members).unwrap_or_default());
        ensure!(
            pods.len() <= endpoints,
            "this gauntlet needs {} endpoints: take --endpoints {0} or more",
            pods.len()
        );
        for number in pods.len()..endpoints {
            let app = Tree::Text(format!("app-{}", number % 10));
            pods.push((format!("pod-{number}"), Tree::Map(vec![("app".into(), app)])));
        }
        let history = parse(walk.name(), &tree)?;
        Ok(Self { walk, tree, history })
    }

    /// The operation, and what is looked at behind it.
    pub(super) fn steps(&self) -> Result<(&Step, &[Step])> {
        self.history.steps.split_first().context("a gauntlet has an operation")
    }

    /// The history of one death: kept, it runs again.
    pub(super) fn death(&self, moment: &Moment) -> Result<Tree> {
        let killed = Tree::Map(vec![
            ("before".into(), Tree::Text(moment.call.clone())),
            ("nth".into(), Tree::Whole(moment.nth.into())),
        ]);
        let mut killed_and_followed = killed.clone();
        *killed_and_followed.entry("then") = Tree::Text("start".into());
        let word = |word: &str, value: Tree| Tree::Map(vec![(word.into(), value)]);
        let text = |text: &str| Tree::Text(text.into());
        let mut tree = self.tree.clone();
        let Tree::List(steps) = tree.entry("steps") else { anyhow::bail!("there are no steps") };
        let operation = steps.remove(0);
        let begin = match self.walk {
            Walk::Restart => vec![word("restart", word("killed", killed))],
            Walk::Upgrade => {
                let to = operation.get("upgrade").cloned().context("it is an upgrade")?;
                let how = Tree::Map(vec![("to".into(), to), ("killed".into(), killed)]);
                vec![word("upgrade", how)]
            }
            _ => vec![
                word("kill", killed_and_followed),
                operation,
                word("wait", text("dead")),
                word("wait", text("ready")),
                word("wait", text("applied")),
            ],
        };
        steps.splice(0..0, begin);
        *tree.entry("about") =
            Tree::Text(format!("An agent dies {moment} of {}.", self.walk.about()));
        parse(self.walk.name(), &tree)?;
        Ok(tree)
    }
}

fn parse(name: &str, tree: &Tree) -> Result<History> {
    let source = Source { name: name.to_owned(), text: tree.write() };
    let [history] = run::read(&[source])?.try_into().ok().context("it is one history")?;
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_walk_is_a_history_and_so_is_each_death_of_it() {
        for walk in Walk::All.each() {
            let plan = Plan::make(walk, 20).unwrap();
            assert_eq!(plan.history.pods.len(), 20, "{walk:?}");
            if walk == Walk::Uninstall {
                continue;
            }
            let moment = Moment { call: "bpf".into(), nth: 7 };
            let history = parse("death", &plan.death(&moment).unwrap()).unwrap();
            assert_eq!(history.calls(), ["bpf"], "{walk:?}");
            assert!(history.steps.len() >= plan.history.steps.len(), "{walk:?}");
        }
        assert!(Plan::make(Walk::Service, 11).is_err());
    }
}
