//! `--log-format json`: standard error has one JSON object per line instead of text, for a journal.
//!
//! All messages are written here or by `progress::bar`, which checks the format here first.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::Exit;
use crate::progress::{Event, Sample};
use crate::report::shown_json;

use crate::cli::globals::LogFormat;

/// The name and version of each line.
pub const SCHEMA: &str = "bedload-log-1";

static JSON: AtomicBool = AtomicBool::new(false);

#[derive(serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Info,
    Warning,
    Error,
}

/// Reads the format from the command line before it is parsed, so that errors of parsing have the format as well.
pub fn install() {
    let words: Vec<_> = std::env::args_os().skip(1).take_while(|word| word != "--").collect();
    let is_split = words.windows(2).any(|pair| pair == ["--log-format", "json"]);
    JSON.store(is_split || words.iter().any(|word| word == "--log-format=json"), Ordering::Relaxed);
}

pub fn set(format: LogFormat) {
    JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

pub fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Writes one line with these fields after the message. A closed reader must not stop the work.
pub fn write(level: LogLevel, message: &str, fields: Value) {
    let _ = std::io::stderr().write_all(line(SystemTime::now(), level, message, fields).as_bytes());
}

fn line(now: SystemTime, level: LogLevel, message: &str, fields: Value) -> String {
    let time = humantime::format_rfc3339_millis(now).to_string();
    let mut document = json!({ "schema": SCHEMA, "time": time, "level": level, "message": message.trim() });
    if let (Some(document), Value::Object(fields)) = (document.as_object_mut(), fields) {
        document.extend(fields);
    }
    format!("{}\n", shown_json(&document.to_string()))
}

/// Writes the line of an event; `message` is its text without the words `warning:`.
pub fn event(event: &Event, message: &str) {
    let level = if matches!(event, Event::Warning { .. }) { LogLevel::Warning } else { LogLevel::Info };
    write(level, message, json!({ "event": event }));
}

pub fn sample(message: &str, sample: Option<&Sample>) {
    write(LogLevel::Info, message, sample.map_or(Value::Null, |sample| json!({ "sample": sample })));
}

pub fn error(message: &str, hint: &str, exit: Exit) {
    write(LogLevel::Error, message, json!({ "hint": hint, "exit": exit as u8 }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_one_object_for_any_message() {
        let line =
            line(SystemTime::UNIX_EPOCH, LogLevel::Error, "a \"b\"\n\u{1b}[31mc", json!({ "hint": "d", "exit": 3 }));
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
        let document: Value = serde_json::from_str(&line).expect("an object");
        assert_eq!(document["time"], "1970-01-01T00:00:00.000Z");
        assert_eq!((&document["level"], &document["exit"]), (&"error".into(), &3.into()));
        assert_eq!(document["message"], "a \"b\"\n\u{1b}[31mc");
    }
}
