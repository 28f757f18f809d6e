//! What is not as it should be with services.

use volvox_actors::services::{
    health_checks::{HealthCheckView, HealthChecksMsg},
    service_cache::{RefusedServiceObject, ServicesMsg, ServicesStatus},
};

use super::{Api, troubles::Trouble};
use crate::gateway::GatewayError;

/// How many refused objects and how many problems are named one by one.
const NAMED_MAX: usize = 20;

/// Asks how services stand, and whether load balancers can ask for each.
pub(super) async fn gather(api: &Api, what: &'static str) -> Result<ServicesStatus, GatewayError> {
    let (status, checks) = tokio::try_join!(
        api.gateway.ask(what, |node| &node.services, ServicesMsg::Show),
        api.gateway.ask_if(what, |node| node.health_checks.as_ref(), HealthChecksMsg::Show),
    )?;
    Ok(with_checks(status, checks.unwrap_or_default()))
}

fn with_checks(mut status: ServicesStatus, checks: Vec<HealthCheckView>) -> ServicesStatus {
    let problems = checks.into_iter().filter_map(|it| Some((it.service, it.problem?)));
    status.problems.extend(problems);
    status
}

/// What is wrong: objects that are refused, what services cannot have, writes that fail, what the
/// maps held at start until it is put right, and what of it stays.
pub(super) fn troubles(status: &ServicesStatus) -> Vec<Trouble> {
    let refused = status.refused.iter().map(|(source, it)| {
        let RefusedServiceObject { object, path, problem, remedy } = it;
        let text = format!(
            "{object} of {source} is refused, what it was before stays: {path}: {problem}; {remedy}"
        );
        Trouble::new(format!("refused {object}"), 1, text)
    });
    let problems = status.problems.iter().map(|(service, problem)| {
        Trouble::new(format!("service {service}"), 1, format!("service {service}: {problem}"))
    });
    let mut all = named(refused, "refused", "more objects that are refused");
    all.extend(named(problems, "services", "more problems of services"));
    all.extend(status.last_error.as_ref().map(|error| {
        let text = format!(
            "services cannot be written to the kernel: {error}; what was before serves on, it is \
             tried again"
        );
        Trouble::new("services-write", status.failures.into(), text)
    }));
    let mut awaited = status.awaited.iter().filter(|it| !it.is_apart());
    let is_being_mended = awaited.next().is_some() || status.unread + status.open > 0;
    let found = status.found.iter().filter(|_| is_being_mended);
    all.extend(listed("services-maps", "maps of services at start", found));
    let foreign = status.foreign.iter();
    let what = "maps of services have rows that mean nothing, and stay";
    all.extend(listed("services-foreign-rows", what, foreign));
    all
}

/// The first of them, and how many more there are.
fn named(each: impl ExactSizeIterator<Item = Trouble>, name: &str, more: &str) -> Vec<Trouble> {
    let rest = each.len().saturating_sub(NAMED_MAX);
    let mut all: Vec<_> = each.take(NAMED_MAX).collect();
    if rest > 0 {
        let text = format!("{rest} {more}: see GET /v1/volvox/services and the agent's log");
        all.push(Trouble::new(format!("{name} and more"), rest as u64, text));
    }
    all
}

/// All of it as one.
fn listed<'a>(name: &str, what: &str, each: impl Iterator<Item = &'a String>) -> Option<Trouble> {
    let each: Vec<&str> = each.map(String::as_str).collect();
    let first = each[..each.len().min(NAMED_MAX)].join("; ");
    let rest = match each.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        rest => format!("; and {rest} more, see the agent's log"),
    };
    (!each.is_empty()).then(|| Trouble::new(name, 1, format!("{what}: {first}{rest}")))
}

#[cfg(test)]
mod tests {
    use volvox_actors::services::{health_checks::HealthCheck, service_cache::ServiceSource};

    use super::*;

    fn texts(status: &ServicesStatus) -> Vec<String> {
        troubles(status).into_iter().map(|trouble| trouble.text).collect()
    }

    #[test]
    fn each_kind_of_trouble_is_named_with_its_remedy() {
        let refused = RefusedServiceObject {
            object: "Service default/web".into(),
            path: "spec.ports[0].port".into(),
            problem: "70000 is no port".into(),
            remedy: "write a number from 1 to 65535".into(),
        };
        let status = ServicesStatus {
            refused: vec![("web.yaml".into(), refused)],
            problems: vec![("default/db".into(), "10.0.0.1:80/TCP is default/web's".into())],
            failures: 3,
            last_error: Some("write map cilium_lb4_services_v2: No space left".into()),
            foreign: vec!["backend 7, 10.0.0.7:80/TCP, has the state 9".into()],
            ..ServicesStatus::default()
        };
        let expected = [
            "Service default/web of web.yaml is refused, what it was before stays: \
             spec.ports[0].port: 70000 is no port; write a number from 1 to 65535",
            "service default/db: 10.0.0.1:80/TCP is default/web's",
            "services cannot be written to the kernel: write map cilium_lb4_services_v2: No space \
             left; what was before serves on, it is tried again",
            "maps of services have rows that mean nothing, and stay: backend 7, 10.0.0.7:80/TCP, \
             has the state 9",
        ];
        assert_eq!(texts(&status), expected);
        assert_eq!(troubles(&status)[2].failures, 3);
        assert_eq!(texts(&ServicesStatus::default()), [""; 0]);
    }

    #[test]
    fn a_service_for_which_nobody_can_ask_is_named() {
        let view = |service: &str, problem: Option<&str>| HealthCheckView {
            service: service.to_owned(),
            check: HealthCheck { port: 31000, local_endpoints: 1 },
            problem: problem.map(ToOwned::to_owned),
        };
        let problem = "its healthCheckNodePort 31000 is default/web's";
        let views = vec![view("default/db", Some(problem)), view("default/web", None)];
        let status = with_checks(ServicesStatus::default(), views);
        assert_eq!(texts(&status), [format!("service default/db: {problem}")]);
    }

    #[test]
    fn what_was_found_at_start_is_a_trouble_until_it_is_put_right() {
        let found = vec!["service 10.0.0.1:80/TCP is not whole".to_owned()];
        let awaited = [ServiceSource::Cluster].into();
        let mut status = ServicesStatus { found, awaited, ..ServicesStatus::default() };
        let expected = ["maps of services at start: service 10.0.0.1:80/TCP is not whole"];
        assert_eq!(texts(&status), expected);
        status.awaited.clear();
        status.open = 1;
        assert_eq!(texts(&status), expected);
        status.open = 0;
        assert_eq!(texts(&status), [""; 0]);
    }

    #[test]
    fn a_thousand_problems_do_not_hide_all_else() {
        let problem = |number| (format!("default/s{number}"), "no room".to_owned());
        let problems = (0..1000).map(problem).collect();
        let said = texts(&ServicesStatus { problems, ..ServicesStatus::default() });
        assert_eq!(said.len(), NAMED_MAX + 1);
        assert!(said[NAMED_MAX].starts_with("980 more problems of services: "), "{said:?}");
    }
}
