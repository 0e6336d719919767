//! Requests for ranges of one file: over HTTP, or through `object_store`. Both give the same answer.

use std::cell::Cell;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use futures_util::stream::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpService,
};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::signer::{SignedUrlOptions, Signer};
use object_store::{ClientOptions, GetOptions, GetRange, ObjectStore, RetryConfig};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use url::Url;

use super::body::Body;
use super::fault::{Fault, classify, root_cause};
use super::name::{self, NetworkOptions};
use super::problem::RemoteProblem;
use super::redirect;
use super::{RemotePin, profile, settings};
use crate::error::Error;

/// Time limit of a connection, and of the first byte of an answer.
const CONNECT: Duration = Duration::from_secs(15);
/// Validity of an address that is signed here.
const VALID: Duration = Duration::from_secs(300);
/// Headers that request and return the checksums of S3.
const SUM_MODE: &str = "x-amz-checksum-mode";
const SUM_PREFIX: &str = "x-amz-checksum-";
const SUM_TYPE: &str = "x-amz-checksum-type";
/// The variable with the address of Azure's credentials service.
const IDENTITY: &str = "IDENTITY_ENDPOINT";
/// Longest tag or time that is taken from an answer.
const MAX_FACT: usize = 512;
/// Prefix of the hash that replaces a tag.
const HASHED: &str = "BLAKE3 ";
/// Longest `Retry-After` that is honoured.
const MAX_PAUSE: Duration = Duration::from_secs(120);

impl RemotePin {
    /// True if an answer with `other` may be of the same file: nothing that both say differs.
    pub fn agrees(&self, other: &Self) -> bool {
        fn same<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
            one.is_none() || other.is_none() || one == other
        }
        same(&self.bytes, &other.bytes) && same(&self.etag, &other.etag) && same(&self.modified, &other.modified)
    }

    /// The tag, if it stands for every byte and is the server's own.
    fn strong(&self) -> Option<&String> {
        self.etag.as_ref().filter(|tag| !tag.starts_with("W/") && !tag.starts_with(HASHED))
    }
}

/// The beginning of an answer.
pub(super) struct Answer {
    /// True if it is the requested range. Otherwise it is the whole file from its start.
    pub is_range: bool,
    pub facts: RemotePin,
    /// The address after redirects.
    pub url: Option<Url>,
    pub body: Body,
}

/// The location of a file.
#[derive(Clone)]
pub(super) enum Client {
    Http { client: reqwest::Client, url: Url },
    Store { store: Arc<dyn ObjectStore>, path: object_store::path::Path, sums: Option<Sums> },
}

/// Requests the checksums that S3 stores for an object.
#[derive(Clone)]
pub(super) struct Sums {
    client: reqwest::Client,
    signer: Arc<AmazonS3>,
    /// The bucket is public: addresses are as of signed requests, and have no signature.
    unsigned: bool,
}

tokio::task_local! {
    /// The delay that the answer to this request asks for, which `object_store` drops.
    static RETRY_AFTER: Cell<Option<Duration>>;
}

