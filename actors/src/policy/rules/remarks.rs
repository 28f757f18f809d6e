//! What people are told of policies that are not, or not wholly, what their authors wrote.

use std::collections::BTreeMap;

use super::{
    MissingGroup, MissingService, Policies, Repository, Subject, messages::RefusedPolicy,
    same_priority_remark,
};

impl Repository {
    /// What keeps policies from being, for an endpoint, what their authors wrote: those that are
    /// refused and may mean it, and parts of those that select it.
    fn remarks(&self, subject: &Subject) -> Vec<String> {
        let labels = &subject.labels;
        let refused = self.refused().filter(|(refused, _)| refused.means(labels));
        let mut all: Vec<_> = refused
            .map(|(refused, stays)| {
                let what = match (&refused.name, stays) {
                    (Some(_), true) => {
                        "a newer version of a policy is refused, the one before stays"
                    }
                    (Some(_), false) => {
                        "a policy that selects it is refused, nothing of it is in force"
                    }
                    (None, _) => "what is refused may be a policy that selects it",
                };
                format!("{what}: {}", refused.error)
            })
            .collect();
        let groups = self.groups();
        for (source, policy) in self.policies().filter(|(_, policy)| policy.selects(labels)) {
            all.extend(policy.unsupported.iter().map(ToString::to_string));
            let at = |path: &str| format!("{source}: {}: {path}", policy.name);
            all.extend(policy.missing_groups(&groups).into_iter().map(|it| {
                let MissingGroup { name, path } = it;
                format!("{}: there is no CiliumCIDRGroup {name}: it has no prefix", at(&path))
            }));
            // Others that do not select it do not matter to it.
            let others = self.same_priority(policy).into_iter().filter(|name| {
                self.policies().any(|(_, other)| other.name == *name && other.selects(labels))
            });
            let others: Vec<_> = others.collect();
            all.extend(
                same_priority_remark(&others).map(|it| format!("{source}: {}: {it}", policy.name)),
            );
            all.extend(policy.missing_services().into_iter().map(|it| {
                let MissingService { which, path } = it;
                format!("{}: there is no Service {which}: nobody is meant", at(&path))
            }));
        }
        all
    }
}

impl Policies {
    /// The same, given everything that was told.
    pub(super) fn remarks(&self, subject: &Subject) -> Vec<String> {
        self.known.repository.remarks(subject)
    }

    /// Every document that is refused, once each.
    pub(super) fn refused_policies(&self) -> Vec<RefusedPolicy> {
        let all = self.known.repository.refused().map(|(refused, earlier_in_force)| {
            (&refused.error, RefusedPolicy { error: refused.error.clone(), earlier_in_force })
        });
        all.collect::<BTreeMap<_, _>>().into_values().collect()
    }
}
