//! An object store with S3's interface in memory, which is also a web server with many files.

use std::collections::BTreeMap;
use std::io::{Result, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::http::{Http, Request, respond};

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The correct answer.
    Right,
    /// A status.
    Status(u16),
    /// Other bytes than those that are there, under the same tag.
    Other,
    /// The bytes and the tag of another file.
    Replaced,
    /// The correct answer without the length of the whole.
    Endless,
}

type Acts = Box<dyn Fn(&str, &str) -> Answer + Send + Sync>;

struct State {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Parts of uploads that are not complete.
    parts: Mutex<BTreeMap<String, BTreeMap<usize, Vec<u8>>>>,
    act: Mutex<Acts>,
    /// Method and name of each request.
    requests: Mutex<Vec<(String, String)>>,
    served: AtomicU64,
    /// Number of uploads in parts, which gives each a name of its own.
    uploads: AtomicU64,
}

/// A store of its own for a test.
pub struct Store {
    http: Http,
    state: Arc<State>,
}

impl Store {
    pub fn new() -> Self {
        let state = Arc::new(State {
            objects: Mutex::default(),
            parts: Mutex::default(),
            act: Mutex::new(Box::new(|_, _| Answer::Right)),
            requests: Mutex::default(),
            served: AtomicU64::new(0),
            uploads: AtomicU64::new(0),
        });
        let shared = Arc::clone(&state);
        let http = Http::start(move |request, stream, _| shared.answer(request, stream));
        Self { http, state }
    }

    /// The files below a directory, under their names from there.
    pub fn of(dir: &Path) -> Self {
        let store = Self::new();
        store.take(dir, "");
        store
    }

    fn take(&self, dir: &Path, prefix: &str) {
        for entry in dir.read_dir().expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = format!("{prefix}{}", path.file_name().expect("a name").to_string_lossy());
            match path.is_dir() {
                true => self.take(&path, &format!("{name}/")),
                false => drop(self.state.objects.lock().insert(name, std::fs::read(&path).expect("a file"))),
            }
        }
    }

    /// Sets the answers to later requests, by method and name.
    pub fn now(&self, act: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) {
        *self.state.act.lock() = Box::new(act);
    }

    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.http.address)
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.http.address)
    }

    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        self.state.objects.lock().clone()
    }

    pub fn edit(&self, edit: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
        edit(&mut self.state.objects.lock());
    }

    /// Method and name of each request since the last call.
    pub fn requests(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.state.requests.lock())
    }

    /// Bytes of objects that were sent since the last call.
    pub fn served(&self) -> u64 {
        self.state.served.swap(0, Ordering::Relaxed)
    }
}

impl State {
    fn answer(&self, request: &Request, stream: &mut TcpStream) -> Result<()> {
        let name = request.name().to_owned();
        self.requests.lock().push((request.method.clone(), name.clone()));
        let act = (*self.act.lock())(&request.method, &name);
        if let Answer::Status(status) = act {
            return respond(stream, &format!("{status} Said So"), "", b"");
        }
        let query = |field: &str| {
            let mut pairs = request.path.split(['?', '&']).skip(1).filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == field).map(|(_, value)| value.to_owned())
        };
        match (request.method.as_str(), query("uploadId")) {
            ("GET" | "HEAD", _) => self.send(request, stream, &act),
            ("PUT", None) => {
                self.objects.lock().insert(name, request.body.clone());
                respond(stream, "200 OK", "ETag: \"one\"\r\n", b"")
            }
            ("PUT", Some(upload)) => {
                let part = query("partNumber").and_then(|part| part.parse().ok()).unwrap_or(0);
                self.parts.lock().entry(upload).or_default().insert(part, request.body.clone());
                respond(stream, "200 OK", &format!("ETag: \"{part}\"\r\n"), b"")
            }
            ("POST", None) => {
                let id = self.uploads.fetch_add(1, Ordering::Relaxed);
                let fields = format!("<Bucket>b</Bucket><Key>k</Key><UploadId>{id}</UploadId>");
                let body = format!("<InitiateMultipartUploadResult>{fields}</InitiateMultipartUploadResult>");
                respond(stream, "200 OK", "", body.as_bytes())
            }
            ("POST", Some(upload)) => {
                let parts = self.parts.lock().remove(&upload).unwrap_or_default();
                self.objects.lock().insert(name, parts.into_values().flatten().collect());
                let body = "<CompleteMultipartUploadResult><ETag>\"all\"</ETag></CompleteMultipartUploadResult>";
                respond(stream, "200 OK", "", body.as_bytes())
            }
            (_, upload) => {
                upload.map(|upload| self.parts.lock().remove(&upload));
                respond(stream, "200 OK", "", b"")
            }
        }
    }

    fn send(&self, request: &Request, stream: &mut TcpStream, act: &Answer) -> Result<()> {
        let Some(mut bytes) = self.objects.lock().get(request.name()).cloned() else {
            return respond(stream, "404 Not Found", "", b"");
        };
        let mut tag = format!("\"{:x}\"", twox_hash::XxHash3_64::oneshot(&bytes));
        if let (Answer::Other | Answer::Replaced, Some(byte)) = (act, bytes.last_mut()) {
            *byte ^= 1;
        }
        if *act == Answer::Replaced {
            tag = "\"replaced\"".into();
        }
        let tags = format!("ETag: {tag}\r\nLast-Modified: Sun, 22 Nov 2026 10:00:00 GMT\r\n");
        if request.headers.get("if-match").is_some_and(|wanted| *wanted != tag) {
            return respond(stream, "412 Precondition Failed", &tags, b"");
        }
        let whole = bytes.len();
        let (status, body) = match request.range().map(|(first, last)| (first, last.min(whole.saturating_sub(1)))) {
            Some((first, last)) if first <= last => {
                let said = if *act == Answer::Endless { "*".to_owned() } else { whole.to_string() };
                (format!("206 Partial Content\r\nContent-Range: bytes {first}-{last}/{said}"), &bytes[first..=last])
            }
            Some(_) => {
                let headers = format!("Content-Range: bytes */{whole}\r\n{tags}");
                return respond(stream, "416 Range Not Satisfiable", &headers, b"");
            }
            None => ("200 OK".to_owned(), &bytes[..]),
        };
        if request.method == "HEAD" {
            let end = format!("Content-Length: {}\r\n{tags}Connection: close\r\n\r\n", body.len());
            return write!(stream, "HTTP/1.1 {status}\r\n{end}");
        }
        self.served.fetch_add(body.len() as u64, Ordering::Relaxed);
        respond(stream, &status, &tags, body)
    }
}