impl Client {
    /// A client for `url`, which messages call `shown`.
    pub fn new(url: &Url, shown: &std::path::Path, network: &NetworkOptions) -> Result<Self, Error> {
        let bad = |problem: RemoteProblem| Error::bad_input(shown, None, problem);
        let client = http_client().map_err(bad)?;
        if let "http" | "https" = url.scheme() {
            return Ok(Self::Http { client, url: url.clone() });
        }
        let connector = Connector(StoreClient(client.clone()));
        // The caller retries: `object_store` does not wait as long as `Retry-After` says.
        let retry = RetryConfig { max_retries: 0, retry_timeout: CONNECT, ..RetryConfig::default() };
        let refused = |error: &dyn std::error::Error| bad(RemoteProblem::Url { reason: root_cause(error) });
        let (_, path) = object_store::ObjectStoreScheme::parse(url).map_err(|error| refused(&error))?;
        let endpoint = network.endpoint.as_deref();
        let mut sums = None;
        let store: Arc<dyn ObjectStore> = match url.scheme() {
            "s3" | "s3a" => {
                let settings = settings::all("AWS_", endpoint.map(|it| (AmazonS3ConfigKey::Endpoint, it)))?;
                let builder =
                    settings.into_iter().fold(AmazonS3Builder::new(), |it, (key, value)| it.with_config(key, value));
                let mut builder = profile::fill(builder)?.with_url(url.as_str());
                let unsigned =
                    builder.get_config_value(&AmazonS3ConfigKey::SkipSignature).is_some_and(|it| is_yes(&it));
                if unsigned {
                    // An address comes from the signer, which would look for keys.
                    builder = builder.with_access_key_id("none").with_secret_access_key("none");
                }
                let builder = builder.with_allow_http(true).with_retry(retry).with_http_connector(connector);
                let signer = Arc::new(builder.build().map_err(|error| refused(&error))?);
                sums = Some(Sums { client, signer: Arc::clone(&signer), unsigned });
                signer
            }
            "gs" => {
                let mut builder = GoogleCloudStorageBuilder::new();
                if let Some(path) = settings::variable("SERVICE_ACCOUNT") {
                    builder = builder.with_service_account_path(path);
                }
                let settings = settings::all::<GoogleConfigKey>("GOOGLE_", None)?;
                let builder = settings.into_iter().fold(builder, |it, (key, value)| it.with_config(key, value));
                let builder = builder.with_url(url.as_str()).with_retry(retry);
                Arc::new(builder.with_http_connector(connector).build().map_err(|error| refused(&error))?)
            }
            _ => {
                let settings = settings::all("AZURE_", endpoint.map(|it| (AzureConfigKey::Endpoint, it)))?;
                let mut builder = MicrosoftAzureBuilder::new();
                if let Some(address) = settings::variable(IDENTITY) {
                    let from = format_args!("the variable {IDENTITY}");
                    let address = settings::checked(AzureConfigKey::MsiEndpoint.as_ref(), &address, from)?;
                    builder = builder.with_msi_endpoint(address);
                }
                let builder = settings.into_iter().fold(builder, |it, (key, value)| it.with_config(key, value));
                let builder = builder.with_url(url.as_str()).with_retry(retry);
                let builder = builder.with_allow_http(true).with_http_connector(connector);
                Arc::new(builder.build().map_err(|error| refused(&error))?)
            }
        };
        Ok(Self::Store { store, path, sums })
    }

    /// Returns a client for the file whose name is this one plus `suffix`.
    pub fn beside(&self, suffix: &str) -> Self {
        match self {
            Self::Http { client, url } => {
                let mut url = url.clone();
                url.set_path(&format!("{}{suffix}", url.path()));
                url.set_query(None);
                Self::Http { client: client.clone(), url }
            }
            Self::Store { store, path, sums } => Self::Store {
                store: store.clone(),
                path: object_store::path::Path::from(format!("{path}{suffix}")),
                sums: sums.clone(),
            },
        }
    }

    /// Returns the name for messages.
    pub fn shown(&self) -> String {
        match self {
            Self::Http { url, .. } => name::shown(url.as_str()),
            Self::Store { path, .. } => path.to_string(),
        }
    }

    /// Requests a range, or all, of the file that `known` describes.
    pub async fn get(&self, range: Option<Range<u64>>, known: &RemotePin) -> Result<Answer, Fault> {
        let asking = async {
            match self {
                Self::Http { client, url } => http_get(client, url, range.clone(), known).await,
                Self::Store { store, path, .. } => store_get(&**store, path, range.clone(), known).await,
            }
        };
        let answer = tokio::time::timeout(2 * CONNECT, asking).await;
        let answer = answer.map_err(|_| Fault::transient("the server does not answer"))??;
        if !known.agrees(&answer.facts) {
            return Err(Fault::Changed(answer.facts.describe()));
        }
        Ok(answer)
    }

