//! `--options-file`.

use super::*;

/// Resolves a preset with an OPTIONS file that has these lines for its column family and its tables.
pub(super) fn of_node(family: &str, table: &str, set: &[&str]) -> Result<Resolved> {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("OPTIONS-000001");
    let text = format!(
        "[Version]\nrocksdb_version=7.8.3\n[DBOptions]\n[CFOptions \"default\"]\n{family}\n\
         [TableOptions/BlockBasedTable \"default\"]\n{table}\n"
    );
    fs::write(&file, text).expect("written");
    resolve(&builtin("ingest"), &Overrides { options_file: Some(file), ..with(set) })
}

fn notes_of(family: &str, table: &str) -> Vec<String> {
    of_node(family, table, &[]).expect("good").notes
}

#[test]
fn filter_without_bits_gets_ten() {
    for (written, kind, kept) in [
        ("bloomfilter", Some("bloom"), "bloomfilter:10:false"),
        ("rocksdb.BuiltinBloomFilter", Some("bloom"), "bloomfilter:10:false"),
        ("{id=bloomfilter;}", Some("bloom"), "bloomfilter:10:false"),
        ("ribbonfilter", Some("ribbon"), "{id=ribbonfilter:10:0;bloom_before_level=0;}"),
        ("{id=ribbonfilter;bloom_before_level=0;}", Some("ribbon"), "{id=ribbonfilter:10:0;bloom_before_level=0;}"),
        ("bloomfilter:12:false", None, "bloomfilter:12:false"),
        ("bloomfilter:12:true", None, "bloomfilter:12:false"),
        ("{id=ribbonfilter:9:0;bloom_before_level=0;}", None, "{id=ribbonfilter:9:0;bloom_before_level=0;}"),
    ] {
        let resolved = of_node("", &format!("filter_policy={written}"), &[]).expect("good");
        let effective = options::effective(&resolved.node(), &options::places()).expect(written);
        assert_eq!(effective.get(Group::Table, "filter_policy"), Some(kept), "{written}");
        let Some(kind) = kind else {
            assert!(resolved.notes.iter().all(|note| !note.contains("does not say")), "{:?}", resolved.notes);
            continue;
        };
        let [note] = resolved.notes.as_slice() else { panic!("{written}: {:?}", resolved.notes) };
        let message = format!(
            ":7: `node.table.filter_policy`: `{written}` does not say the bits of a key, so 10 are taken; \
             for another number, set `node.table.filter_policy={kind}:BITS`"
        );
        assert!(note.ends_with(&message), "{note}");
    }
    let resolved = of_node("", "filter_policy=bloomfilter", &["node.table.filter_policy=bloom:12"]).expect("good");
    assert_eq!(resolved.notes, Vec::<String>::new());
    assert_eq!(resolved.node().get(Group::Table, "filter_policy"), Some("bloomfilter:12"));
}

#[test]
fn static_levels_are_warned_of() {
    let notes = notes_of("level_compaction_dynamic_level_bytes=false", "");
    let [note] = notes.as_slice() else { panic!("{notes:?}") };
    let message = ":5: `node.cf.level_compaction_dynamic_level_bytes`: the import leaves its files at the last level, 6, \
                all the same; what the node writes, overwrites and deletes reaches them only when level 5 holds 2.4 TiB: ";
    assert!(note.contains(message), "{note}");
    let notes =
        notes_of("level_compaction_dynamic_level_bytes=false\nmax_bytes_for_level_base=1048576\nnum_levels=4", "");
    let is_small = |note: &String| note.contains("last level, 3,") && note.contains("level 2 holds 10.0 MiB");
    assert!(notes.iter().any(is_small), "{notes:?}");
}

#[test]
fn options_file_becomes_the_node_section() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut wanted = OptionMap::default();
    wanted.set(Group::Db, "max_background_jobs", "3");
    wanted.set(Group::Cf, "compression", "kZSTD");
    wanted.set(Group::Cf, "compression_opts.level", "5");
    wanted.set(Group::Table, "block_size", "8192");
    wanted.set(Group::Table, "filter_policy", "ribbonfilter:9");
    let effective = options::effective(&wanted, &options::places()).expect("opened");
    let section = |of: Group| {
        let lines = effective.iter().filter(move |(group, ..)| *group == of);
        lines.map(|(_, name, value)| format!("  {name}={value}\n")).collect::<String>()
    };
    let [db, cf, table] = [Group::Db, Group::Cf, Group::Table].map(section);
    let file = dir.path().join("OPTIONS-000123");
    let text = format!(
        "[Version]\n  rocksdb_version=9.0.0\n[DBOptions]\n{db}  wal_dir=/var/wal\n  gone_option=1\n\
         [CFOptions \"default\"]\n{cf}[TableOptions/BlockBasedTable \"default\"]\n{table}"
    );
    fs::write(&file, text).expect("written");
    let overrides = Overrides { options_file: Some(file), ..with(&[]) };
    let resolved = resolve(&builtin("ingest"), &overrides).expect("good");
    assert_eq!(resolved.notes.len(), 2, "{:?}", resolved.notes);
    assert!(resolved.notes[0].contains("wal_dir") && resolved.notes[1].contains("gone_option"));
    let got = options::effective(&resolved.node(), &options::places()).expect("opened");
    assert_eq!(got, effective, "the preset's own node section is gone, the file's is whole");
    assert_eq!(resolved.sst_size(), 256 << 20, "the load section stays");
    let family = Overrides { column_family: Some("ids".into()), ..overrides };
    let error = resolve(&builtin("ingest"), &family).expect_err("no such family").to_string();
    assert!(error.ends_with("has no column family `ids`"), "{error}");
}

#[test]
fn custom_operator_is_dropped_with_a_note() {
    let notes = notes_of("merge_operator=TheNodes", "");
    let [note] = notes.as_slice() else { panic!("{notes:?}") };
    assert!(note.contains("OPTIONS-000001:5: "), "{note}");
    assert!(note.contains("`nullptr` of `node.cf.merge_operator` = `TheNodes`"), "{note}");
}

#[test]
fn unusable_options_file_is_refused_with_line() {
    for (family, table, message) in [
        ("comparator=RocksDict.Reverse", "", "OPTIONS-000001:5: `node.cf.comparator` cannot be"),
        ("", "partition_filters=true", "OPTIONS-000001:7: `node.table.partition_filters` cannot be `true`"),
    ] {
        let error = of_node(family, table, &[]).map(|resolved| resolved.preset).expect_err(message);
        assert!(error.to_string().contains(message), "{error}");
    }
}
