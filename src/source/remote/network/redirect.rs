//! Redirects. Credentials stay with the scheme, host and port that they are meant for.

use reqwest::header::{self, HeaderMap};
use reqwest::{Method, StatusCode};
use url::Url;

use super::fault::RefusedRedirect;

const MOST: usize = 10;
/// Headers that another origin gets as well. All others may hold credentials or be derived from them, as
/// `x-amz-security-token` and the customer keys of S3.
const PUBLIC: [&str; 6] = ["accept", "accept-encoding", "if-match", "range", "user-agent", "x-amz-checksum-mode"];

/// Returns the address that an answer from `from` redirects to, after `count` redirects. `None`: it is no redirect.
pub(super) fn target(
    method: &Method,
    from: &Url,
    status: StatusCode,
    headers: &HeaderMap,
    count: usize,
) -> Result<Option<Url>, RefusedRedirect> {
    let location = headers.get(header::LOCATION).filter(|_| matches!(status.as_u16(), 301..=303 | 307 | 308));
    let Some(location) = location else { return Ok(None) };
    let refuse = |reason: &str| Err(RefusedRedirect(format!("it redirects {reason}")));
    let to = str::from_utf8(location.as_bytes()).ok().and_then(|to| from.join(to).ok());
    let Some(mut to) = to else { return refuse("to an address that is not valid") };
    match to.scheme() {
        "http" | "https" if *method != Method::GET && *method != Method::HEAD => {
            let host = to.host_str().unwrap_or_default();
            return refuse(&format!("a {method} request to {host}, which is not followed"));
        }
        "http" | "https" if count >= MOST => return refuse("without an end"),
        "http" | "https" => {}
        scheme => return refuse(&format!("to a URL of {scheme}, which is not followed")),
    }
    // Only the user's own URLs have credentials.
    let _ = (to.set_username(""), to.set_password(None));
    Ok(Some(to))
}

/// Removes the headers that may hold credentials if a redirect leads to another scheme, host or port.
pub(super) fn keep_headers(headers: &mut HeaderMap, from: &Url, to: &Url) {
    if from.origin() == to.origin() {
        return;
    }
    let private: Vec<_> = headers.keys().filter(|name| !PUBLIC.contains(&name.as_str())).cloned().collect();
    for name in private {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().expect("a URL")
    }

    #[test]
    fn other_origins_get_public_headers_only() {
        let secrets = [
            "authorization",
            "cookie",
            "x-amz-security-token",
            "x-amz-content-sha256",
            "x-amz-server-side-encryption-customer-key",
            "x-amz-server-side-encryption-customer-key-md5",
            "x-goog-encryption-key",
            "x-ms-encryption-key",
            "x-aws-ec2-metadata-token",
            "x-identity-header",
        ];
        let mut headers = HeaderMap::new();
        for name in secrets.into_iter().chain(PUBLIC) {
            headers.insert(name, "a value".parse().expect("a value"));
        }
        let from = url("https://store.example/a");
        for (to, is_same) in [
            ("https://store.example/b", true),
            ("https://store.example:443/b", true),
            ("https://other.example/b", false),
            ("https://store.example:8443/b", false),
            ("http://store.example/b", false),
            ("http://store.example:443/b", false),
        ] {
            let mut kept = headers.clone();
            keep_headers(&mut kept, &from, &url(to));
            assert_eq!(kept.len(), if is_same { headers.len() } else { PUBLIC.len() }, "{to}");
            assert!(secrets.iter().all(|name| kept.contains_key(*name) == is_same), "{to}");
        }
    }

    #[test]
    fn requests_with_bodies_are_not_redirected() {
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, "http://user:secret@other.example/b".parse().expect("a value"));
        let to = |method, count| target(&method, &url("http://a/b"), StatusCode::TEMPORARY_REDIRECT, &headers, count);
        assert_eq!(to(Method::GET, 0).expect("followed"), Some(url("http://other.example/b")));
        let error = to(Method::PUT, 0).expect_err("refused");
        assert_eq!(error.to_string(), "it redirects a PUT request to other.example, which is not followed");
        to(Method::GET, MOST).expect_err("refused");
    }
}
