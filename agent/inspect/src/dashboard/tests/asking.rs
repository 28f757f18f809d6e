//! Tests: lives are listed, read in parts and streamed; files that are no record are refused.

use std::{fs, ops::RangeInclusive, path::Path};

use axum::{
    Router,
    body::Body,
    http::{Request, Response},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use volvox_actors::host::{Record, Recorder, RootId, Time};

use crate::{
    dashboard::{FAULTS, Fault, Lives, Opened, page::ASSETS, router},
    flight::{CURRENT, FlightView, Recording},
};

/// A life that begins in that directory, recorded.
struct Begun {
    recorder: Box<dyn Recorder>,
    view: FlightView,
}

impl Begun {
    fn new(dir: &Path) -> Self {
        let recording = Recording::begin(dir, 1 << 20, Time(1_000));
        Self { recorder: recording.recorder(), view: recording.view() }
    }

    /// Records these outside events.
    fn roots(&mut self, numbers: RangeInclusive<u64>) {
        for number in numbers {
            let (root, at) = (RootId(number), Time(1_000 + number));
            self.recorder.record(Record::Root { root, what: "a file", at });
        }
    }

    fn page(&self) -> Router {
        router(Lives::Agent(self.view.clone()), Router::new())
    }
}

async fn respond(page: &Router, path: &str) -> Response<Body> {
    let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
    page.clone().oneshot(request).await.unwrap()
}

async fn ask(page: &Router, path: &str) -> (u16, Value) {
    let answer = respond(page, path).await;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

fn numbers(flight: &Value) -> Vec<u64> {
    let events = flight["events"].as_array().unwrap();
    events.iter().map(|event| event["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_running_agents_lives_are_read_piece_by_piece() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = Begun::new(dir.path());
    first.roots(1..=3);
    let (_, lives) = ask(&first.page(), "/api/lives").await;
    // There was no life before: that is no error.
    assert_eq!((&lives[0]["id"], lives[1].is_null()), (&json!("current"), true), "{lives}");
    let mut second = Begun::new(dir.path());
    second.roots(1..=10);
    let page = second.page();
    let (_, lives) = ask(&page, "/api/lives").await;
    assert_eq!((&lives[0]["live"], &lives[1]["live"]), (&json!(true), &json!(false)));
    assert_eq!((&lives[0]["number"], &lives[1]["number"]), (&json!(2), &json!(1)));
    let (_, before) = ask(&page, "/api/flight?life=previous&after=1").await;
    assert_eq!(numbers(&before), [2, 3]);

    let (_, first) = ask(&page, "/api/flight?life=current&limit=4").await;
    assert_eq!((numbers(&first), &first["life"]["number"]), (vec![1, 2, 3, 4], &json!(2)));
    let (_, rest) = ask(&page, "/api/flight?life=current&after=4").await;
    assert_eq!(numbers(&rest), [5, 6, 7, 8, 9, 10]);
    assert_eq!(rest["events"][0]["record"], "root");
    let (status, text) = ask(&page, "/api/flight?life=nobodys").await;
    assert!(status == 404 && text.as_str().unwrap().contains("/api/lives"), "{text}");
}

#[tokio::test]
async fn what_is_new_is_streamed() {
    let dir = tempfile::tempdir().unwrap();
    let mut life = Begun::new(dir.path());
    life.roots(1..=3);
    let answer = respond(&life.page(), "/api/live?life=1&after=2").await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut body = answer.into_body();
    let mut next = async || {
        let frame = body.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
    };
    let read = |text: &str| -> Value {
        let data = text.strip_prefix("event: batch\ndata: ").expect("a batch");
        serde_json::from_str(data).unwrap()
    };
    assert_eq!(numbers(&read(&next().await.unwrap())), [3]);
    life.roots(4..=6);
    let batch = read(&next().await.unwrap());
    assert_eq!((numbers(&batch), &batch["lost"]), (vec![4, 5, 6], &json!(0)));
}

#[tokio::test]
async fn whoever_follows_another_life_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let life = Begun::new(dir.path());
    let answer = respond(&life.page(), "/api/live?life=7&after=2").await;
    // Ends by itself.
    let all = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(all.starts_with(b"event: life\n"), "{all:?}");
}

#[tokio::test]
async fn files_are_opened_whatever_form_they_have() {
    let dir = tempfile::tempdir().unwrap();
    let (binary, text) = (dir.path().join(CURRENT), dir.path().join("run.json"));
    Begun::new(dir.path()).roots(1..=4);
    let opened = Opened::read(&binary).unwrap();
    let page = router(Lives::Opened(vec![opened]), Router::new());
    let (_, flight) = ask(&page, "/api/flight?life=0").await;
    fs::write(&text, format!("\n {flight}")).unwrap();
    let both = [&binary, &text].map(|file| Opened::read(file).unwrap());
    let page = router(Lives::Opened(both.into()), Router::new());
    let (_, again) = ask(&page, "/api/flight?life=1").await;
    assert_eq!(again, flight);
    let (_, lives) = ask(&page, "/api/lives").await;
    assert_eq!(lives[1]["name"], "run.json, life 1");
    let (status, _) = ask(&page, "/api/live?life=1").await;
    assert_eq!(status, 404, "files do not live");
}

#[tokio::test]
async fn earlier_lives_are_listed_by_how_they_ended() {
    let dir = tempfile::tempdir().unwrap();
    // One is told to stop, and one is killed.
    let mut first = Begun::new(dir.path());
    first.roots(1..=1);
    first.view.end();
    Begun::new(dir.path()).roots(1..=1);
    let mut third = Begun::new(dir.path());
    third.roots(1..=1);
    let (_, lives) = ask(&third.page(), "/api/lives").await;
    let endings: Vec<_> = lives.as_array().unwrap().iter().map(|life| &life["ending"]).collect();
    assert_eq!(endings, [&json!("lives"), &json!("killed"), &json!("stopped")], "{lives}");
}

#[tokio::test]
async fn faults_beside_a_recording_are_told() {
    let dir = tempfile::tempdir().unwrap();
    Begun::new(dir.path()).roots(1..=4);
    let ring = dir.path().join(CURRENT);
    let fault = Fault { at_unix_ns: 7, took_ns: 1, what: "kill the agent".to_owned() };
    fs::write(dir.path().join(FAULTS), serde_json::to_string(&[&fault]).unwrap()).unwrap();
    let page = router(Lives::Opened(vec![Opened::read(&ring).unwrap()]), Router::new());
    let (_, faults) = ask(&page, "/api/faults?life=0").await;
    assert_eq!(faults, json!([fault]));
    let (_, none) = ask(&page, "/api/faults?life=8").await;
    assert_eq!(none, json!([]));
    fs::write(dir.path().join(FAULTS), "[{").unwrap();
    let error = Opened::read(&ring).unwrap_err().to_string();
    assert!(error.contains(FAULTS) && error.contains("move it away"), "{error}");
}

#[test]
fn what_is_no_record_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("shopping.txt");
    for content in ["", "milk", "{\"milk\": 1}", "{", "VOLVOXFR and then nothing"] {
        fs::write(&file, content).unwrap();
        let error = Opened::read(&file).unwrap_err().to_string();
        assert!(error.contains("shopping.txt"), "{content}: {error}");
    }
    assert!(Opened::read(&dir.path().join("gone")).is_err());
}

#[test]
fn every_file_of_the_page_is_embedded_and_reachable() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard/page");
    let mut there: Vec<_> = (fs::read_dir(folder).unwrap())
        .map(|file| format!("/{}", file.unwrap().file_name().to_string_lossy()))
        .collect();
    there.sort();
    let mut embedded: Vec<_> = ASSETS.iter().map(|(name, _, _)| (*name).to_owned()).collect();
    embedded.sort();
    assert_eq!(embedded, there);
    // The page names every file of its own: by a link, a script or an import.
    let texts: String = ASSETS.iter().map(|(_, _, text)| *text).collect();
    for name in embedded.iter().filter(|name| *name != "/index.html") {
        let named = [format!("\"{name}\""), format!("\".{name}\"")];
        assert!(named.iter().any(|name| texts.contains(name)), "{name} is used by nothing");
    }
    // Nothing comes from elsewhere.
    for (name, _, text) in ASSETS {
        let foreign = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!foreign.contains("http://") && !foreign.contains("https://"), "{name}");
    }
}
