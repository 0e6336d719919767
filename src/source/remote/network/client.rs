//! Requests for ranges of one file, over HTTP or through `object_store`, with the same answer.

use std::cell::Cell;
use std::future::Future;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpService,
};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path as ObjectPath;
use object_store::signer::{SignedUrlOptions, Signer};
use object_store::{ClientOptions, GetOptions, GetRange, ObjectStore, RetryConfig};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, StatusCode};
use url::{Origin, Url};

use super::body::AnswerBody;
use super::fault::{Fault, classify, root_cause};
use super::headers::{content_range, fact, refusal, retry_after, store_tag, stored_sums, tag};
use super::name::{self, NetworkOptions, Secret};
use super::problem::RemoteProblem;
use super::redirect;
use super::{RemotePin, settings};
use crate::error::Error;

/// Time limit of a connection, and of the first byte of an answer.
const CONNECT: Duration = Duration::from_secs(15);
/// Validity of an address that is signed here.
const VALID: Duration = Duration::from_secs(300);
/// Header that requests the checksums of S3.
const SUM_MODE: &str = "x-amz-checksum-mode";
/// The variable with the address of Azure's credentials service.
const IDENTITY: &str = "IDENTITY_ENDPOINT";

pub(super) struct Answer {
    /// True if it is the requested range. Otherwise it is the whole file from its start.
    pub is_range: bool,
    pub facts: RemotePin,
    /// The address after redirects.
    pub url: Option<Url>,
    pub body: AnswerBody,
}

#[derive(Clone)]
pub(super) enum Client {
    Http {
        client: HttpSender,
        url: Url,
    },
    /// `name` is for messages.
    Store {
        store: Arc<dyn ObjectStore>,
        path: ObjectPath,
        name: String,
        sums: Option<Sums>,
    },
}

/// Requests the checksums that S3 stores for an object.
#[derive(Clone)]
pub(super) struct Sums {
    client: HttpSender,
    signer: Arc<AmazonS3>,
    /// True if the bucket is public: addresses have no signature.
    unsigned: bool,
}

tokio::task_local! {
    /// The delay that the answer to this request asks for, which `object_store` drops.
    static RETRY_AFTER: Cell<Option<Duration>>;
}

impl Client {
    /// Returns the shown name of a source, its URL, and a client for it.
    pub fn open(source: &Path, network: &NetworkOptions) -> Result<(PathBuf, Url, Self), Error> {
        let text = network.url_of(source);
        let name = PathBuf::from(name::shown(&text));
        let bad = |error: url::ParseError| RemoteProblem::Url { reason: error.to_string() };
        let url = Url::parse(&text).map_err(|error| Error::bad_input(&name, None, bad(error)))?;
        let client = Self::new(&url, &name, network)?;
        Ok((name, url, client))
    }

