//! Tests: the page gets flows that it asks for and no more, and is told what is missed.

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{
    live::batch_json,
    shown::{End, end},
    *,
};
use crate::{
    messages::{FlowEndpoint, FlowService},
    read::tests::Lab,
};

async fn ask(lab: &Lab, path: &str) -> (u16, Value) {
    let router = flows_router(Arc::clone(&lab.observer));
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answer = router.oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

fn ports(batch: &Value) -> Vec<u64> {
    let flows = batch["flows"].as_array().unwrap().iter();
    flows.map(|flow| flow["from"]["port"].as_u64().unwrap_or(0)).collect()
}

#[tokio::test]
async fn those_that_are_kept_are_answered_as_asked() {
    let mut lab = Lab::new(7);
    lab.write(1..6);
    let (_, all) = ask(&lab, "/flows").await;
    assert_eq!(
        (ports(&all), &all["more"], &all["next"]),
        (vec![1, 2, 3, 4, 5], &json!(false), &json!(5))
    );
    let flow = &all["flows"][0];
    assert_eq!(
        (&flow["is"], &flow["at"], &flow["protocol"]),
        (&json!("flow"), &json!(1_000_000), &json!("TCP"))
    );
    assert_eq!(flow["from"]["term"], "ip:10.0.0.1");
    let (_, newest) = ask(&lab, "/flows?limit=2").await;
    assert_eq!((ports(&newest), &newest["more"]), (vec![4, 5], &json!(true)));
    let (_, between) = ask(&lab, "/flows?since=2000000&until=3000000").await;
    assert_eq!(ports(&between), [2, 3]);
    let (_, filtered) = ask(&lab, "/flows?filter=from-port:4").await;
    assert_eq!(ports(&filtered), [4]);
    let (status, refused) = ask(&lab, "/flows?filter=from-prt:4").await;
    assert!(status == 400 && refused.as_str().unwrap().contains("from-port"), "{refused}");
    let (_, whole) = ask(&lab, "/flows/0").await;
    assert_eq!(whole["l4"]["TCP"]["source_port"], 1);
    // The oldest of the ring have gone.
    lab.write(6..20);
    let (status, gone) = ask(&lab, "/flows/0").await;
    assert!(status == 404 && gone.as_str().unwrap().contains("overwritten"), "{gone}");
}

#[tokio::test]
async fn what_comes_is_told_once_and_what_is_missed_is_counted() {
    let mut lab = Lab::new(7);
    lab.write(1..3);
    let mut at = 0;
    let first = batch_json(&lab.observer, "", &mut at);
    assert_eq!((ports(&first), &first["missed"]), (vec![1, 2], &json!(0)));
    assert_eq!(ports(&batch_json(&lab.observer, "", &mut at)), Vec::<u64>::new());
    lab.write(3..20);
    let late = batch_json(&lab.observer, "-from-port:18", &mut at);
    assert_eq!((ports(&late), &late["missed"]), (vec![13, 14, 15, 16, 17, 19], &json!(10)));
    let (status, _) = ask(&lab, "/flows/live?filter=nonsense:1").await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn a_page_too_many_is_refused_and_those_that_left_make_room() {
    let lab = Lab::new(7);
    let open = async || {
        let router = flows_router(Arc::clone(&lab.observer));
        let request = Request::get("/flows/live").body(Body::empty()).unwrap();
        router.oneshot(request).await.unwrap()
    };
    let mut streams = Vec::new();
    let refused = loop {
        let answer = open().await;
        if answer.status() != 200 {
            break answer;
        }
        streams.push(answer);
        assert!(streams.len() < 100, "nobody is refused");
    };
    assert_eq!(refused.status(), 503);
    drop(streams);
    // Whoever left is noticed at the next beat.
    while open().await.status() != 200 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn an_end_is_called_by_its_pod_and_grouped_by_its_workload() {
    let of = |namespace: &str, pod: &str, identity, labels: &[&str]| {
        let labels = labels.iter().map(|&it| it.to_owned()).collect();
        let (namespace, pod_name) = (namespace.to_owned(), pod.to_owned());
        Some(FlowEndpoint { namespace, pod_name, identity, labels, ..FlowEndpoint::default() })
    };
    let said = |endpoint: &Option<FlowEndpoint>, service: &Option<FlowService>| {
        let End { name, term, group, group_term, .. } =
            end(endpoint, service, "10.0.0.1", Some(80));
        [name, term, group, group_term]
    };
    let web = of("shop", "web-7f-x", 700, &["k8s:tier=a", "k8s:app=web"]);
    let expected =
        ["shop/web-7f-x", "pod:shop/web-7f-x", "shop/web", "label:k8s:app=web namespace:shop"];
    assert_eq!(said(&web, &None), expected);
    let plain = of("shop", "job", 701, &[]);
    assert_eq!(said(&plain, &None), ["shop/job", "pod:shop/job", "shop/job", "pod:shop/job"]);
    let world = of("", "", 2, &["reserved:world"]);
    assert_eq!(said(&world, &None), ["10.0.0.1", "ip:10.0.0.1", "world", "identity:2"]);
    let service = Some(FlowService { name: "db".into(), namespace: "shop".into() });
    assert_eq!(said(&None, &service)[1..3], ["service:shop/db", "shop/db"]);
    // On another node the labels are known, and not the pod.
    let remote = of("shop", "", 800, &["k8s:app=db"]);
    assert_eq!(said(&remote, &None)[2], "shop/db");
}
