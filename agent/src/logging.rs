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

/// Environment variable that overrides the level, a module at a time if desired:
/// `info,volvox_agent::ports=debug`.
const FILTER_VARIABLE: &str = "VOLVOX_LOG";

/// Begins to log. Called again, it changes nothing.
pub fn start(level: LogLevel, format: LogFormat) {
    let filter = EnvFilter::builder()
        .with_default_directive(level_filter(level).into())
        .with_env_var(FILTER_VARIABLE)
        .from_env_lossy();
    // What it fails at is said once, by whoever asked.
    let filter = match "kube_client=off".parse() {
        Ok(quiet) => filter.add_directive(quiet),
        Err(_) => filter,
    };
    // Only a second call fails, and then the first one's format stays.
    let lines = STDERR.get_or_init(|| Lines::new(io::stderr(), format));
    let _ = subscriber(filter, format, io::stderr().is_terminal(), move || lines).try_init();
    panic::set_hook(Box::new(|panic| {
        if !guarded::is_guarded() {
            tracing::error!("panicked: {panic}");
        }
    }));
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
) -> Box<dyn tracing::Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match format {
        LogFormat::Text => Box::new(builder.with_ansi(colours).with_target(false).finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
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
        let filter = EnvFilter::default().add_directive(LevelFilter::INFO.into());
        let subscriber = subscriber(filter, format, false, move || writer.clone());
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