    /// Creates a client for `url`, whose name in messages is `shown`.
    pub fn new(url: &Url, shown: &Path, network: &NetworkOptions) -> Result<Self, Error> {
        let bad = |problem: RemoteProblem| Error::bad_input(shown, None, problem);
        let mut client = HttpSender { client: http_client().map_err(bad)?, headers: Arc::default() };
        if let "http" | "https" = url.scheme() {
            client.headers = Arc::new(private_headers(network)?);
            return Ok(Self::Http { client, url: url.clone() });
        }
        // The caller retries: `object_store` does not wait as long as `Retry-After` says.
        let retry = RetryConfig { max_retries: 0, retry_timeout: CONNECT, ..RetryConfig::default() };
        let refused = |error: &dyn std::error::Error| bad(RemoteProblem::Url { reason: root_cause(error) });
        let (_, path) = object_store::ObjectStoreScheme::parse(url).map_err(|error| refused(&error))?;
        let mut sums = None;
        let store: Arc<dyn ObjectStore> = match url.scheme() {
            "s3" | "s3a" => {
                let settings = settings::all("AWS_", network, Some(AmazonS3ConfigKey::Endpoint))?;
                let builder = AmazonS3Builder::new().with_url(url.as_str());
                let mut builder = settings.into_iter().fold(builder, |it, (key, value)| it.with_config(key, value));
                let unsigned =
                    builder.get_config_value(&AmazonS3ConfigKey::SkipSignature).is_some_and(|it| is_yes(&it));
                if unsigned {
                    // The signer makes the address and would look for keys.
                    builder = builder.with_access_key_id("none").with_secret_access_key("none");
                }
                let builder = builder.with_allow_http(true).with_retry(retry).with_http_connector(client.clone());
                let signer = Arc::new(builder.build().map_err(|error| refused(&error))?);
                sums = Some(Sums { client: client.clone(), signer: Arc::clone(&signer), unsigned });
                signer
            }
            "gs" => {
                let mut builder = GoogleCloudStorageBuilder::new();
                let is_given = !settings::given("GOOGLE_", network).is_empty();
                if let Some(path) = settings::variable("SERVICE_ACCOUNT").filter(|_| !is_given) {
                    builder = builder.with_service_account_path(path);
                }
                let settings = settings::all::<GoogleConfigKey>("GOOGLE_", network, None)?;
                let builder = settings.into_iter().fold(builder, |it, (key, value)| it.with_config(key, value));
                let builder = builder.with_url(url.as_str()).with_retry(retry);
                Arc::new(builder.with_http_connector(client.clone()).build().map_err(|error| refused(&error))?)
            }
            _ => {
                let settings = settings::all("AZURE_", network, Some(AzureConfigKey::Endpoint))?;
                let mut builder = MicrosoftAzureBuilder::new();
                let is_given = !settings::given("AZURE_", network).is_empty();
                if let Some(address) = settings::variable(IDENTITY).filter(|_| !is_given) {
                    let from = format_args!("the variable {IDENTITY}");
                    let address = settings::checked(AzureConfigKey::MsiEndpoint.as_ref(), &address, from)?;
                    builder = builder.with_msi_endpoint(address);
                }
                let builder = settings.into_iter().fold(builder, |it, (key, value)| it.with_config(key, value));
                let builder = builder.with_url(url.as_str()).with_retry(retry);
                let builder = builder.with_allow_http(true).with_http_connector(client.clone());
                Arc::new(builder.build().map_err(|error| refused(&error))?)
            }
        };
        Ok(Self::Store { store, path, name: shown.to_string_lossy().into_owned(), sums })
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
            Self::Store { store, path, name, sums } => Self::Store {
                store: store.clone(),
                path: ObjectPath::from(format!("{path}{suffix}")),
                name: format!("{name}{suffix}"),
                sums: sums.clone(),
            },
        }
    }

    pub fn shown(&self) -> String {
        match self {
            Self::Http { url, .. } => name::shown(url.as_str()),
            Self::Store { name, .. } => name.clone(),
        }
    }

    /// Requests a range, or all, of the file that `known` describes.
    pub async fn get(&self, range: Option<Range<u64>>, known: &RemotePin) -> Result<Answer, Fault> {
        let asking = async {
            match self {
                Self::Http { client, url } => client.get(url, range.clone(), known).await,
                Self::Store { store, path, .. } => store_get(&**store, path, range.clone(), known).await,
            }
        };
        let answer = within(2 * CONNECT, asking).await?;
        if !known.agrees(&answer.facts) {
            return Err(Fault::Changed(answer.facts.describe()));
        }
        Ok(answer)
    }

    /// Reads a small file of up to `most` bytes. `None` if it is larger.
    pub async fn small(&self, most: usize) -> Result<Option<Vec<u8>>, Fault> {
        let bytes = self.get(None, &RemotePin::default()).await?.body.take(most + 1).await?;
        Ok((bytes.len() <= most).then_some(bytes))
    }

    /// True if a denied file beside this one may be missing: a store denies missing files to those who may not list it, and
    /// a signature is of one file.
    pub fn may_hide_missing_objects(&self) -> bool {
        match self {
            Self::Http { url, .. } => url.query().is_some(),
            Self::Store { .. } => true,
        }
    }
}

