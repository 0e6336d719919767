//! A web server with files in memory that speaks S3's interface. It keeps to HTTP or misbehaves as a test wants.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// With the query.
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    fn read(stream: &TcpStream) -> Result<Self> {
        let mut from = BufReader::new(stream);
        let mut line = String::new();
        from.read_line(&mut line)?;
        let mut words = line.split(' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = BTreeMap::new();
        loop {
            line.clear();
            from.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let mut body = vec![0; headers.get("content-length").and_then(|len| len.parse().ok()).unwrap_or(0)];
        from.read_exact(&mut body)?;
        Ok(Self { method, path, headers, body })
    }

    /// The path without its slash and its query.
    pub fn name(&self) -> &str {
        self.path.trim_start_matches('/').split('?').next().unwrap_or_default()
    }

    /// First and last byte of the range, if there is one.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// The range that is asked for, or all of it.
    Serve,
    /// Everything, whatever is asked for.
    Whole,
    /// Everything, and no length.
    WithoutLength,
    Status(u16, &'static str),
    /// So many bytes of what is asked for, and then the connection ends.
    Cut(usize),
    /// So many bytes, and then nothing until the server ends.
    Stall(usize),
    /// Another range than the one that is asked for.
    WrongRange,
    /// The range, with another length of the whole.
    OtherLength,
    /// The range, without the length of the whole.
    UnknownLength,
    /// Bytes without an end, for a range.
    Endless,
    /// The range, so many bytes a second.
    Slow(usize),
    /// One byte every 50 ms.
    Trickle,
    Redirect(String),
    /// Changed bytes under the same tag.
    Other,
    /// The bytes and the tag of another file.
    Replaced,
}

type Acts = Box<dyn Fn(&Request, usize) -> Act + Send + Sync>;

#[derive(Default)]
struct State {
    /// The tag of the file under every name that no object has, and its bytes.
    file: Mutex<Option<(String, Vec<u8>)>>,
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Parts of uploads that are not complete.
    parts: Mutex<BTreeMap<String, BTreeMap<usize, Vec<u8>>>>,
    /// Chooses the action for each request by its number among those for the file.
    act: Mutex<Option<Acts>>,
    beside: Mutex<Option<Act>>,
    sums: Mutex<String>,
    log: Mutex<Vec<Request>>,
    requests: Mutex<Vec<Request>>,
    served: AtomicU64,
    connections: AtomicUsize,
    most: AtomicUsize,
    is_down: AtomicBool,
}

/// A server on loopback with a thread for each connection. It ends when it is dropped.
pub struct Store {
    pub address: String,
    state: Arc<State>,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.state.is_down.store(true, Ordering::Relaxed);
        // The listener sees it at the next connection.
        let _ = TcpStream::connect(&self.address);
    }
}

impl Store {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                if state.is_down.load(Ordering::Relaxed) {
                    return;
                }
                // A client that disconnects is no failure of the server.
                std::thread::spawn(move || {
                    state.most.fetch_max(state.connections.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    let answered = Request::read(&stream).and_then(|request| state.answer(&request, &mut stream));
                    state.connections.fetch_sub(1, Ordering::Relaxed);
                    answered
                });
            }
        });
        Self { address, state }
    }

    /// Serves `file` under every name that no object has.
    pub fn serving(file: impl Into<Vec<u8>>) -> Self {
        let store = Self::new();
        store.replace(file, "\"one\"");
        store
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

    pub fn with(self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.edit(|objects| drop(objects.insert(name.into(), bytes.into())));
        self
    }

    /// Sets the action for requests for the file, counted from 0, or for the objects if there is no file.
    pub fn acts(self, act: impl Fn(&Request, usize) -> Act + Send + Sync + 'static) -> Self {
        self.now(act);
        self
    }

    /// Changes the action; the count continues.
    pub fn now(&self, act: impl Fn(&Request, usize) -> Act + Send + Sync + 'static) {
        *self.state.act.lock() = Some(Box::new(act));
    }

    /// Sets the action for requests for the file's checksum: a status, or a stall.
    pub fn beside(self, act: Act) -> Self {
        *self.state.beside.lock() = Some(act);
        self
    }

    /// Redirects `latest` to `name`; no other newer file can be read.
    pub fn points_to(&self, name: &str) {
        let to = self.url(name);
        self.now(move |request, _| match request.path.as_str() {
            "/latest" => Act::Redirect(to.clone()),
            path if path.starts_with("/newer") => Act::Status(500, ""),
            _ => Act::Serve,
        });
    }

    pub fn replace(&self, bytes: impl Into<Vec<u8>>, etag: &str) {
        *self.state.file.lock() = Some((etag.into(), bytes.into()));
    }

    /// Sets the checksum headers of the file, as S3 sends them.
    pub fn says(&self, sums: &[(&str, String)]) {
        *self.state.sums.lock() =
            sums.iter().map(|(name, value)| format!("x-amz-checksum-{name}: {value}\r\n")).collect();
    }

    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        self.state.objects.lock().clone()
    }

    pub fn edit(&self, edit: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
        edit(&mut self.state.objects.lock());
    }

    /// Requests for the file until now.
    pub fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().clone()
    }

    /// Requests for no more than headers until now.
    pub fn heads(&self) -> Vec<Request> {
        self.state.log.lock().iter().filter(|request| request.method == "HEAD").cloned().collect()
    }

    /// Names in the requests with this method since the last call.
    pub fn take_names(&self, method: &str) -> Vec<String> {
        let log = std::mem::take(&mut *self.state.log.lock());
        log.iter().filter(|request| request.method == method).map(|request| request.name().to_owned()).collect()
    }

    /// True if a file of a bundle was asked for since the last call.
    pub fn was_asked_for_files(&self) -> bool {
        self.take_names("GET").iter().any(|name| name.starts_with("files/"))
    }

    /// Bytes of files that were sent since the last call.
    pub fn served(&self) -> u64 {
        self.state.served.swap(0, Ordering::Relaxed)
    }

    pub fn most_connections(&self) -> usize {
        self.state.most.load(Ordering::Relaxed)
    }
}

