//! Services and Ingresses that come, change and go.

use super::node::Node;
use crate::model::{
    manifests::{ingress_document, service_documents},
    service_members::Members,
};

impl Node {
    /// A service has other backends, comes, or goes.
    pub(crate) fn service(&mut self, number: u8, members: Option<Members>, reported: bool) {
        let name = format!("service-{number}");
        let documents = members.map(|members| service_documents(number, members).to_vec());
        self.world.manifests.insert(name.clone(), documents.unwrap_or_default());
        self.oracle.borrow_mut().services.becomes(number, members);
        self.changed(name, reported);
    }

    /// An Ingress leads to a service from now on, or does not.
    pub(crate) fn ingress(&mut self, number: u8, there: bool, reported: bool) {
        let name = format!("ingress-{number}");
        let documents = if there { vec![ingress_document(number)] } else { Vec::new() };
        self.world.manifests.insert(name.clone(), documents);
        self.oracle.borrow_mut().services.expected.leads(number, there);
        self.changed(name, reported);
    }
}
