//! An object store with S3's interface in memory, which is also a web server with many files.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

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
    down: AtomicBool,
}

/// A store of its own for a test.
pub struct Store {
    address: String,
    state: Arc<State>,
}

impl Store {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = Arc::new(State {
            objects: Mutex::default(),
            parts: Mutex::default(),
            act: Mutex::new(Box::new(|_, _| Answer::Right)),
            requests: Mutex::default(),
            served: AtomicU64::new(0),
            down: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                if state.down.load(Ordering::Relaxed) {
                    return;
                }
                // A client that goes away is no failure of the server.
                std::thread::spawn(move || state.answer(stream));
            }
        });
        Self { address, state }
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

    /// Method and name of each request since the last call.
    pub fn requests(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.state.requests.lock())
    }

    /// Bytes of objects that were sent since the last call.
    pub fn served(&self) -> u64 {
        self.state.served.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.state.down.store(true, Ordering::Relaxed);
        // The listener sees it at the next connection.
        let _ = TcpStream::connect(&self.address);
    }
}

struct Request {
    method: String,
    name: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

fn read_request(stream: &TcpStream) -> std::io::Result<Request> {
    let mut from = BufReader::new(stream);
    let mut line = String::new();
    from.read_line(&mut line)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        from.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    let (name, query) = target.split_once('?').unwrap_or((&target, ""));
    let pair = |pair: &str| match pair.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (pair.to_owned(), String::new()),
    };
    let query = query.split('&').filter(|it| !it.is_empty()).map(pair).collect();
    Ok(Request { method, name: name.trim_start_matches('/').to_owned(), query, headers, body })
}

impl State {
    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let request = read_request(&stream)?;
        self.requests.lock().push((request.method.clone(), request.name.clone()));
        let act = (*self.act.lock())(&request.method, &request.name);
        if let Answer::Status(status) = act {
            return write!(stream, "HTTP/1.1 {status} Said So\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
        let done = |stream: &mut TcpStream, headers: &str, body: &str| {
            let len = body.len();
            write!(stream, "HTTP/1.1 200 OK\r\n{headers}Content-Length: {len}\r\nConnection: close\r\n\r\n{body}")
        };
        let Request { method, name, query, headers, body } = request;
        let upload = query.get("uploadId").cloned();
        match (method.as_str(), upload) {
            ("GET" | "HEAD", _) => self.send(&mut stream, &method, &name, &headers, &act),
            ("PUT", None) => {
                self.objects.lock().insert(name, body);
                done(&mut stream, "ETag: \"one\"\r\n", "")
            }
            ("PUT", Some(upload)) => {
                let part = query.get("partNumber").and_then(|part| part.parse().ok()).unwrap_or(0);
                self.parts.lock().entry(upload).or_default().insert(part, body);
                done(&mut stream, &format!("ETag: \"{part}\"\r\n"), "")
            }
            ("POST", None) => {
                let id = self.requests.lock().len();
                let body = format!(
                    "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>{id}</UploadId>\
                     </InitiateMultipartUploadResult>"
                );
                done(&mut stream, "", &body)
            }
            ("POST", Some(upload)) => {
                let parts = self.parts.lock().remove(&upload).unwrap_or_default();
                self.objects.lock().insert(name, parts.into_values().flatten().collect());
                let body = "<CompleteMultipartUploadResult><ETag>\"all\"</ETag></CompleteMultipartUploadResult>";
                done(&mut stream, "", body)
            }
            (_, Some(upload)) => {
                self.parts.lock().remove(&upload);
                done(&mut stream, "", "")
            }
            _ => done(&mut stream, "", ""),
        }
    }

    fn send(
        &self,
        stream: &mut TcpStream,
        method: &str,
        name: &str,
        headers: &BTreeMap<String, String>,
        act: &Answer,
    ) -> std::io::Result<()> {
        let Some(mut bytes) = self.objects.lock().get(name).cloned() else {
            return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        };
        let mut tag = format!("\"{:x}\"", twox_hash::XxHash3_64::oneshot(&bytes));
        if let (Answer::Other | Answer::Replaced, Some(byte)) = (act, bytes.last_mut()) {
            *byte ^= 1;
        }
        if *act == Answer::Replaced {
            tag = "\"replaced\"".into();
        }
        if headers.get("if-match").is_some_and(|wanted| *wanted != tag) {
            let end = "Content-Length: 0\r\nConnection: close";
            return write!(stream, "HTTP/1.1 412 Precondition Failed\r\nETag: {tag}\r\n{end}\r\n\r\n");
        }
        let range = headers.get("range").and_then(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?.min(bytes.len().saturating_sub(1))))
        });
        let whole = bytes.len();
        let said = if *act == Answer::Endless { "*".to_owned() } else { whole.to_string() };
        let tags = format!("ETag: {tag}\r\nLast-Modified: Sun, 22 Nov 2026 10:00:00 GMT\r\nConnection: close\r\n");
        let body = match range {
            Some((first, last)) if first <= last => {
                let len = last - first + 1;
                write!(
                    stream,
                    "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{said}\r\n\
                     Content-Length: {len}\r\n{tags}\r\n"
                )?;
                &bytes[first..=last]
            }
            Some(_) => {
                let end = format!("Content-Range: bytes */{whole}\r\nContent-Length: 0\r\n{tags}");
                return write!(stream, "HTTP/1.1 416 Range Not Satisfiable\r\n{end}\r\n");
            }
            None => {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {whole}\r\n{tags}\r\n")?;
                &bytes[..]
            }
        };
        if method == "HEAD" {
            return Ok(());
        }
        self.served.fetch_add(body.len() as u64, Ordering::Relaxed);
        stream.write_all(body)
    }
}
