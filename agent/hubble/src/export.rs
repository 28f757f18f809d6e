//! Flows in a file: a line of JSON each, as Hubble's exporter writes them, with a bound on how large the
//! file becomes and how many older ones are kept.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use prost::Message;
use serde_json::Value;

use crate::{
    filter::{FilterError, Filters},
    json::{from_json, to_json},
    mask::Mask,
    messages::{FlowFilter, FlowsResponse, GetFlowsResponse, LostEvent, Timestamp, lost, now},
    observer::Observer,
    read::response,
    ring::Content,
    schema::{FLOW_FILTER, FLOWS_RESPONSE},
};

/// How many records are written together.
const BATCH: u64 = 256;

/// What is written, and where.
pub struct Export {
    /// The file.
    pub path: PathBuf,
    /// How large it becomes, bytes.
    pub size_max: u64,
    /// How many older ones are kept.
    pub backups: u32,
    /// Which flows.
    pub filters: Filters,
    /// Which members of them; none is all.
    pub mask: Option<Mask>,
}

/// Reads filters as a setting has them: JSON objects one after the other.
pub fn read_filters(text: &str) -> Result<Vec<FlowFilter>, String> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let filter = |value: Result<Value, serde_json::Error>| {
        let value = value.map_err(|error| format!("it is no JSON: {error}"))?;
        let bytes = from_json(&FLOW_FILTER, &value).map_err(|error| error.to_string())?;
        FlowFilter::decode(&*bytes).map_err(|error| error.to_string())
    };
    let filters = values.map(filter).collect::<Result<Vec<_>, _>>()?;
    Filters::new(&filters, &[]).map_err(|error: FilterError| error.to_string())?;
    Ok(filters)
}

/// Writes flows as they come, for ever. A failure is said once, and what comes later is tried anew.
pub async fn export(observer: Arc<Observer>, export: Export) {
    let mut news = observer.news();
    let (_, mut at) = observer.ring().bounds();
    let mut failed = false;
    let export = Arc::new(export);
    loop {
        news.borrow_and_update();
        loop {
            let lines = lines(&observer, &export, &mut at);
            if lines.is_empty() && at >= observer.ring().bounds().1 {
                break;
            }
            let to = Arc::clone(&export);
            let written = tokio::task::spawn_blocking(move || to.write(&lines)).await;
            match written {
                Ok(Ok(())) => failed = false,
                Ok(Err(error)) if !std::mem::replace(&mut failed, true) => {
                    let file = export.path.display();
                    tracing::warn!(%file, %error, "flows are not exported; see --hubble-export-file-path");
                }
                _ => {}
            }
        }
        if news.changed().await.is_err() {
            return;
        }
    }
}

/// The next lines.
fn lines(observer: &Observer, export: &Export, at: &mut u64) -> String {
    let (oldest, next) = observer.ring().bounds();
    let mut text = String::new();
    let mut line = |bytes: &[u8]| {
        text += &to_json(&FLOWS_RESPONSE, bytes).to_string();
        text.push('\n');
    };
    let tells_lost = export.filters.is_empty();
    let lost_line = |source: i32, count: u64, cpu: Option<i32>, time: u64| {
        let event = LostEvent {
            source,
            num_events_lost: count,
            cpu,
            last: Some(Timestamp::from_nanoseconds(time)),
            ..LostEvent::default()
        };
        GetFlowsResponse {
            response: Some(FlowsResponse::LostEvents(event)),
            node_name: observer.names().flow_name().to_owned(),
            time: Some(Timestamp::from_nanoseconds(time)),
        }
        .encode_to_vec()
    };
    if *at < oldest {
        if tells_lost {
            line(&lost_line(lost::RING, oldest - *at, None, now()));
        }
        *at = oldest;
    }
    let end = next.min(*at + BATCH);
    for number in *at..end {
        let Some(stored) = observer.ring().get(number) else { continue };
        if let Content::Lost { source, count, .. } = stored.content {
            if tells_lost {
                let cpu = i32::try_from(stored.cpu).ok();
                line(&lost_line(source as i32, count, cpu, stored.time));
            }
            continue;
        }
        observer.want_names(&stored);
        let Some(decoded) = observer.decode(&stored) else { continue };
        if export.filters.pass(&decoded.flow) {
            match &export.mask {
                Some(mask) => line(&response(&mask.apply(&decoded.bytes))),
                None => line(&response(&decoded.bytes)),
            }
        }
    }
    *at = end;
    text
}

impl Export {
    fn write(&self, lines: &str) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        if self.path == Path::new("stdout") {
            volvox_system::say!("{}", lines.trim_end());
            return Ok(());
        }
        let mut file = self.open()?;
        let size = file.metadata()?.len();
        if size > 0 && size + lines.len() as u64 > self.size_max {
            self.put_aside()?;
            file = self.open()?;
        }
        file.write_all(lines.as_bytes())
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)
    }

    /// The file becomes the first of the older ones, and the oldest of too many goes.
    fn put_aside(&self) -> io::Result<()> {
        let older = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        if self.backups == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..self.backups).rev() {
            match fs::rename(older(number), older(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, older(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export_to(path: PathBuf) -> Export {
        Export { path, size_max: 10, backups: 2, filters: Filters::default(), mask: None }
    }

    #[test]
    fn a_file_that_is_full_is_put_aside_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flows");
        let export = export_to(path.clone());
        for text in ["one\n", "two\n", "three\n", "four\n", "five five five\n", "six\n"] {
            export.write(text).unwrap();
        }
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(read("flows"), "six\n");
        assert_eq!(read("flows.1"), "five five five\n");
        assert_eq!(read("flows.2"), "four\n");
        assert!(!dir.path().join("flows.3").exists());
        assert!(export_to(dir.path().join("absent/flows")).write("x\n").is_err());
    }

    #[test]
    fn filters_of_a_setting_are_read_or_refused_by_name() {
        let text = "{\"verdict\":[\"DROPPED\"]}\n{\"source_pod\":[\"a/b\"]}";
        assert_eq!(read_filters(text).unwrap().len(), 2);
        assert_eq!(read_filters("").unwrap(), []);
        assert!(read_filters("{").unwrap_err().contains("no JSON"));
        assert!(read_filters("{\"verdict\":[\"x\"]}").unwrap_err().contains("verdict"));
        assert!(read_filters("{\"source_ip\":[\"x\"]}").unwrap_err().contains("source_ip"));
    }
}
