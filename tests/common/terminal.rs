//! A terminal to run the program in: a pseudo terminal of `script` (util-linux), and a screen that shows what it gets.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::run::hermetic;

pub const ROWS: usize = 24;

pub struct Session {
    pub raw: String,
    pub code: Option<i32>,
    pub screen: Screen,
}

/// Runs `command` of a shell in a terminal of so many columns. When `until` is seen there, `keys` are typed.
pub fn run(
    command: &str,
    columns: usize,
    environment: &[(&str, &str)],
    typed: Option<(&str, &[u8])>,
) -> Option<Session> {
    let inner = format!("stty cols {columns} rows {ROWS}; {command}");
    let mut script = hermetic("script");
    script.args(["-qec", &inner, "/dev/null"]).env("TERM", "xterm-256color");
    script.envs(environment.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let Ok(mut child) = script.spawn() else {
        super::skipped("there is no `script` (util-linux) to make a terminal");
        return None;
    };
    let mut keyboard = child.stdin.take();
    let mut output = child.stdout.take().expect("piped");
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let (started, mut typed) = (Instant::now(), typed);
    loop {
        let read = output.read(&mut buffer).expect("read the terminal");
        if read == 0 {
            break;
        }
        bytes.extend_from_slice(&buffer[..read]);
        assert!(started.elapsed() < Duration::from_secs(300), "{}", String::from_utf8_lossy(&bytes));
        if let Some((until, keys)) = typed
            && String::from_utf8_lossy(&bytes).contains(until)
        {
            keyboard.as_mut().expect("piped").write_all(keys).expect("type");
            typed = None;
        }
    }
    let code = child.wait().expect("ends").code();
    let raw = String::from_utf8(bytes).expect("UTF-8");
    let screen = Screen::show(&raw, columns);
    Some(Session { raw, code, screen })
}

/// The lines of a terminal, those that have scrolled away as well.
#[derive(Debug, Default)]
pub struct Screen {
    pub lines: Vec<String>,
    /// Lines that went beyond the last column.
    pub wrapped: Vec<String>,
    row: usize,
    column: usize,
}

impl Screen {
    fn show(raw: &str, columns: usize) -> Self {
        let mut screen = Self::default();
        let mut characters = raw.chars();
        while let Some(character) = characters.next() {
            match character {
                '\r' => screen.column = 0,
                '\n' => screen.row += 1,
                '\x1b' => screen.escape(&mut characters),
                character => screen.put(character, columns),
            }
        }
        screen.lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
        screen
    }

    /// Applies an escape sequence that moves or erases; any other is unexpected.
    fn escape(&mut self, characters: &mut std::str::Chars<'_>) {
        assert_eq!(characters.next(), Some('['), "an escape sequence");
        let mut number = String::new();
        let kind = characters.by_ref().find(|character| {
            number.extend(character.is_ascii_digit().then_some(*character));
            character.is_ascii_alphabetic()
        });
        let (count, row) = (number.parse().unwrap_or(1), self.row);
        match kind {
            Some('m') => {}
            Some('A') => self.row = row.checked_sub(count).expect("the cursor stays on the screen"),
            Some('B') => self.row += count,
            Some('C') => self.column += count,
            Some('D') => self.column = self.column.saturating_sub(count),
            Some('G') => self.column = count - 1,
            Some('K') if number == "2" => self.line().clear(),
            Some('K') if number.is_empty() || number == "0" => {
                let column = self.column;
                let line = self.line();
                *line = line.chars().take(column).collect();
            }
            Some('J') if number.is_empty() || number == "0" => self.lines.truncate(row + 1),
            other => panic!("the terminal receives {number:?} {other:?}"),
        }
    }

    fn line(&mut self) -> &mut String {
        if self.lines.len() <= self.row {
            self.lines.resize(self.row + 1, String::new());
        }
        &mut self.lines[self.row]
    }

    fn put(&mut self, character: char, columns: usize) {
        if self.column == columns {
            let line = self.line().clone();
            self.wrapped.push(line);
            (self.row, self.column) = (self.row + 1, 0);
        }
        let column = self.column;
        let line = self.line();
        let mut cells: Vec<char> = line.chars().collect();
        cells.resize(cells.len().max(column + 1), ' ');
        cells[column] = character;
        *line = cells.into_iter().collect();
        self.column += 1;
    }

    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// Lines that a bar has left.
    pub fn bars(&self) -> Vec<&String> {
        let is_of_bar =
            |line: &&String| [" [=", " [>", " s left", " min left", " h left"].iter().any(|part| line.contains(part));
        self.lines.iter().filter(is_of_bar).collect()
    }
}
