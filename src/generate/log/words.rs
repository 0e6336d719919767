//! Generated names, links and texts, as repetitive as real ones.

use super::super::random::Noise;
use super::bytes::varint;

const ACCOUNTS: usize = 4096;
const WORDS: usize = 1000;
/// Bytes of the text that all texts are cut from. It is larger than a block of a table or a frame, so that a passage
/// rarely occurs twice in one.
const PROSE: usize = 1 << 20;
/// Bytes at its start that repeat often.
const PHRASES: usize = 8 << 10;
const PIECE: u64 = 240;

const VOWELS: &[u8] = b"aeiou";
const CONSONANTS: &[u8] = b"bcdfghklmnprstvw";

pub(super) struct Words {
    accounts: Vec<String>,
    prose: Vec<u8>,
    /// The text in the form of links.
    slugs: Vec<u8>,
}

impl Words {
    pub(super) fn new() -> Self {
        let mut noise = Noise::new(0, 1);
        let syllables = |noise: &mut Noise, count: u64| {
            let mut word = String::new();
            for _ in 0..count {
                word.push(pick(noise, CONSONANTS).into());
                word.push(pick(noise, VOWELS).into());
            }
            word
        };
        let words: Vec<String> = (0..WORDS)
            .map(|_| {
                let count = 1 + noise.below(3);
                let mut word = syllables(&mut noise, count);
                if noise.below(2) == 0 {
                    word.push(pick(&mut noise, CONSONANTS).into());
                }
                word
            })
            .collect();
        let accounts = (0..ACCOUNTS)
            .map(|number| {
                let count = 1 + noise.below(4);
                let name = syllables(&mut noise, count);
                match noise.below(4) {
                    0 => format!("{name}.{}", number % 97),
                    1 => format!("{name}-{}", number % 89),
                    2 => format!("{name}{number}"),
                    _ => format!("x{name}"),
                }
            })
            .collect();
        let mut prose = Vec::with_capacity(PROSE + 16);
        while prose.len() < PROSE {
            for _ in 0..4 + noise.below(12) {
                // Products of random numbers: few words are common, most are rare.
                let rank = noise.below(WORDS as u64) * noise.below(WORDS as u64) / WORDS as u64;
                let rank = rank * noise.below(WORDS as u64) / WORDS as u64;
                prose.extend_from_slice(words.get(rank as usize).map_or(b"a", |word| word.as_bytes()));
                prose.push(b' ');
            }
            prose.pop();
            prose.extend_from_slice(if noise.below(5) == 0 { b".\n\n" } else { b". " });
        }
        let slugs = prose.iter().map(|&byte| if byte.is_ascii_lowercase() { byte } else { b'-' }).collect();
        Self { accounts, prose, slugs }
    }

    /// The name of an account. Few accounts are frequent.
    pub(super) fn account(&self, noise: &mut Noise) -> &str {
        let count = self.accounts.len() as u64;
        let rank = noise.below(count) * noise.below(count) / count;
        self.accounts.get(rank as usize).map_or("a", String::as_str)
    }

    /// Appends `len` and a text of as many bytes.
    pub(super) fn prose(&self, len: usize, noise: &mut Noise, out: &mut Vec<u8>) {
        varint(out, len);
        let mut left = len;
        while left > 0 {
            let piece = left.min(40 + noise.below(PIECE - 40) as usize);
            // Half of the text are frequent phrases.
            let end = if noise.below(2) == 0 { PHRASES } else { self.prose.len() };
            let at = noise.below((end - piece) as u64) as usize;
            out.extend_from_slice(&self.prose[at..at + piece]);
            left -= piece;
        }
    }

    pub(super) fn link(&self, post: u64) -> &[u8] {
        let mut noise = Noise::new(post, 2);
        let len = 16 + noise.below(40) as usize;
        let at = noise.below((self.slugs.len() - len) as u64) as usize;
        self.slugs[at..at + len].trim_ascii()
    }
}

fn pick(noise: &mut Noise, from: &[u8]) -> u8 {
    from.get(noise.below(from.len() as u64) as usize).copied().unwrap_or(b'a')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_valid_and_links_stable() {
        let words = Words::new();
        let legal = |name: &str| {
            (3..=16).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte))
        };
        assert!(words.accounts.iter().all(|name| legal(name)));
        assert_eq!(words.link(7), Words::new().link(7));
        assert_ne!(words.link(7), words.link(8));
        let mut text = Vec::new();
        words.prose(10_000, &mut Noise::new(1, 1), &mut text);
        assert_eq!(text.len(), 2 + 10_000);
        assert!(text[2..].is_ascii());
    }
}
