//! The state of some work as one line: what it is, for how long it has run, how far it is, and parts of which the least
//! important ones are left out where there is no room.

/// The lowest rank of what should always be shown.
pub const NEEDED: u8 = 1;

/// The state of some work.
#[derive(Debug, Default)]
pub struct Status {
    /// What is done.
    pub name: &'static str,
    /// Seconds since the command began.
    pub seconds: f64,
    /// The share of the work that is done, from 0 to 1, where that is known.
    pub done: Option<f64>,
    /// The parts of the text with their ranks: 0, the time left, is the most important one.
    pub parts: Vec<(u8, String)>,
    /// A curve, where there is room for it beside all parts.
    pub curve: Option<String>,
}

impl Status {
    /// The parts without what does not fit into `room` columns.
    pub fn text(&self, room: usize) -> String {
        let mut parts: Vec<&(u8, String)> = self.parts.iter().collect();
        loop {
            let text = joined(&parts);
            let least = parts.iter().map(|(rank, _)| *rank).max().unwrap_or_default();
            if text.chars().count() <= room || parts.is_empty() {
                return text;
            }
            parts.retain(|(rank, _)| *rank != least);
        }
    }

    /// The same with the curve, where there is room for it.
    pub fn text_with_curve(&self, room: usize) -> String {
        let text = self.text(room);
        let is_whole = text == joined(&self.parts.iter().collect::<Vec<_>>());
        let curve = self.curve.as_ref().map(|curve| format!("{text} {curve}"));
        curve.filter(|it| it.chars().count() <= room && is_whole).unwrap_or(text)
    }

    /// The columns of what should always be shown.
    pub fn least_room(&self) -> usize {
        let parts = self.parts.iter().filter(|(rank, _)| *rank <= NEEDED);
        joined(&parts.collect::<Vec<_>>()).chars().count()
    }
}

fn joined(parts: &[&(u8, String)]) -> String {
    parts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(", ")
}
