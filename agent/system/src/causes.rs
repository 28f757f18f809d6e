//! Errors of libraries, told with what caused them.

use std::error::Error;

/// An error's own words and its causes.
pub fn reported(error: &dyn Error) -> String {
    with_causes(error.to_string(), error)
}

/// `text`, which tells of an error, and behind it the causes that it does not name itself.
pub fn with_causes(mut text: String, error: &dyn Error) -> String {
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::reported;

    #[derive(Debug, thiserror::Error)]
    #[error("not sent: {0}")]
    struct Named(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("no answer")]
    struct Unnamed(#[source] Named);

    #[test]
    fn each_cause_is_told_once() {
        let error = Unnamed(Named(io::Error::other("pipe is broken")));
        assert_eq!(reported(&error), "no answer: not sent: pipe is broken");
    }
}