    /// Reads a small file of up to `most` bytes. `None` if it is larger.
    pub async fn small(&self, most: usize) -> Result<Option<Vec<u8>>, Fault> {
        let mut answer = self.get(None, &RemotePin::default()).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = answer.body.next().await? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > most {
                return Ok(None);
            }
        }
        Ok(Some(bytes))
    }

    /// True if a refusal to give a file beside this one may mean that there is none: a store says so to whom may not
    /// list it, and a signature is of one file.
    pub fn may_hide_missing_objects(&self) -> bool {
        match self {
            Self::Http { url, .. } => url.query().is_some(),
            Self::Store { .. } => true,
        }
    }

    /// The sums that the store has of all bytes of the file that `known` tells about: of which function, in the store's
    /// words, and their bytes. `None` where it says nothing of that.
    pub async fn sums(&self, known: &RemotePin) -> Result<Option<Vec<(String, Vec<u8>)>>, Fault> {
        let Self::Store { path, sums: Some(Sums { client, signer, unsigned }), .. } = self else { return Ok(None) };
        let (name, value) = (HeaderName::from_static(SUM_MODE), HeaderValue::from_static("ENABLED"));
        let options = SignedUrlOptions::new().with_signed_header(name.clone(), value.clone());
        let asking = async {
            let url = signer.signed_url_opts(Method::HEAD, path, VALID, &options).await;
            let mut url = url.map_err(|error| Fault::transient(root_cause(&error)))?;
            if *unsigned {
                url.set_query(None);
            }
            redirect::send(client, client.head(url).header(name, value)).await
        };
        let response = tokio::time::timeout(2 * CONNECT, asking).await;
        let response = response.map_err(|_| Fault::transient("the server does not answer"))??;
        let (status, headers) = (response.status(), response.headers());
        if !status.is_success() {
            return Err(refusal(status, headers, known));
        }
        let bytes = fact(headers, header::CONTENT_LENGTH.as_str()).and_then(|text| text.parse().ok());
        let found = RemotePin { bytes, etag: tag(headers), ..RemotePin::default() };
        Ok(known.agrees(&found).then(|| stored_sums(headers)))
    }
}

/// The sums in headers of S3, but for those of parts, of which no reader can tell how long they are.
fn stored_sums(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let is_whole = match fact(headers, SUM_TYPE) {
        Some(kind) => kind.eq_ignore_ascii_case("FULL_OBJECT"),
        // A server that does not say which: the tag of an object that came in parts has their number.
        None => fact(headers, header::ETAG.as_str()).is_some_and(|etag| !etag.contains('-')),
    };
    if !is_whole {
        return Vec::new();
    }
    let sum = |name: &HeaderName| {
        let function = name.as_str().strip_prefix(SUM_PREFIX)?.to_owned();
        // With `-` and the number of parts behind it, it is no base64.
        Some((function, BASE64.decode(fact(headers, name.as_str())?.as_bytes()).ok()?))
    };
    headers.keys().filter_map(sum).collect()
}

/// True if a setting is on.
fn is_yes(text: &str) -> bool {
    ["1", "true", "on", "yes", "y"].iter().any(|yes| text.eq_ignore_ascii_case(yes))
}

fn http_client() -> Result<reqwest::Client, RemoteProblem> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let failed = |error: &dyn std::error::Error| RemoteProblem::Refused { answer: root_cause(error) };
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = tls.map_err(|error| failed(&error))?.with_root_certificates(roots).with_no_client_auth();
    // One range to a connection, which HTTP/2 would send through a single one.
    let builder = reqwest::Client::builder().tls_backend_preconfigured(tls).http1_only().connect_timeout(CONNECT);
    let agent = concat!("bedload/", env!("CARGO_PKG_VERSION"));
    // `redirect` follows redirects: reqwest would send headers that it does not know to any host.
    let builder = builder.redirect(reqwest::redirect::Policy::none()).user_agent(agent).referer(false);
    builder.build().map_err(|error| failed(&error))
}

