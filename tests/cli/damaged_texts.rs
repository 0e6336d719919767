//! Texts of users, also damaged ones, read by the models of the fuzz targets.

#[path = "../../fuzz/texts.rs"]
mod texts;

use std::sync::LazyLock;

use proptest::prelude::*;
use texts::{Texts, options_file, preset, seeds, words};

static SEEDS: LazyLock<Texts> = LazyLock::new(seeds);

#[test]
fn valid_texts_parse_back() {
    assert!(SEEDS.presets.len() > 20);
    SEEDS.presets.iter().for_each(|text| preset(text));
    SEEDS.options_files.iter().for_each(|text| options_file(text));
    SEEDS.words.iter().for_each(|text| words(text));
}

/// Characters that mean something in one of the texts, and some that mean nothing.
fn character() -> impl Strategy<Value = char> {
    prop_oneof![
        prop::sample::select("[]{}=.,\"'#\n\r\\ -+_0159kKmMgGtTbBiIeExXcCfFdD".chars().collect::<Vec<_>>()),
        any::<char>()
    ]
}

fn damaged(text: &str, changes: &[(prop::sample::Index, char)], cut: Option<prop::sample::Index>) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for (at, character) in changes {
        if !text.is_empty() {
            let at = at.index(text.len());
            text[at] = *character;
        }
    }
    if let Some(cut) = cut.filter(|_| !text.is_empty()) {
        text.truncate(cut.index(text.len()));
    }
    text.into_iter().collect()
}

proptest! {
    #[test]
    fn damaged_texts_fail_or_parse_back(
        seed: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), character()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let pick = |texts: &[String]| damaged(&texts[seed.index(texts.len())], &changes, cut);
        preset(&pick(&SEEDS.presets));
        options_file(&pick(&SEEDS.options_files));
        words(&pick(&SEEDS.words));
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in prop::collection::vec(character(), 0..60)) {
        let text: String = text.into_iter().collect();
        preset(&text);
        options_file(&text);
        words(&text);
    }

    #[test]
    fn sizes_are_read_as_they_are_calculated(whole: u64, fraction in 0u64..1_000_000, unit in "[kKmMgGtT]?(iB)?") {
        words(&format!("{whole}{unit}"));
        words(&format!("{}.{fraction}{unit}", whole >> 44));
    }
}