impl Sums {
    /// Returns the checksums that the store has of the whole file, with the store's names of their functions.
    pub async fn request(&self, path: &ObjectPath, known: &RemotePin) -> Result<Vec<(String, Vec<u8>)>, Fault> {
        let Self { client, signer, unsigned } = self;
        let (name, value) = (HeaderName::from_static(SUM_MODE), HeaderValue::from_static("ENABLED"));
        let options = SignedUrlOptions::new().with_signed_header(name.clone(), value.clone());
        let asking = async {
            let url = signer.signed_url_opts(Method::HEAD, path, VALID, &options).await;
            let mut url = url.map_err(|error| Fault::transient(root_cause(&error)))?;
            if *unsigned {
                url.set_query(None);
            }
            client.send(client.client.head(url).header(name, value)).await
        };
        let (_, response) = within(2 * CONNECT, asking).await?;
        let (status, headers) = (response.status(), response.headers());
        if !status.is_success() {
            return Err(refusal(status, headers, known));
        }
        let found = RemotePin { bytes: content_length(headers), etag: tag(headers), ..RemotePin::default() };
        Ok(if known.agrees(&found) { stored_sums(headers) } else { Vec::new() })
    }
}

/// Waits for an answer, but not longer than `limit`.
pub(super) async fn within<T>(limit: Duration, asking: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let answer = tokio::time::timeout(limit, asking).await;
    answer.unwrap_or_else(|_| Err(Fault::transient("the server does not answer")))
}

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

async fn store_get(
    store: &dyn ObjectStore,
    path: &ObjectPath,
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
        etag: meta.e_tag.clone().and_then(store_tag),
        modified: (meta.last_modified.timestamp() > 0).then(|| meta.last_modified.to_rfc2822()),
        ..RemotePin::default()
    };
    let body = result.into_stream().map(|piece| piece.map_err(|error| Fault::transient(root_cause(&error)))).boxed();
    Ok(Answer { is_range: range.is_some(), facts, url: None, body: AnswerBody::new(body) })
}

/// Waits for a request of `object_store`. A fault has the delay that the server asked for.
pub(super) async fn store_answer<T>(request: impl Future<Output = object_store::Result<T>>) -> Result<T, Fault> {
    let asking = async { request.await.map_err(|error| store_fault(error, RETRY_AFTER.with(Cell::get))) };
    RETRY_AFTER.scope(Cell::new(None), asking).await
}

fn store_fault(error: object_store::Error, pause: Option<Duration>) -> Fault {
    let denied = |answer: &str| Fault::Permanent(RemoteProblem::Denied { answer: answer.into() });
    match error {
        object_store::Error::NotFound { .. } => {
            Fault::Permanent(RemoteProblem::NotFound { answer: "404 Not Found".into() })
        }
        object_store::Error::PermissionDenied { .. } => denied("403 Forbidden"),
        object_store::Error::Unauthenticated { .. } => denied("401 Unauthorized"),
        object_store::Error::Precondition { .. } => Fault::Changed("a file with another ETag".into()),
        error => match classify(&error) {
            Fault::Transient { what, .. } => Fault::Transient { what, pause },
            fault => fault,
        },
    }
}

/// A client that follows redirects without sending credentials to other hosts, also for `object_store`, and notes the delay
/// that a server asks for.
#[derive(Debug, Clone)]
pub(super) struct HttpSender {
    client: reqwest::Client,
    /// Headers for requests to one origin each.
    headers: Arc<Vec<(Origin, HeaderName, HeaderValue)>>,
}

/// The headers of the options.
fn private_headers(network: &NetworkOptions) -> Result<Vec<(Origin, HeaderName, HeaderValue)>, Error> {
    let parse = |(server, name, Secret(value)): &(String, String, Secret)| {
        let refused = |what: &str| {
            let hint = "use a URL of the server, as https://host, a name as Authorization, and a value of one line";
            Error::usage(format!("cannot send the header `{name}`: {what}"), hint)
        };
        let origin = Url::parse(server).ok().map(|url| url.origin()).filter(Origin::is_tuple);
        let origin = origin.ok_or_else(|| refused("its server is not the URL of a server"))?;
        let name: HeaderName = name.parse().map_err(|_| refused("its name is invalid"))?;
        let mut value: HeaderValue = value.parse().map_err(|_| refused("its value is invalid"))?;
        value.set_sensitive(true);
        Ok((origin, name, value))
    };
    network.headers.iter().map(parse).collect()
}

