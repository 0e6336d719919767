//! The journal names only what is on the disk: seen from the system calls of the real binary.

use std::collections::HashMap;
use std::process::Command;

use crate::common::crash::*;

/// One finished system call, by the places of its begin and end in the trace.
struct Call {
    name: String,
    path: String,
    text: String,
    begin: usize,
    end: usize,
}

/// Reads what `strace -f -y` wrote: `<pid> name(fd</path>, ..) = result`, possibly in two parts.
fn calls(trace: &str) -> Vec<Call> {
    let mut begun: HashMap<&str, (usize, String)> = HashMap::new();
    let mut found = Vec::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        let (begin, text) = if let Some(head) = rest.strip_suffix(" <unfinished ...>") {
            begun.insert(pid, (at, head.to_owned()));
            continue;
        } else if rest.starts_with("<... ") {
            let Some((begin, head)) = begun.remove(pid) else { continue };
            (begin, head + rest.split_once("resumed>").map_or("", |(_, tail)| tail))
        } else {
            (at, rest.to_owned())
        };
        let Some((name, arguments)) = text.split_once('(') else { continue };
        // The path of the descriptor, or the first text.
        let path = arguments.split_once('<').or_else(|| arguments.split_once('"')).map_or("", |(_, path)| path);
        let path = path.split(['>', '"']).next().unwrap_or_default();
        found.push(Call { name: name.to_owned(), path: path.to_owned(), begin, end: at, text });
    }
    found
}

impl Call {
    /// True if its path ends with `end`: RocksDB's own files have names like ours, in another folder.
    fn is_of(&self, end: &str) -> bool {
        self.path.strip_suffix(end).is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
    }

    fn is_sync(&self) -> bool {
        matches!(self.name.as_str(), "fsync" | "fdatasync")
    }

    /// Number of the argument, counted from the end; `pwrite64(fd, "..", len, offset) = len`.
    fn number_from_end(&self, index: usize) -> u64 {
        let arguments = self.text.rsplit_once(')').expect("a call").0;
        arguments.rsplit(", ").nth(index).expect("an argument").parse().expect("a number")
    }
}

#[test]
fn journal_names_only_synced_data() {
    if !succeeds(Command::new("strace").args(["-f", "-o", "/dev/null", "true"])) {
        return crate::common::skipped("strace is missing or may not trace");
    }
    let case = Case::plain(Way::Spill);
    let trace = case.path("trace");
    let traced = "trace=write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat";
    let line = format!("strace -f -y -s 40 -e {traced} -o {}", trace.display());
    let case = case.through(&line.split(' ').collect::<Vec<_>>());
    case.dies_at("renamed");
    let journal = case.journal();
    let calls = calls(&std::fs::read_to_string(&trace).expect("a trace"));
    let lines: Vec<&Call> = calls.iter().filter(|call| call.name == "write" && call.is_of("journal")).collect();
    assert_eq!(lines.len(), journal.len(), "each line is one write");

    // Synced between `after` and `before`, whole.
    let synced = |file: &str, after: usize, before: usize| {
        calls.iter().any(|call| call.is_sync() && call.is_of(file) && call.begin > after && call.end < before)
    };
    let (mut points, mut built) = (0, 0);
    for (line, entry) in lines.iter().zip(&journal) {
        let is_synced = calls.iter().find(|call| call.is_sync() && call.is_of("journal") && call.begin > line.end);
        let is_synced = is_synced.expect("each line is synced").end;
        if let Some(extents) = entry["extents"].as_array() {
            points += 1;
            for extent in extents {
                let part = format!("{:05}.part", extent[0].as_u64().expect("a number"));
                let bytes = extent[1]["bytes"].as_u64().expect("a number");
                let written = calls
                    .iter()
                    .filter(|call| call.name == "pwrite64" && call.is_of(&part) && call.number_from_end(0) < bytes)
                    .map(|call| call.end)
                    .max()
                    .expect("it was written");
                assert!(written < line.begin, "{part} was written after the line that names it");
                assert!(synced(&part, written, line.begin), "{part} was not synced before {entry}");
            }
            assert!(synced("spill", 0, line.begin), "the names of the partitions are not synced");
        }
        if entry["entry"] == "built" {
            built += 1;
            for file in entry["files"].as_array().expect("files") {
                let name = &*format!("sst/{}", file["name"].as_str().expect("a name"));
                let mut writes = calls.iter().filter(|call| call.name.contains("write") && call.is_of(name));
                let written = writes.by_ref().map(|call| call.end).max().expect("it was written");
                assert!(synced(name, written, line.begin), "{name} was not synced before its line");
                assert!(synced("sst", written, line.begin), "the name {name} was not synced before its line");
            }
            // A partition goes only when the line that makes it unneeded is durable.
            for partition in entry["first"].as_u64().expect("from")..entry["end"].as_u64().expect("to") {
                let part = format!("{partition:05}.part");
                let gone = calls.iter().find(|call| call.name.starts_with("unlink") && call.text.contains(&part));
                assert!(gone.is_none_or(|gone| gone.begin > is_synced), "{part} went before its blocks were safe");
            }
        }
        if entry["entry"] == "complete" {
            assert!(
                synced("BEDLOAD.json.bedload", 0, line.begin) && synced("db", 0, line.begin),
                "the record is not synced"
            );
            let renamed = calls.iter().rfind(|call| call.name.starts_with("rename")).expect("it got its name");
            assert!(renamed.begin > is_synced, "it had its name before it was complete");
        }
    }
    assert!(points >= 4 && built >= 2, "{points} points, {built} files: not enough to see anything");
}
