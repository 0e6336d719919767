//! A plain source that exceeds the budget is not copied if the page cache holds it.

use crate::common::car::{Block, block, car, noise};
use crate::common::model::{Key, Model};
use crate::common::run::{Place, import, import_pipe};

/// 24 MiB, with repeats.
fn blocks() -> Vec<Block> {
    let mut blocks: Vec<_> = (0..24_000).map(|i| block(&noise(i, 1000 + i as usize % 7))).collect();
    blocks.extend_from_within(..500);
    blocks
}

#[test]
fn source_plan_writes_each_block_once() {
    let blocks = blocks();
    let (place, model) = (Place::new(), Model::new(&blocks, Key::Cid));
    let source = place.file("x.car", &car(&[], &blocks));
    let written = |plan: &str| {
        let done = import(&place, &source).args(&["--plan", plan, "--memory", "16MiB"]).run();
        done.holds(&model);
        std::fs::remove_dir_all(&done.db).expect("a database");
        assert_eq!(done.json["plan"]["sort"]["by_reference"], plan == "source", "{plan}");
        done.number("/bytes_written") as f64 / done.number("/payload_bytes") as f64
    };
    let (source, spill) = (written("source"), written("spill"));
    assert!(source < 1.3, "{source} bytes were written for each byte of a block");
    assert!(spill > 1.9, "{spill} bytes were written for each byte of a block");
}

#[test]
fn cached_source_is_read_by_reference() {
    let blocks = blocks();
    let place = Place::new();
    let done = import(&place, place.file("x.car", &car(&[], &blocks))).args(&["--memory", "16MiB"]).run();
    done.holds(&Model::new(&blocks, Key::Cid));
    let sort = &done.json["plan"]["sort"];
    assert_eq!((&sort["spill"], &sort["by_reference"]), (&true.into(), &sort["cached"]), "{sort}");
}

#[test]
fn source_plan_refuses_a_pipe() {
    let place = Place::new();
    let done = import_pipe(&place, car(&[], &blocks())).args(&["--plan", "source", "--memory", "16MiB"]).run();
    done.refused(
        2,
        None,
        "the plan `source` needs a plain file: blocks of this source cannot be read again at their places",
    );
    assert_eq!(done.hint(), "leave it out");
}
