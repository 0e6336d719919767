//! Escapes text from outside before it is printed: names of files, records and options, and messages about them.
//!
//! Control characters in a file name could set the terminal's title, move its cursor or overwrite text.

use std::borrow::Cow;
use std::path::Path;

/// Escapes characters that control a terminal, or hide or reorder text, as `\\u{1b}`. Line breaks and tabs stay.
///
/// ```
/// use bedload::report::{shown, shown_in_line};
///
/// assert_eq!(shown("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\n");
/// assert_eq!(shown_in_line("one\nline"), "one\\u{a}line");
/// ```
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, |c| steers(c) && c != '\n' && c != '\t', |c, out| out.extend(c.escape_unicode()))
}

/// Escapes the same characters as [`shown`], and line breaks and tabs.
pub fn shown_in_line(text: &str) -> Cow<'_, str> {
    escaped(text, steers, |c, out| out.extend(c.escape_unicode()))
}

/// Escapes a JSON document without changing its values.
pub fn shown_json(document: &str) -> Cow<'_, str> {
    let escape = |c: char, out: &mut String| {
        c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
    };
    // JSON has line breaks between strings only.
    escaped(document, |c| steers(c) && c != '\n', escape)
}

/// Quotes a text or path for a POSIX shell if needed.
pub(crate) fn shell_word(word: impl AsRef<Path>) -> String {
    let text = word.as_ref().to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "_@%+=:,./-".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn escaped(text: &str, must: impl Fn(char) -> bool, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(&must) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| if must(c) { escape(c, &mut out) } else { out.push(c) });
    out.into()
}

/// True for control characters (C0, DEL, C1) and format characters: direction, joining, invisible, line breaks.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let hostile = "\u{1b}]0;x\u{7}\r\u{7f}\u{9b}31m\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}";
        let spelled = r"\u{1b}]0;x\u{7}\u{d}\u{7f}\u{9b}31m\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}";
        assert_eq!(shown(hostile), spelled);
        assert_eq!(shown_in_line(hostile), spelled);
        assert_eq!(shown_in_line("a\tb\n"), r"a\u{9}b\u{a}");
        let plain = "a\tb\n Grüße, 数据, नमस्ते, e\u{301}, ▁▂█, \\ \"quoted\"";
        assert!(matches!(shown(plain), Cow::Borrowed(same) if same == plain));
    }

    #[test]
    fn shell_words_come_back_from_a_shell() {
        for text in ["", "plain-1.car", "a b", "it's", "$HOME", "`id`", "a\nb", "*", "~", "Grüße", "\\", "--x=y z", "#"]
        {
            let line = format!("printf %s {}", shell_word(text));
            let output = std::process::Command::new("sh").args(["-c", &line]).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), text, "{line}");
        }
        assert_eq!(shell_word(Path::new("/data/a-1.car")), "/data/a-1.car");
    }

    #[test]
    fn json_document_keeps_its_value() {
        let value = serde_json::json!({ "a\u{9b}": ["\u{1b}\n\u{7f}", "\u{202e}\u{e0041}😀"] });
        let text = serde_json::to_string_pretty(&value).expect("JSON");
        let shown = shown_json(&text);
        assert!(!shown.chars().any(|c| steers(c) && c != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value);
    }
}
