//! Text from outside, for a page: control characters are shown, and nothing is markup.

use std::fmt;

use crate::text::escape::shown;

/// Writes text for a page.
#[derive(Clone, Copy, Default)]
pub(crate) struct Escape;

impl askama::filters::Escaper for Escape {
    fn write_escaped_str<W: fmt::Write>(&self, mut page: W, text: &str) -> fmt::Result {
        shown(text).chars().try_for_each(|c| match c {
            '&' => page.write_str("&amp;"),
            '<' => page.write_str("&lt;"),
            '>' => page.write_str("&gt;"),
            '"' => page.write_str("&quot;"),
            c => page.write_char(c),
        })
    }
}