async fn http_get(
    client: &reqwest::Client,
    url: &Url,
    range: Option<Range<u64>>,
    known: &RemotePin,
) -> Result<Answer, Fault> {
    // A compressed transfer cannot be requested in ranges.
    let mut request = client.get(url.clone()).header(header::ACCEPT_ENCODING, "identity");
    if let Some(range) = &range {
        request = request.header(header::RANGE, format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
    }
    if let Some(etag) = known.strong() {
        request = request.header(header::IF_MATCH, etag.as_str());
    }
    let response = redirect::send(client, request).await?;
    let (status, headers) = (response.status(), response.headers());
    let modified = fact(headers, header::LAST_MODIFIED.as_str());
    let mut facts = RemotePin { etag: tag(headers), modified, ..RemotePin::default() };
    let is_range = status == StatusCode::PARTIAL_CONTENT && range.is_some();
    match status {
        StatusCode::OK => facts.bytes = response.content_length(),
        StatusCode::PARTIAL_CONTENT if is_range => {
            let (found, bytes) = content_range(headers)
                .ok_or_else(|| Fault::Protocol("the server sends a range and does not say which".into()))?;
            facts.bytes = bytes;
            let asked = range.unwrap_or_default();
            let whole = bytes.or(known.bytes);
            let end = whole.map_or(asked.end, |bytes| bytes.min(asked.end));
            // Where the length is not known the file may end before the range.
            let is_asked = found.start == asked.start && (found.end == end || (whole.is_none() && found.end < end));
            if known.agrees(&facts) && !is_asked {
                return Err(Fault::Protocol(format!(
                    "the server sends bytes {} to {} where {} to {end} were asked for",
                    found.start, found.end, asked.start
                )));
            }
        }
        _ => return Err(refusal(status, headers, known)),
    }
    let url = Some(response.url().clone());
    let body =
        response.bytes_stream().map(|piece| piece.map_err(|error| Fault::transient(root_cause(&error.without_url()))));
    Ok(Answer { is_range, facts, url, body: Body::new(body.boxed()) })
}

/// Converts a failure status to a fault.
fn refusal(status: StatusCode, headers: &HeaderMap, known: &RemotePin) -> Fault {
    let answer = status.to_string();
    let changed = |found: RemotePin| match found == RemotePin::default() {
        true => Fault::Changed(format!("another file, for which the server only answers {answer}")),
        false => Fault::Changed(found.describe()),
    };
    match status.as_u16() {
        412 => {
            let etag = fact(headers, "etag").filter(|etag| known.etag.as_ref() != Some(etag));
            changed(RemotePin { etag, ..RemotePin::default() })
        }
        // The file ends before the range.
        416 if known.bytes.is_some() => changed(RemotePin {
            bytes: fact(headers, "content-range").and_then(|text| text.rsplit_once('/')?.1.parse().ok()),
            ..RemotePin::default()
        }),
        404 | 410 => Fault::Permanent(RemoteProblem::NotFound { answer }),
        401 | 403 | 407 => Fault::Permanent(RemoteProblem::Denied { answer }),
        408 | 425 | 429 | 500..=599 => {
            Fault::Transient { what: format!("the server answers {answer}"), pause: retry_after(headers) }
        }
        _ => Fault::Permanent(RemoteProblem::Refused { answer }),
    }
}

/// Returns the delay requested by `Retry-After`.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = fact(headers, header::RETRY_AFTER.as_str())?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_PAUSE))
}

/// The tag of a file; a hash of one that is too long, or not of printable characters: it is compared all the same.
fn tag(headers: &HeaderMap) -> Option<String> {
    let tag = headers.get(header::ETAG)?;
    fact(headers, header::ETAG.as_str()).or_else(|| hashed(tag.as_bytes()))
}

fn hashed(tag: &[u8]) -> Option<String> {
    (!tag.is_empty()).then(|| format!("{HASHED}{}", blake3::hash(tag).to_hex()))
}

/// A short header of printable characters.
fn fact(headers: &HeaderMap, name: &str) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    (!text.is_empty() && text.len() <= MAX_FACT).then(|| text.to_owned())
}

/// The range in an answer, and the bytes of the whole.
fn content_range(headers: &HeaderMap) -> Option<(Range<u64>, Option<u64>)> {
    let text = fact(headers, header::CONTENT_RANGE.as_str())?;
    let (range, whole) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let end = last.checked_add(1)?;
    let whole = whole.trim().parse().ok();
    (first < end && whole.is_none_or(|whole| end <= whole)).then_some((first..end, whole))
}

async fn store_get(
    store: &dyn ObjectStore,
    path: &object_store::path::Path,
    range: Option<Range<u64>>,
    known: &RemotePin,
) -> Result<Answer, Fault> {
    let options = GetOptions {
        range: range.clone().map(GetRange::Bounded),
        if_match: known.strong().cloned(),
        ..GetOptions::default()
    };
    let result = store_answer(store.get_opts(path, options)).await?;
    let meta = &result.meta;
    let facts = RemotePin {
        bytes: Some(meta.size),
        etag: meta.e_tag.clone().and_then(|tag| if tag.len() <= MAX_FACT { Some(tag) } else { hashed(tag.as_bytes()) }),
        modified: (meta.last_modified.timestamp() > 0).then(|| meta.last_modified.to_rfc2822()),
        ..RemotePin::default()
    };
    let body = result.into_stream().map(|piece| piece.map_err(|error| Fault::transient(root_cause(&error)))).boxed();
    Ok(Answer { is_range: range.is_some(), facts, url: None, body: Body::new(body) })
}

/// Waits for a request of `object_store`. A fault has the delay that the server asked for.
pub(super) async fn store_answer<T>(request: impl Future<Output = object_store::Result<T>>) -> Result<T, Fault> {
    let asking = async { request.await.map_err(|error| store_fault(error, RETRY_AFTER.with(Cell::get))) };
    RETRY_AFTER.scope(Cell::new(None), asking).await
}

