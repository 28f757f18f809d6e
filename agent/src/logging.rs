//! What the agent says of itself, on stderr: a line an event, for people or for programs. Nothing waits
//! for whoever reads it.

mod line;

use std::{
    io::{self, IsTerminal, Stderr},
    panic,
    sync::OnceLock,
};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter, util::SubscriberInitExt};

use self::line::Lines;
use crate::{
    config::{LogFormat, LogLevel},
    guarded,
};

static STDERR: OnceLock<Lines<Stderr>> = OnceLock::new();
/// Changes what is logged.
static RELOAD: OnceLock<Reload> = OnceLock::new();

/// The level at the start, and how another filter takes the place of the one that is in force.
struct Reload {
    level: LogLevel,
    take: Take,
}

/// Puts a filter in the place of the one before.
type Take = Box<dyn Fn(EnvFilter) + Send + Sync>;

/// Environment variable that overrides the level, a module at a time if desired:
/// `info,volvox_agent::ports=debug`.
const FILTER_VARIABLE: &str = "VOLVOX_LOG";

/// Begins to log. Called again, it changes nothing.
pub fn start(level: LogLevel, format: LogFormat) {
    // Only a second call fails, and then the first one's format stays.
    let lines = STDERR.get_or_init(|| Lines::new(io::stderr(), format));
    let colours = io::stderr().is_terminal();
    let (subscriber, take) = subscriber(filter(level), format, colours, move || lines);
    if subscriber.try_init().is_ok() {
        let _ = RELOAD.set(Reload { level, take });
    }
    panic::set_hook(Box::new(|panic| {
        if !guarded::is_guarded() {
            tracing::error!("panicked: {panic}");
        }
    }));
}

/// Logs more from now on, as --debug does, or what it did at the start.
pub fn set_debug(on: bool) {
    if let Some(Reload { level, take }) = RELOAD.get() {
        take(filter(if on { LogLevel::Debug.max(*level) } else { *level }));
    }
}

fn filter(level: LogLevel) -> EnvFilter {
    let filter = EnvFilter::builder()
        .with_default_directive(level_filter(level).into())
        .with_env_var(FILTER_VARIABLE)
        .from_env_lossy();
    // What it fails at is said once, by whoever asked.
    match "kube_client=off".parse() {
        Ok(quiet) => filter.add_directive(quiet),
        Err(_) => filter,
    }
}

/// Lines of the log that could not be written, since the agent started.
pub fn lost() -> u64 {
    STDERR.get().map_or(0, Lines::lost)
}

fn subscriber<W>(
    filter: EnvFilter,
    format: LogFormat,
    colours: bool,
    writer: W,
) -> (Box<dyn tracing::Subscriber + Send + Sync>, Take)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match format {
        LogFormat::Text => {
            let builder = builder.with_ansi(colours).with_target(false).with_filter_reloading();
            let handle = builder.reload_handle();
            // Who is gone logs nothing.
            (Box::new(builder.finish()), Box::new(move |it| drop(handle.reload(it))))
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            (Box::new(builder.finish()), Box::new(move |it| drop(handle.reload(it))))
        }
    }
}

fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::subscriber::with_default;

    use super::*;

    #[derive(Clone, Default)]
    struct Retained(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Retained {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat) -> String {
        let retained = Retained::default();
        let writer = retained.clone();
        let at = |level: LevelFilter| EnvFilter::default().add_directive(level.into());
        let (subscriber, take) =
            subscriber(at(LevelFilter::DEBUG), format, false, move || writer.clone());
        take(at(LevelFilter::INFO));
        with_default(subscriber, || {
            tracing::info!(endpoint = 7, "endpoint is ready");
            tracing::debug!("too fine");
        });
        String::from_utf8(retained.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn text_is_one_line_an_event() {
        let text = logged(LogFormat::Text);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.trim_end().ends_with("INFO endpoint is ready endpoint=7"), "{text}");
    }

    #[test]
    fn json_is_one_object_an_event() {
        let value: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json)).unwrap();
        assert_eq!(value["level"], "INFO");
        assert_eq!(value["message"], "endpoint is ready");
        assert_eq!(value["endpoint"], 7);
    }
}
