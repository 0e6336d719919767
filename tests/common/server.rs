//! A web server with one file, that keeps to HTTP or misbehaves as a test wants.

use std::collections::BTreeMap;
use std::io::{Result, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

pub use super::http::Request;
use super::http::{Http, respond, stall};

/// An action of the server.
#[derive(Debug, Clone)]
pub enum Act {
    /// The range that is asked for, or all of it.
    Serve,
    /// Everything, whatever is asked for.
    Whole,
    /// Everything, and no length.
    WithoutLength,
    /// A status and headers.
    Status(u16, &'static str),
    /// So many bytes of what is asked for, and then the connection ends.
    Cut(usize),
    /// So many bytes, and then nothing until the server goes.
    Stall(usize),
    /// Another range than the one that is asked for.
    WrongRange,
    /// The range, with another length of the whole.
    OtherLength,
    /// Bytes without an end, for a range.
    Endless,
    /// The range, so many bytes a second.
    Slow(usize),
    /// One byte every 50 ms.
    Trickle,
    /// Another place.
    Redirect(String),
}

/// Chooses the action for each request by its number.
type Acts = Box<dyn Fn(&Request, usize) -> Act + Send + Sync>;

struct State {
    file: Mutex<(Vec<u8>, String)>,
    others: Mutex<BTreeMap<String, Vec<u8>>>,
    act: Mutex<Acts>,
    beside: Mutex<Act>,
    requests: Mutex<Vec<Request>>,
    sums: Mutex<String>,
    heads: Mutex<Vec<Request>>,
    served: AtomicU64,
    connections: AtomicUsize,
    most: AtomicUsize,
}

/// A server of its own for a test.
pub struct Server {
    http: Http,
    state: Arc<State>,
}

impl Server {
    /// Serves `file` under every name, unless another file has it.
    pub fn new(file: impl Into<Vec<u8>>) -> Self {
        let state = Arc::new(State {
            file: Mutex::new((file.into(), "\"one\"".into())),
            others: Mutex::default(),
            act: Mutex::new(Box::new(|_, _| Act::Serve)),
            beside: Mutex::new(Act::Status(404, "")),
            requests: Mutex::default(),
            sums: Mutex::default(),
            heads: Mutex::default(),
            served: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        let http = Http::start(move |request, stream, down| {
            shared.most.fetch_max(shared.connections.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            let answered = shared.answer(request, stream, down);
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            answered
        });
        Self { http, state }
    }

    /// Sets the action for requests for the file, counted from 0.
    pub fn acts(self, act: impl Fn(&Request, usize) -> Act + Send + Sync + 'static) -> Self {
        self.now(act);
        self
    }

    /// Changes the action; the count continues.
    pub fn now(&self, act: impl Fn(&Request, usize) -> Act + Send + Sync + 'static) {
        *self.state.act.lock() = Box::new(act);
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

    /// The address of a store.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.http.address)
    }

    /// Another file.
    pub fn with(self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.state.others.lock().insert(name.into(), bytes.into());
        self
    }

    /// Sets the action for requests for the file's checksum: a status, or a stall.
    pub fn beside(self, act: Act) -> Self {
        *self.state.beside.lock() = act;
        self
    }

    /// Replaces the file.
    pub fn replace(&self, bytes: impl Into<Vec<u8>>, etag: &str) {
        *self.state.file.lock() = (bytes.into(), etag.into());
    }

    /// Sets the checksum headers of the file, as S3 sends them.
    pub fn says(&self, sums: &[(&str, String)]) {
        *self.state.sums.lock() =
            sums.iter().map(|(name, value)| format!("x-amz-checksum-{name}: {value}\r\n")).collect();
    }

    /// Requests for no more than headers until now.
    pub fn heads(&self) -> Vec<Request> {
        self.state.heads.lock().clone()
    }

    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.http.address)
    }

    pub fn address(&self) -> &str {
        &self.http.address
    }

    /// Requests for the file until now.
    pub fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().clone()
    }

    /// Bytes of the file that were sent since the last call.
    pub fn served(&self) -> u64 {
        self.state.served.swap(0, Ordering::Relaxed)
    }

    /// The most connections at once.
    pub fn most_connections(&self) -> usize {
        self.state.most.load(Ordering::Relaxed)
    }
}

impl State {
    fn answer(&self, request: &Request, stream: &mut TcpStream, down: &AtomicBool) -> Result<()> {
        let name = request.name();
        if let Some(bytes) = self.others.lock().get(name).cloned() {
            return respond(stream, "200 OK", "", &bytes);
        }
        if name.ends_with(".sha256sum") || name.ends_with(".sha256") || name.is_empty() {
            let beside = self.beside.lock().clone();
            if let Act::Status(code, headers) = beside {
                return respond(stream, &format!("{code} Said So"), headers, b"");
            }
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")?;
            return stall(down);
        }
        let is_head = request.method == "HEAD";
        let nth = {
            let mut requests = if is_head { self.heads.lock() } else { self.requests.lock() };
            requests.push(request.clone());
            requests.len() - 1
        };
        let act = if is_head { Act::Serve } else { (*self.act.lock())(request, nth) };
        let (file, etag) = self.file.lock().clone();
        let whole = file.len();
        if is_head {
            let asks = request.headers.get("x-amz-checksum-mode").is_some_and(|mode| mode == "ENABLED");
            let sums = if asks { self.sums.lock().clone() } else { String::new() };
            let lines = format!("Content-Length: {whole}\r\nETag: {etag}\r\n{sums}Connection: close");
            return write!(stream, "HTTP/1.1 200 OK\r\n{lines}\r\n\r\n");
        }
        let tag = format!("ETag: {etag}\r\nLast-Modified: Sun, 22 Nov 2026 10:00:00 GMT\r\n");
        let range = request.range();
        let (first, last) = range.unwrap_or((0, usize::MAX));
        let last = last.min(whole.saturating_sub(1));
        match &act {
            Act::Status(code, headers) => {
                return respond(stream, &format!("{code} Said So"), &format!("{headers}{tag}"), b"");
            }
            Act::Redirect(to) => return respond(stream, "307 Temporary Redirect", &format!("Location: {to}\r\n"), b""),
            Act::Whole | Act::WithoutLength => {
                let len = if let Act::Whole = act { format!("Content-Length: {whole}\r\n") } else { String::new() };
                write!(stream, "HTTP/1.1 200 OK\r\n{len}{tag}Connection: close\r\n\r\n")?;
                return self.send(stream, &file);
            }
            _ => {}
        }
        if request.headers.get("if-match").is_some_and(|wanted| *wanted != etag) {
            return respond(stream, "412 Precondition Failed", &tag, b"");
        }
        if first >= whole && range.is_some() {
            let headers = format!("Content-Range: bytes */{whole}\r\n{tag}");
            return respond(stream, "416 Range Not Satisfiable", &headers, b"");
        }
        let body = &file[first..=last];
        let shift = usize::from(matches!(act, Act::WrongRange));
        let said = whole + usize::from(matches!(act, Act::OtherLength));
        let len = if let Act::Endless = act { usize::MAX >> 8 } else { body.len() };
        let status = match range {
            Some(_) => {
                format!("206 Partial Content\r\nContent-Range: bytes {}-{}/{said}", first + shift, last + shift)
            }
            None => "200 OK".into(),
        };
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {len}\r\n{tag}Connection: close\r\n\r\n")?;
        let mut slowly = |len: usize| {
            body.chunks(len.max(1)).try_for_each(|piece| {
                std::thread::sleep(Duration::from_millis(50));
                self.send(stream, piece)
            })
        };
        match act {
            Act::Slow(rate) => slowly(rate / 20),
            Act::Trickle => slowly(1),
            Act::Cut(some) => self.send(stream, &body[..some.min(body.len())]),
            Act::Stall(some) => {
                self.send(stream, &body[..some.min(body.len())])?;
                stall(down)
            }
            Act::Endless => {
                self.send(stream, body)?;
                loop {
                    stream.write_all(&[7; 4096])?;
                }
            }
            _ => self.send(stream, body),
        }
    }

    fn send(&self, stream: &mut TcpStream, bytes: &[u8]) -> Result<()> {
        for piece in bytes.chunks(64 << 10) {
            stream.write_all(piece)?;
            self.served.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}