fn store_fault(error: object_store::Error, pause: Option<Duration>) -> Fault {
    match error {
        object_store::Error::NotFound { .. } => {
            Fault::Permanent(RemoteProblem::NotFound { answer: "404 Not Found".into() })
        }
        object_store::Error::PermissionDenied { .. } => {
            Fault::Permanent(RemoteProblem::Denied { answer: "403 Forbidden".into() })
        }
        object_store::Error::Unauthenticated { .. } => {
            Fault::Permanent(RemoteProblem::Denied { answer: "401 Unauthorized".into() })
        }
        object_store::Error::Precondition { .. } => Fault::Changed("a file with another ETag".into()),
        error => match classify(&error) {
            Fault::Transient { what, .. } => Fault::Transient { what, pause },
            fault => fault,
        },
    }
}

/// Gives `object_store` this crate's client.
#[derive(Debug)]
struct Connector(StoreClient);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

/// A client that follows redirects as [`redirect::send`] does, and notes the delay that a server asks for.
#[derive(Debug, Clone)]
struct StoreClient(reqwest::Client);

impl HttpService for StoreClient {
    fn call<'a, 'b>(
        &'a self,
        mut request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let mut count = 0;
            loop {
                let (method, mut headers) = (request.method().clone(), request.headers().clone());
                let from = Url::parse(&request.uri().to_string());
                let response = self.0.call(request).await?;
                let status = response.status();
                // Requests for credentials have no such place.
                let _ = RETRY_AFTER.try_with(|it| it.set(retry_after(response.headers())));
                let Ok(from) = from else { return Ok(response) };
                let to = redirect::target(&method, &from, status, response.headers(), count);
                let Some(to) = to.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))? else {
                    return Ok(response);
                };
                redirect::keep_headers(&mut headers, &from, &to);
                request = HttpRequest::new(HttpRequestBody::empty());
                (*request.method_mut(), *request.headers_mut()) = (method, headers);
                let uri = to.as_str().parse();
                *request.uri_mut() = uri.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
                count += 1;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a header"));
        headers
    }

    #[test]
    fn invalid_content_ranges_are_ignored() {
        let range = |text: &str| content_range(&headers("content-range", text));
        assert_eq!(range("bytes 0-9/100"), Some((0..10, Some(100))));
        assert_eq!(range("bytes 5-5/*"), Some((5..6, None)));
        for wrong in
            ["", "bytes 9-5/100", "bytes 0-100/100", "bytes */100", "0-9/100", "bytes 0-18446744073709551615/*"]
        {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn stored_sums_cover_whole_objects() {
        let found = |pairs: &[(&'static str, &str)]| {
            let all =
                pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a header")));
            stored_sums(&all.collect())
        };
        let crc = ("x-amz-checksum-crc32c", "4waSgw==");
        let sum = vec![("crc32c".to_owned(), vec![0xe3, 0x06, 0x92, 0x83])];
        assert_eq!(found(&[crc, ("x-amz-checksum-type", "FULL_OBJECT"), ("etag", "\"a\"")]), sum);
        assert_eq!(found(&[crc, ("etag", "\"a\"")]), sum, "some servers do not say which");
        assert_eq!(found(&[crc, ("etag", "\"a-2\"")]), []);
        assert_eq!(found(&[crc]), []);
        assert_eq!(found(&[crc, ("x-amz-checksum-type", "COMPOSITE")]), []);
        for wrong in ["4waSgw==-2", "not base64"] {
            assert_eq!(found(&[("x-amz-checksum-crc32c", wrong), ("etag", "\"a\"")]), [], "{wrong}");
        }
    }

    #[test]
    fn retry_after_is_bounded() {
        let of = |text: &str| retry_after(&headers("retry-after", text));
        assert_eq!(of("7"), Some(Duration::from_secs(7)));
        assert_eq!(of("99999999"), Some(MAX_PAUSE));
        assert_eq!(of("soon"), None);
    }

    #[test]
    fn pins_agree_unless_a_fact_differs() {
        let facts =
            |bytes, etag: &str| RemotePin { bytes: Some(bytes), etag: Some(etag.into()), ..RemotePin::default() };
        assert!(facts(1, "a").agrees(&facts(1, "a")) && facts(1, "a").agrees(&RemotePin::default()));
        assert!(!facts(1, "a").agrees(&facts(2, "a")) && !facts(1, "a").agrees(&facts(1, "b")));
        assert_eq!((facts(1, "W/\"a\"").strong(), facts(1, "\"a\"").strong().is_some()), (None, true));
    }
}
