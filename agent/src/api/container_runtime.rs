//! The container runtime, as a source of news and as a part of the agent's status.

use std::time::Duration;

use volvox_actors::{cluster::container_runtime::RuntimeFollowerView, host::Time};
use volvox_rest::models::{Source, Status};

use super::sources::heard;

/// Whose source it is.
const CONTAINERD: &str = "containerd";
/// Who was followed and is away for so long is worth a warning: a restart is sooner over.
const AWAY_WARNED: Duration = Duration::from_secs(120);

/// It as a source. One that never was there is none that is missed.
pub(super) fn source(view: &RuntimeFollowerView, now: Time) -> Source {
    let silence = view.hearing.silence(now).filter(|silence| *silence >= AWAY_WARNED);
    let away = view.error.as_ref().filter(|_| view.was_followed).zip(silence);
    Source {
        objects: Some(view.containers),
        version: view.version.clone(),
        trouble: away.map(|(error, silence)| {
            let seconds = silence.as_secs();
            format!(
                "containerd is not followed for {seconds} s: {error}; endpoints stay as they are"
            )
        }),
        ..heard(CONTAINERD, "containers", &view.hearing, now)
    }
}

/// How it is followed, in a line.
pub(super) fn status(view: &RuntimeFollowerView) -> Status {
    let (state, msg) = match (&view.version, &view.error) {
        (Some(version), _) => ("Ok", followed(view, version)),
        (None, Some(error)) if view.was_followed => ("Warning", error.clone()),
        (None, Some(error)) => ("Disabled", error.clone()),
        (None, None) => ("Disabled", "it has not been asked yet".to_owned()),
    };
    Status { state: state.to_owned(), msg }
}

fn followed(view: &RuntimeFollowerView, version: &str) -> String {
    let RuntimeFollowerView { containers, gone, living, removed, strangers, .. } = view;
    let mut line = format!("containerd {version}: {containers} containers of endpoints run");
    let more = [
        (*gone, "are gone"),
        (*living, "of these have an interface, so their endpoints stay"),
        (*strangers, "are not containerd's"),
    ];
    for (count, what) in more.into_iter().filter(|(count, _)| *count > 0) {
        line += &format!(", {count} {what}");
    }
    if *removed > 0 {
        line += &format!("; {removed} endpoints were removed for nobody said DEL");
    }
    line
}

#[cfg(test)]
mod tests {
    use volvox_actors::cluster::sources::Hearing;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    #[test]
    fn a_runtime_that_never_was_there_is_no_trouble_and_one_that_went_is() {
        let hearing = Hearing { connected: None, said: Some(at(10)), replaced: None };
        let error = Some("nobody answers".to_owned());
        let never = RuntimeFollowerView { error: error.clone(), ..RuntimeFollowerView::default() };
        assert_eq!((source(&never, at(999)).trouble, &*status(&never).state), (None, "Disabled"));
        let went = RuntimeFollowerView { error, was_followed: true, hearing, ..never };
        assert_eq!(source(&went, at(129)).trouble, None, "it may be restarted");
        assert!(source(&went, at(130)).trouble.unwrap().contains("for 120 s: nobody answers"));
        assert_eq!(status(&went).state, "Warning");
        let version = Some("1.6".to_owned());
        let view = RuntimeFollowerView { version, containers: 3, gone: 1, living: 1, ..went };
        let Status { state, msg } = status(&view);
        assert_eq!(state, "Ok");
        assert!(
            msg.starts_with("containerd 1.6: 3 containers of endpoints run, 1 are gone"),
            "{msg}"
        );
    }
}
