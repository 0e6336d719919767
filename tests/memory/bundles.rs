//! The memory of `bundle` and `seed` does not grow with the database.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::budgets::{FIXED, MIB, snapshot, wait};
use crate::common::run::{Place, bedload};
use bedload::testing::generate::Format;

/// A web server of a directory that holds none of its files in memory.
fn serve(dir: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let dir = dir.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let dir = dir.clone();
            // A client that goes away is no failure of the server.
            std::thread::spawn(move || answer(&dir, stream));
        }
    });
    url
}

fn answer(dir: &Path, mut stream: TcpStream) -> std::io::Result<()> {
    let (mut line, mut range) = (String::new(), None);
    let mut from = BufReader::new(stream.try_clone()?);
    from.read_line(&mut line)?;
    let name = line.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
    loop {
        line.clear();
        from.read_line(&mut line)?;
        let Some((header, value)) = line.trim_end().split_once(": ") else { break };
        if header.eq_ignore_ascii_case("range") {
            range = value
                .strip_prefix("bytes=")
                .and_then(|range| range.split_once('-'))
                .and_then(|(first, last)| Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?)));
        }
    }
    let mut file = File::open(dir.join(&name))?;
    let whole = file.metadata()?.len();
    let (first, last) = range.unwrap_or((0, whole));
    let last = last.min(whole.saturating_sub(1));
    let len = last + 1 - first;
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{whole}\r\nETag: \"{name}\"\r\n\
         Content-Length: {len}\r\nConnection: close\r\n\r\n"
    )?;
    file.seek(SeekFrom::Start(first))?;
    std::io::copy(&mut file.take(len), &mut stream).map(drop)
}

/// Runs a command that prints a report: the report, and the peak as the kernel tells it.
fn measured(command: &mut Command) -> (Value, u64) {
    let mut child = command
        .args(["--json", "--progress", "off"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("it runs");
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
    let peak = wait(child);
    (serde_json::from_str(&text).expect("a report"), peak)
}

#[test]
fn bundle_and_seed_stay_within_the_budget() {
    let place = Place::new();
    let budget = 64;
    let source = snapshot(&place, 4 * budget * MIB, Format::Car);
    let (db, to): (PathBuf, PathBuf) = (place.path("made"), place.path("to"));
    let memory = format!("{budget}MiB");
    let made = ["--memory", &memory, "--threads", "2", "--set", "load.ingest.sst_size=32M"];
    measured(bedload().arg("import").arg(&source).arg("--db").arg(&db).args(made));
    std::fs::remove_file(source).expect("it is ours");
    let (report, peak) = measured(bedload().arg("bundle").arg(&db).arg("--to").arg(&to).args(["--threads", "2"]));
    let bytes = report["bytes"].as_u64().expect("a number");
    assert!(bytes > 3 * budget * MIB, "only {bytes} bytes");
    // A bundle has no budget of its own: it holds a block cache and the indexes of some files.
    assert!(peak <= 2 * FIXED, "{} MiB", peak / MIB);
    let url = serve(&to);
    let y = place.path("y");
    for from in [to.display().to_string(), url] {
        let args = ["--memory", &memory, "--threads", "2"];
        let (report, peak) = measured(bedload().arg("seed").arg(&from).arg("--db").arg(&y).args(args));
        let told = report["peak_rss_bytes"].as_u64().expect("a number");
        for peak in [told, peak] {
            assert!(peak > 8 * MIB && peak <= budget * MIB + FIXED, "{} MiB from {from}", peak / MIB);
        }
        std::fs::remove_dir_all(&y).expect("a database");
    }
}
