//! A web server with one file, that keeps to HTTP or misbehaves as a test wants.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
}

impl Request {
    /// First and last byte of the range, if there is one.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }
}

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
    down: AtomicBool,
}

/// A server of its own for a test.
pub struct Server {
    address: String,
    state: Arc<State>,
}

impl Server {
    /// Serves `file` under every name, unless another file has it.
    pub fn new(file: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
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
            down: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                if state.down.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::spawn(move || {
                    let now = state.connections.fetch_add(1, Ordering::Relaxed) + 1;
                    state.most.fetch_max(now, Ordering::Relaxed);
                    // A client that goes away is no failure of the server.
                    let _ = state.answer(stream);
                    state.connections.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { address, state }
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
        format!("http://{}/{name}", self.address)
    }

    pub fn address(&self) -> &str {
        &self.address
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

impl Drop for Server {
    fn drop(&mut self) {
        self.state.down.store(true, Ordering::Relaxed);
        // The listener sees it at the next connection.
        let _ = TcpStream::connect(&self.address);
    }
}

fn read_request(stream: &TcpStream) -> std::io::Result<Request> {
    let mut lines = BufReader::new(stream.take(64 << 10));
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        lines.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.trim().to_owned()),
            None => return Ok(Request { method, path, headers }),
        };
    }
}

impl State {
    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let request = read_request(&stream)?;
        let name = request.path.trim_start_matches('/').split('?').next().unwrap_or_default().to_owned();
        if let Some(bytes) = self.others.lock().get(&name).cloned() {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", bytes.len())?;
            return stream.write_all(&bytes);
        }
        if name.ends_with(".sha256sum") || name.ends_with(".sha256") || name.is_empty() {
            let (code, headers) = match *self.beside.lock() {
                Act::Status(code, headers) => (code, headers),
                _ => (200, ""),
            };
            if code == 200 {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")?;
                return self.stall();
            }
            let end = "Content-Length: 0\r\nConnection: close\r\n\r\n";
            return write!(stream, "HTTP/1.1 {code} Said So\r\n{headers}{end}");
        }
        if request.method == "HEAD" {
            let (file, etag) = self.file.lock().clone();
            let asks = request.headers.get("x-amz-checksum-mode").is_some_and(|mode| mode == "ENABLED");
            let sums = if asks { self.sums.lock().clone() } else { String::new() };
            self.heads.lock().push(request);
            let len = file.len();
            return write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {len}\r\nETag: {etag}\r\n{sums}Connection: close\r\n\r\n"
            );
        }
        let nth = {
            let mut requests = self.requests.lock();
            requests.push(request.clone());
            requests.len() - 1
        };
        let act = (*self.act.lock())(&request, nth);
        let (file, etag) = self.file.lock().clone();
        let tag = format!("ETag: {etag}\r\nLast-Modified: Sun, 22 Nov 2026 10:00:00 GMT\r\nConnection: close\r\n");
        let (first, last) = request.range().unwrap_or((0, usize::MAX));
        let last = last.min(file.len().saturating_sub(1));
        let whole = file.len();
        match &act {
            Act::Status(code, headers) => {
                return write!(stream, "HTTP/1.1 {code} Said So\r\n{headers}Content-Length: 0\r\n{tag}\r\n");
            }
            Act::Redirect(to) => {
                return write!(
                    stream,
                    "HTTP/1.1 307 Temporary Redirect\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
            }
            Act::Whole => {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {whole}\r\n{tag}\r\n")?;
                return self.send(&mut stream, &file);
            }
            Act::WithoutLength => {
                write!(stream, "HTTP/1.1 200 OK\r\n{tag}\r\n")?;
                return self.send(&mut stream, &file);
            }
            _ => {}
        }
        if request.headers.get("if-match").is_some_and(|wanted| *wanted != etag) {
            return write!(stream, "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n{tag}\r\n");
        }
        if first >= whole && request.range().is_some() {
            return write!(
                stream,
                "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */{whole}\r\nContent-Length: 0\r\n{tag}\r\n"
            );
        }
        let body = &file[first..=last];
        let (shown, said, len) = match act {
            Act::WrongRange => (first + 1, whole, body.len()),
            Act::OtherLength => (first, whole + 1, body.len()),
            Act::Endless => (first, whole, usize::MAX >> 8),
            _ => (first, whole, body.len()),
        };
        match request.range() {
            Some(_) => write!(
                stream,
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {shown}-{}/{said}\r\nContent-Length: {len}\r\n{tag}\r\n",
                last + shown - first
            )?,
            None => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n{tag}\r\n")?,
        }
        match act {
            Act::Cut(some) => self.send(&mut stream, &body[..some.min(body.len())]),
            Act::Stall(some) => {
                self.send(&mut stream, &body[..some.min(body.len())])?;
                self.stall()
            }
            Act::Endless => {
                self.send(&mut stream, body)?;
                loop {
                    stream.write_all(&[7; 4096])?;
                }
            }
            Act::Slow(rate) => body.chunks((rate / 20).max(1)).try_for_each(|piece| {
                std::thread::sleep(Duration::from_millis(50));
                self.send(&mut stream, piece)
            }),
            Act::Trickle => body.iter().try_for_each(|byte| {
                std::thread::sleep(Duration::from_millis(50));
                self.send(&mut stream, &[*byte])
            }),
            _ => self.send(&mut stream, body),
        }
    }

    fn stall(&self) -> std::io::Result<()> {
        while !self.down.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn send(&self, stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
        for piece in bytes.chunks(64 << 10) {
            stream.write_all(piece)?;
            self.served.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}
