//! Who may read metrics: whoever shows a token that the API server knows, and may get the path.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use volvox_actors::ports::ClusterError;
use volvox_cluster::{Connection, Review};
use volvox_inspect::http::ApiError;

/// How long an answer of the API server holds: who may, and who may not.
const ALLOWED_LASTS: Duration = Duration::from_secs(60);
const REFUSED_LASTS: Duration = Duration::from_secs(10);
/// How long somebody who might is let in while the API server cannot be asked: just then metrics are wanted.
const UNASKED_LASTS: Duration = Duration::from_secs(600);
/// How long a review may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Reviews at a time, so that whoever makes tokens up does not burden the API server.
const REVIEWS_MAX: usize = 2;
/// Tokens that are remembered, by their hashes.
const KNOWN_MAX: usize = 256;
/// The longest token that is taken, bytes.
const TOKEN_MAX: usize = 16 << 10;

type Hash = [u8; 32];

/// Asks the API server who may read metrics.
pub struct Reviewer {
    connection: Connection,
    known: Mutex<BTreeMap<Hash, (Review, Instant)>>,
    reviews: Semaphore,
}

impl Reviewer {
    /// By that way to the API server.
    pub fn new(connection: Connection) -> Arc<Self> {
        let (known, reviews) = (Mutex::default(), Semaphore::new(REVIEWS_MAX));
        Arc::new(Self { connection, known, reviews })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Hash, (Review, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was said of a token lately enough.
    fn remembered(&self, hash: &Hash, unasked: bool) -> Option<Review> {
        let (review, at) = *self.known().get(hash)?;
        let lasts = match review {
            Review::Allowed if unasked => UNASKED_LASTS,
            Review::Allowed => ALLOWED_LASTS,
            _ => REFUSED_LASTS,
        };
        (at.elapsed() < lasts).then_some(review)
    }

    fn remember(&self, hash: Hash, review: Review) {
        let mut known = self.known();
        known.insert(hash, (review, Instant::now()));
        if known.len() > KNOWN_MAX {
            // One who may is forgotten last: whoever makes tokens up keeps nobody out.
            let oldest = known.iter().min_by_key(|(_, (it, at))| (*it == Review::Allowed, *at));
            let oldest = oldest.map(|(hash, _)| *hash);
            oldest.and_then(|hash| known.remove(&hash));
        }
    }

    async fn review(&self, token: &str, path: &str) -> Result<Review, ClusterError> {
        let hash: Hash = Sha256::new()
            .chain_update(path)
            .chain_update([0])
            .chain_update(token)
            .finalize()
            .into();
        if let Some(review) = self.remembered(&hash, false) {
            return Ok(review);
        }
        let asked = async {
            let _turn = self.reviews.acquire().await;
            match self.remembered(&hash, false) {
                Some(review) => Ok(review),
                None => self.connection.review(token, path).await,
            }
        };
        let said = match timeout(PATIENCE, asked).await {
            Ok(said) => said,
            Err(_) => Err(ClusterError::Unreachable(format!("no answer within {PATIENCE:?}"))),
        };
        match said {
            Ok(review) => {
                self.remember(hash, review);
                Ok(review)
            }
            Err(error) => self.remembered(&hash, true).ok_or(error),
        }
    }
}

/// Lets through whoever may.
pub(super) async fn reviewed(
    State(reviewer): State<Arc<Reviewer>>,
    request: Request,
    next: Next,
) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
    let token = shown.and_then(|it| it.strip_prefix("Bearer ")).map(str::trim);
    let Some(token) = token.filter(|it| !it.is_empty() && it.len() <= TOKEN_MAX) else {
        return unknown("show a token of a service account: `Authorization: Bearer TOKEN`");
    };
    match reviewer.review(token, request.uri().path()).await {
        Ok(Review::Allowed) => next.run(request).await,
        Ok(Review::Unknown) => unknown("the API server does not know this token: show another one"),
        Ok(Review::Forbidden) => {
            let text = "the token's owner may not get this path: bind it to a ClusterRole with \
                        nonResourceURLs [/metrics] and verbs [get]";
            ApiError::new(StatusCode::FORBIDDEN, text).into_response()
        }
        Err(error) => ApiError::unavailable(format!(
            "the API server cannot be asked whose token this is: {error}"
        ))
        .into_response(),
    }
}

fn unknown(text: &str) -> Response {
    let mut response = ApiError::new(StatusCode::UNAUTHORIZED, text).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

#[cfg(test)]
mod tests;