impl HttpConnector for HttpSender {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for HttpSender {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { Ok(self.follow(request).await?.1) })
    }
}

impl HttpSender {
    async fn get(&self, url: &Url, range: Option<Range<u64>>, known: &RemotePin) -> Result<Answer, Fault> {
        // A compressed transfer cannot be requested in ranges.
        let mut request = self.client.get(url.clone()).header(header::ACCEPT_ENCODING, "identity");
        if let Some(range) = &range {
            request = request.header(header::RANGE, format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
        }
        if let Some(etag) = known.strong() {
            request = request.header(header::IF_MATCH, etag.as_str());
        }
        let (url, response) = self.send(request).await?;
        let (status, headers) = (response.status(), response.headers());
        let modified = fact(headers, header::LAST_MODIFIED.as_str());
        let mut facts = RemotePin { etag: tag(headers), modified, ..RemotePin::default() };
        let is_range = status == StatusCode::PARTIAL_CONTENT && range.is_some();
        match status {
            StatusCode::OK => facts.bytes = content_length(headers),
            StatusCode::PARTIAL_CONTENT if is_range => {
                let (found, bytes) = content_range(headers)
                    .ok_or_else(|| Fault::Protocol("the server sends a range and does not say which".into()))?;
                facts.bytes = bytes;
                let asked = range.unwrap_or_default();
                let whole = bytes.or(known.bytes);
                let end = whole.map_or(asked.end, |bytes| bytes.min(asked.end));
                // If the length is unknown the file may end before the range.
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
        let body = response.into_body().bytes_stream();
        let body = body.map(|piece| piece.map_err(|error| Fault::transient(root_cause(&error))));
        Ok(Answer { is_range, facts, url: Some(url), body: AnswerBody::new(body.boxed()) })
    }

    /// Sends a request without a body. Returns the address of the answer, and the answer.
    async fn send(&self, request: RequestBuilder) -> Result<(Url, HttpResponse), Fault> {
        let request = request.build().map_err(|error| classify(&error.without_url()))?;
        let request = empty_request(request.method().clone(), request.url(), request.headers().clone());
        let answer = async { self.follow(request?).await };
        answer.await.map_err(|error| classify(&error))
    }

    async fn follow(&self, mut request: HttpRequest) -> Result<(Url, HttpResponse), HttpError> {
        let mut count = 0;
        loop {
            let (method, mut headers) = (request.method().clone(), request.headers().clone());
            let from = Url::parse(&request.uri().to_string()).map_err(unknown)?;
            for (_, name, value) in self.headers.iter().filter(|(origin, ..)| *origin == from.origin()) {
                request.headers_mut().insert(name, value.clone());
            }
            let response = self.client.call(request).await?;
            // Only requests of `store_answer` have this place.
            let _ = RETRY_AFTER.try_with(|it| it.set(retry_after(response.headers())));
            let to = redirect::target(&method, &from, response.status(), response.headers(), count);
            let Some(to) = to.map_err(unknown)? else { return Ok((from, response)) };
            redirect::keep_headers(&mut headers, &from, &to);
            request = empty_request(method, &to, headers)?;
            count += 1;
        }
    }
}

fn empty_request(method: Method, url: &Url, headers: HeaderMap) -> Result<HttpRequest, HttpError> {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    (*request.method_mut(), *request.headers_mut()) = (method, headers);
    *request.uri_mut() = url.as_str().parse().map_err(unknown)?;
    Ok(request)
}

fn unknown(error: impl std::error::Error + Send + Sync + 'static) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    fact(headers, header::CONTENT_LENGTH.as_str())?.parse().ok()
}
