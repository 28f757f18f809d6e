//! What is looked at before an endpoint is made.

use super::{EndpointReference, Endpoints};
use crate::{
    endpoints::endpoint::{CreateError, EndpointSpec},
    host::AskError,
    model::EndpointId,
    ports::{KernelDone, KernelOutcome},
};

/// The interface that no pod can have.
const LOOPBACK: &str = "lo";

impl Endpoints {
    /// Whether it may be, and under which number.
    pub(super) fn check(&mut self, spec: &EndpointSpec) -> Result<EndpointId, CreateError> {
        if spec.ifindex == 0 {
            let text = "interface-index is missing: name the host-side interface of the endpoint";
            return Err(CreateError::Invalid(text.to_owned()));
        }
        if spec.id == Some(EndpointId(0)) {
            let text = "endpoint ID 0 is nobody's: a number from 1 to 4095 is expected";
            return Err(CreateError::Invalid(text.to_owned()));
        }
        if spec.labels.has_reserved("host") {
            let text = "reserved:host is the label of the node itself, whose endpoint the agent makes \
                        with --enable-host-firewall: leave the label out";
            return Err(CreateError::Invalid(text.to_owned()));
        }
        if spec.labels.has_reserved("health") && !spec.is_health() {
            let text = "reserved:health is the label of the health endpoint, which the agent makes itself \
                        with --enable-endpoint-health-checking: leave the label out";
            return Err(CreateError::Invalid(text.to_owned()));
        }
        for address in spec.addresses.iter() {
            let target = EndpointReference::Address(address);
            if let Some(other) = self.owner(&target) {
                return Err(CreateError::InUse(format!(
                    "IP {target} is already in use by endpoint {other}"
                )));
            }
        }
        let attachment = EndpointReference::AttachmentId(spec.attachment_id());
        if !spec.container_id.is_empty()
            && let Some(other) = self.owner(&attachment)
        {
            return Err(CreateError::InUse(format!(
                "attachment {attachment} is already in use by endpoint {other}"
            )));
        }
        if let Some(other) = self.at_interface(spec.ifindex) {
            return Err(CreateError::InUse(format!(
                "{} is already in use by endpoint {other}",
                spec.interface()
            )));
        }
        match spec.id {
            Some(id) if self.family.numbers.take(id) => Ok(id),
            Some(id) => Err(CreateError::InUse(format!("endpoint ID {id} is already in use"))),
            None => self.family.numbers.next().ok_or_else(|| {
                CreateError::TooMany(
                    "all endpoint IDs from 1 to 4095 are in use: delete endpoints first".to_owned(),
                )
            }),
        }
    }

    /// Who has that address or attachment, also among those that are about to be.
    fn owner(&self, target: &EndpointReference) -> Option<EndpointId> {
        // A number or an address is taken until nothing of its holder is left; a name is free once
        // its holder is told to go.
        let is_name = matches!(target, EndpointReference::AttachmentId(_));
        if let Some(child) = self.find(target).filter(|child| !(is_name && child.is_going())) {
            return Some(child.view.id);
        }
        let meant = |spec: &EndpointSpec| match target {
            EndpointReference::Address(address) => spec.addresses.iter().any(|own| own == *address),
            EndpointReference::AttachmentId(id) => spec.is_attachment(id),
            _ => false,
        };
        self.family
            .creating
            .values()
            .find(|creating| meant(&creating.spec))
            .map(|creating| creating.id)
    }

    /// Who is at that interface, also among those that are about to be.
    fn at_interface(&self, ifindex: u32) -> Option<EndpointId> {
        let mut children = self.family.children.values();
        let child = children.find(|child| child.view.spec.ifindex == ifindex);
        let mut creating = self.family.creating.values();
        let mut found = || creating.find(|creating| creating.spec.ifindex == ifindex);
        child.map(|child| child.view.id).or_else(|| found().map(|creating| creating.id))
    }
}

/// Whether the interface is what the caller says, and can be a pod's.
pub(super) fn inspect(
    spec: &EndpointSpec,
    answer: Result<KernelDone, AskError>,
) -> Result<(), CreateError> {
    let failed = |error: &dyn std::fmt::Display| CreateError::Failed(format!("kernel: {error}"));
    let done = answer.map_err(|error| failed(&error))?;
    if let Some((_, error)) = &done.failed {
        return Err(failed(error));
    }
    let link = match done.outcomes.first() {
        Some(KernelOutcome::Links(links)) => links.get(&spec.ifindex),
        other => return Err(failed(&format!("it answered {other:?}"))),
    };
    let difference = match link {
        None => Some("there is none".to_owned()),
        Some(link) if link.name == LOOPBACK => Some("it is the node's own".to_owned()),
        Some(link) => link.differs(&spec.ifname, spec.node_mac),
    };
    match difference {
        None => Ok(()),
        Some(difference) => Err(CreateError::Invalid(format!(
            "{}: {difference}; name the host side of the pod's veth pair, as it is now",
            spec.interface()
        ))),
    }
}