/// Adds a request to a list. Returns its number.
fn note(list: &Mutex<Vec<Request>>, request: &Request) -> usize {
    let mut list = list.lock();
    list.push(request.clone());
    list.len() - 1
}

impl State {
    fn answer(&self, request: &Request, stream: &mut TcpStream) -> Result<()> {
        let name = request.name().to_owned();
        let number = note(&self.log, request);
        let object = self.objects.lock().get(&name).cloned();
        let object = object.map(|bytes| (format!("\"{:x}\"", twox_hash::XxHash3_64::oneshot(&bytes)), bytes));
        let (is_object, is_sum) = (object.is_some(), name.ends_with(".sha256sum") || name.ends_with(".sha256"));
        if !is_object && (is_sum || name.is_empty()) {
            let beside = self.beside.lock().clone().unwrap_or(Act::Status(404, ""));
            if let Act::Status(code, headers) = beside {
                return respond(stream, &format!("{code} Said So"), headers, b"");
            }
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")?;
            return self.stall();
        }
        let is_head = request.method == "HEAD";
        let mut act = Act::Serve;
        if !(is_head || is_object && self.file.lock().is_some()) {
            let nth = note(&self.requests, request);
            act = self.act.lock().as_ref().map_or(Act::Serve, |act| act(request, nth));
        }
        // The action may have replaced the file.
        let file = self.file.lock().clone();
        let query = |field: &str| {
            let mut pairs = request.path.split(['?', '&']).skip(1).filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == field).map(|(_, value)| value.to_owned())
        };
        let (mut tag, mut body) = (String::from("one"), String::new());
        match (request.method.as_str(), query("uploadId")) {
            ("GET" | "HEAD", _) => match object.or(file) {
                Some((etag, bytes)) => return self.send(request, stream, &act, etag, bytes),
                None => return respond(stream, "404 Not Found", "", b""),
            },
            _ if let Act::Status(code, headers) = act => {
                return respond(stream, &format!("{code} Said So"), headers, b"");
            }
            ("PUT", None) => drop(self.objects.lock().insert(name, request.body.clone())),
            ("PUT", Some(upload)) => {
                tag = query("partNumber").expect("a number");
                let part = tag.parse().expect("a number");
                self.parts.lock().entry(upload).or_default().insert(part, request.body.clone());
            }
            ("POST", None) => {
                let fields = format!("<Bucket>b</Bucket><Key>k</Key><UploadId>{number}</UploadId>");
                body = format!("<InitiateMultipartUploadResult>{fields}</InitiateMultipartUploadResult>");
            }
            ("POST", Some(upload)) => {
                let parts = self.parts.lock().remove(&upload).unwrap_or_default();
                self.objects.lock().insert(name, parts.into_values().flatten().collect());
                body = "<CompleteMultipartUploadResult><ETag>\"all\"</ETag></CompleteMultipartUploadResult>".into();
            }
            (_, upload) => drop(upload.map(|upload| self.parts.lock().remove(&upload))),
        }
        respond(stream, "200 OK", &format!("ETag: \"{tag}\"\r\n"), body.as_bytes())
    }

    fn send(
        &self,
        request: &Request,
        stream: &mut TcpStream,
        act: &Act,
        mut etag: String,
        mut file: Vec<u8>,
    ) -> Result<()> {
        if let (Act::Other | Act::Replaced, Some(byte)) = (act, file.last_mut()) {
            *byte ^= 1;
        }
        if *act == Act::Replaced {
            etag = "\"replaced\"".into();
        }
        let whole = file.len();
        let tag = format!("ETag: {etag}\r\nLast-Modified: Sun, 22 Nov 2026 10:00:00 GMT\r\n");
        if request.method == "HEAD" {
            let asks = request.headers.get("x-amz-checksum-mode").is_some_and(|mode| mode == "ENABLED");
            let sums = if asks { self.sums.lock().clone() } else { String::new() };
            let lines = format!("Content-Length: {whole}\r\n{tag}{sums}Connection: close");
            return write!(stream, "HTTP/1.1 200 OK\r\n{lines}\r\n\r\n");
        }
        match act {
            Act::Status(code, headers) => {
                return respond(stream, &format!("{code} Said So"), &format!("{headers}{tag}"), b"");
            }
            Act::Redirect(to) => return respond(stream, "307 Temporary Redirect", &format!("Location: {to}\r\n"), b""),
            Act::Whole | Act::WithoutLength => {
                let len = if *act == Act::Whole { format!("Content-Length: {whole}\r\n") } else { String::new() };
                write!(stream, "HTTP/1.1 200 OK\r\n{len}{tag}Connection: close\r\n\r\n")?;
                return self.count(stream, &file);
            }
            _ => {}
        }
        if request.headers.get("if-match").is_some_and(|wanted| *wanted != etag) {
            return respond(stream, "412 Precondition Failed", &tag, b"");
        }
        let range = request.range();
        let (first, last) = range.unwrap_or((0, usize::MAX));
        let last = last.min(whole.saturating_sub(1));
        if first >= whole && range.is_some() {
            let headers = format!("Content-Range: bytes */{whole}\r\n{tag}");
            return respond(stream, "416 Range Not Satisfiable", &headers, b"");
        }
        let body = file.get(first..=last).unwrap_or_default();
        let shift = usize::from(*act == Act::WrongRange);
        let said = (whole + usize::from(*act == Act::OtherLength)).to_string();
        let said = if *act == Act::UnknownLength { "*" } else { &said };
        let len = if *act == Act::Endless { usize::MAX >> 8 } else { body.len() };
        let status = range.map_or("200 OK".into(), |_| {
            format!("206 Partial Content\r\nContent-Range: bytes {}-{}/{said}", first + shift, last + shift)
        });
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {len}\r\n{tag}Connection: close\r\n\r\n")?;
        let mut slowly = |len: usize| {
            body.chunks(len.max(1)).try_for_each(|piece| {
                std::thread::sleep(Duration::from_millis(50));
                self.count(stream, piece)
            })
        };
        match *act {
            Act::Slow(rate) => slowly(rate / 20),
            Act::Trickle => slowly(1),
            Act::Cut(some) => self.count(stream, &body[..some.min(body.len())]),
            Act::Stall(some) => {
                self.count(stream, &body[..some.min(body.len())])?;
                self.stall()
            }
            Act::Endless => {
                self.count(stream, body)?;
                loop {
                    stream.write_all(&[7; 4096])?;
                }
            }
            _ => self.count(stream, body),
        }
    }

    /// Sends bytes of a file, and counts them.
    fn count(&self, stream: &mut TcpStream, bytes: &[u8]) -> Result<()> {
        for piece in bytes.chunks(64 << 10) {
            stream.write_all(piece)?;
            self.served.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sends nothing until the server ends.
    fn stall(&self) -> Result<()> {
        while !self.is_down.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Writes an answer; `headers` are whole lines.
fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) -> Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(body)
}
