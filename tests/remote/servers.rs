//! Real servers on loopback, each of one test: nginx, and moto, which speaks S3. They end with the test, also when it fails.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::crash::{plain, succeeds, wait_for};
use crate::common::run::{Place, hermetic, import};

/// Time in which a server must start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that Debian may install in /usr/sbin.
pub fn debian(program: &str) -> Command {
    let mut command = hermetic("env");
    let path = std::env::var("PATH").unwrap_or_default();
    command.arg(format!("PATH={path}:/usr/sbin")).arg(program);
    command
}

/// Python with the packages that a script has installed beside the tests' folder.
pub fn python(packages: &str) -> Command {
    let mut python = hermetic(std::env::var_os("BEDLOAD_PYTHON").unwrap_or_else(|| "python3".into()));
    python.env("PYTHONPATH", Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(packages));
    python
}

/// A process that does not outlive this one, even if that is killed; it is started and waited for by one thread.
pub struct Running(Child);

impl Running {
    pub fn start(mut command: Command) -> Self {
        // SAFETY: a plain system call between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        Self(command.stdin(Stdio::null()).spawn().expect("it starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that is free now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Starts what `command` gives for a port, until it answers: another program may have taken the port meanwhile.
fn answering(command: impl Fn(u16) -> Command) -> (Running, u16) {
    let started = Instant::now();
    loop {
        let port = free_port();
        let mut running = Running::start(command(port));
        while running.0.try_wait().expect("a child").is_none() {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return (running, port);
            }
            assert!(started.elapsed() < PATIENCE, "a server does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(started.elapsed() < PATIENCE, "a server does not start");
    }
}

/// The whole answer to a request, which is its first lines.
fn ask(port: u16, request: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it answers");
    let head = format!("{request}\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n");
    write!(stream, "{head}Content-Length: {}\r\n\r\n", body.len()).expect("it reads");
    stream.write_all(body).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// An nginx process with its folder.
pub struct Nginx {
    /// Its folder, with room for a database.
    pub place: Place,
    running: Option<Running>,
    pub port: u16,
    scheme: &'static str,
}

impl Nginx {
    /// Serves [`plain`] as `a.car`, by `rules` in its server block. `None` if nginx or openssl is not installed.
    pub fn new(rules: &str) -> Option<Self> {
        let has_all = succeeds(debian("nginx").arg("-v")) && succeeds(debian("openssl").arg("version"));
        if !super::needs(has_all, "nginx and openssl") {
            return None;
        }
        let place = Place::in_memory();
        for name in ["files", "files/bucket", "tmp"] {
            place.dir(name);
        }
        let scheme = if rules.contains("ssl_certificate") { "https" } else { "http" };
        let mut nginx = Self { place, running: None, port: 0, scheme };
        let rules = rules.replace("DIR", nginx.place.path("").to_str().expect("text"));
        let (running, port) = answering(|port| nginx.command(port, &rules));
        (nginx.running, nginx.port) = (Some(running), port);
        nginx.lend("a.car", &plain().file);
        Some(nginx)
    }

    fn command(&self, port: u16, rules: &str) -> Command {
        let dir = self.place.path("");
        let dir = dir.to_str().expect("text").trim_end_matches('/');
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary: String = temporary.iter().map(|it| format!("{it}_temp_path {dir}/tmp/{it};\n")).collect();
        let tls = if self.scheme == "https" { " ssl" } else { "" };
        // One process, which is the one that is killed.
        let text = format!(
            "daemon off; master_process off; pid {dir}/pid; error_log {dir}/errors;\n\
             events {{ worker_connections 256; }}\n\
             http {{\n log_format bytes '$status $body_bytes_sent';\n access_log {dir}/log bytes;\n{temporary}\
             keepalive_requests 100000;\n\
             server {{\n listen 127.0.0.1:{port}{tls};\n root {dir}/files;\n{rules}\n\
             location = /connections {{ stub_status; access_log off; auth_basic off; }}\n}}\n}}\n"
        );
        self.place.file("conf", text.as_bytes());
        self.same_again()
    }

    fn same_again(&self) -> Command {
        let mut command = debian("nginx");
        command.arg("-c").arg(self.place.path("conf")).arg("-p").arg(self.place.path(""));
        command.arg("-e").arg(self.place.path("errors")).stderr(Stdio::null());
        command
    }

    /// Ends it as a machine does that loses power, and starts it half a second later at the same port.
    pub fn restart(&mut self) {
        self.running = None;
        std::thread::sleep(Duration::from_millis(500));
        self.running = Some(Running::start(self.same_again()));
    }

    pub fn url(&self, name: &str) -> String {
        format!("{}://127.0.0.1:{}/{name}", self.scheme, self.port)
    }

    /// Serves a file or a folder of another path.
    pub fn lend(&self, name: &str, file: &Path) {
        std::os::unix::fs::symlink(file, self.place.path("files").join(name)).expect("a link");
    }

    /// Statuses of the answers so far, and bytes of their bodies. nginx logs each when it ends.
    pub fn log(&self) -> Vec<(u16, u64)> {
        let text = std::fs::read_to_string(self.place.path("log")).unwrap_or_default();
        let answers = text.lines().filter_map(|line| line.split_once(' '));
        answers.filter_map(|(status, bytes)| Some((status.parse().ok()?, bytes.parse().ok()?))).collect()
    }

    /// Waits until no connection but the one that asks is open: then all answers are logged.
    pub fn settle(&self) {
        wait_for(|| ask(self.port, "GET /connections HTTP/1.1", b"").contains("Active connections: 1 "));
    }

    /// Bytes that it has sent of all files.
    pub fn sent(&self) -> u64 {
        self.settle();
        self.log().iter().filter(|(status, _)| *status < 300).map(|(_, bytes)| bytes).sum()
    }
}

/// Starts an import of a file of `nginx`.
pub fn start_import(nginx: &Nginx, name: &str, connections: &str) -> Child {
    import(&nginx.place, nginx.url(name)).args(&["--connections", connections]).spawn()
}

/// moto's S3 server, with a bucket `bucket`.
pub struct Moto {
    _running: Running,
    port: u16,
}

impl Moto {
    /// `None` if moto is not installed.
    pub fn new() -> Option<Self> {
        let check = "import importlib.metadata as it, moto.server; assert it.version('moto') == '5.2.5'";
        if !super::needs(succeeds(python("servers").args(["-c", check])), "moto 5.2.5") {
            return None;
        }
        let (running, port) = answering(|port| {
            let mut command = python("servers");
            command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        });
        let moto = Self { _running: running, port };
        moto.ask("PUT /bucket", b"");
        Some(moto)
    }

    fn ask(&self, request: &str, body: &[u8]) {
        // moto reads who signs, and ignores the signature.
        let signed = "Authorization: AWS4-HMAC-SHA256 Credential=a-key/20260101/us-east-1/s3/aws4_request, \
                      SignedHeaders=host, Signature=0";
        let answer = ask(self.port, &format!("{request} HTTP/1.1\r\n{signed}"), body);
        let status = answer.lines().next().unwrap_or_default();
        assert!(status.contains(" 200 "), "{request}: {status}");
    }

    /// Writes or replaces an object.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        self.ask(&format!("PUT /bucket/{key}"), bytes);
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}
