//! Tests: spans end once, and in failure if one of those that are waited for does not come.

use std::future::{pending, ready};

use super::*;

fn ended(spans: &Spans) -> Vec<(&'static str, bool)> {
    spans.all().iter().map(|span| (span.scope, span.success)).collect()
}

#[test]
fn the_first_end_counts_and_time_is_measured_from_where_it_began() {
    let long_ago = Time(SystemClock.now().0.saturating_sub(5_000_000_000));
    let spans = Spans::of(long_ago);
    spans.end(Scope::InitApi, SystemClock.now(), true);
    spans.end_from_start(Scope::Overall, true);
    spans.end_from_start(Scope::InitApi, false);
    assert_eq!(ended(&spans), [("overall", true), ("initAPI", true)]);
    let [overall, api] = spans.all()[..] else { panic!("two spans ended") };
    assert!(overall.took >= Duration::from_secs(5) && api.took < Duration::from_secs(5));
}

#[actix::test]
async fn a_span_ends_when_all_have_come() {
    let spans = Spans::of(SystemClock.now());
    let wait = |answers: [Result<(), AskError>; 2], scope| {
        spans.clone().await_all(scope, SystemClock.now(), answers.map(ready))
    };
    wait([Ok(()), Ok(())], Scope::KvstoreInit).await;
    wait([Err(AskError::Deadline), Ok(())], Scope::K8sInit).await;
    let never = spans.clone().await_all(Scope::BpfBase, SystemClock.now(), [pending()]);
    assert!(tokio::time::timeout(Duration::from_millis(20), never).await.is_err());
    assert_eq!(ended(&spans), [("kvstoreInit", true), ("k8sInit", false)]);
}
