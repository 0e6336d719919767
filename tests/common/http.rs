//! A web server on loopback with a thread for each connection. A test decides how each request is answered.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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

/// A server that ends when it is dropped.
pub struct Http {
    pub address: String,
    down: Arc<AtomicBool>,
}

impl Http {
    pub fn start(answer: impl Fn(&Request, &mut TcpStream, &AtomicBool) -> Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let down = Arc::new(AtomicBool::new(false));
        let shared = Arc::new((answer, Arc::clone(&down)));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                if shared.1.load(Ordering::Relaxed) {
                    return;
                }
                // A client that goes away is no failure of the server.
                std::thread::spawn(move || shared.0(&Request::read(&stream)?, &mut stream, &shared.1));
            }
        });
        Self { address, down }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.down.store(true, Ordering::Relaxed);
        // The listener sees it at the next connection.
        let _ = TcpStream::connect(&self.address);
    }
}

/// Writes an answer; `headers` are whole lines.
pub fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) -> Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(body)
}

/// Sends nothing until the server ends.
pub fn stall(down: &AtomicBool) -> Result<()> {
    while !down.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
