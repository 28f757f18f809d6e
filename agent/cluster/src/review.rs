//! Asks the API server who shows a token, and whether they may have what they ask for.

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use volvox_actors::ports::ClusterError;

use super::Connection;

/// Where tokens are judged,
const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// and who may do what.
const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// What the API server says of somebody who shows a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// It is nobody's.
    Unknown,
    /// Its owner may not.
    Forbidden,
    /// Its owner may.
    Allowed,
}

impl Connection {
    /// Whether the owner of a token may get a path that is none of the API server's own.
    pub async fn review(&self, token: &str, path: &str) -> Result<Review, ClusterError> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
        let asked = TokenReview { spec, ..TokenReview::default() };
        let said: TokenReview = self.submit(TOKENS, &asked).await?;
        let status = said.status.unwrap_or_default();
        let (Some(true), Some(user)) = (status.authenticated, status.user) else {
            return Ok(Review::Unknown);
        };
        let wanted =
            NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
        let spec = SubjectAccessReviewSpec {
            extra: user.extra,
            groups: user.groups,
            non_resource_attributes: Some(wanted),
            uid: user.uid,
            user: user.username,
            ..SubjectAccessReviewSpec::default()
        };
        let asked = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let said: SubjectAccessReview = self.submit(ACCESS, &asked).await?;
        match said.status.is_some_and(|status| status.allowed && status.denied != Some(true)) {
            true => Ok(Review::Allowed),
            false => Ok(Review::Forbidden),
        }
    }
}
