//! Names and values that are refused.

use super::*;

/// Time that a quadratic algorithm exceeds many times over, also without optimisation on a busy machine.
const LINEAR: std::time::Duration = std::time::Duration::from_secs(20);

#[test]
fn unknown_name_suggests_the_nearest() {
    for (set, nearest) in [
        ("node.cf.write_bufer_size=64M", Some("node.cf.write_buffer_size")),
        ("node.cf.max_open_files=5", Some("node.db.max_open_files")),
        ("node.cf.table.block_size=8K", Some("node.table.block_size")),
        ("node.cf.users.compression=kZSTD", Some("cf.users.compression")),
        ("node.cf.a.compression=kZSTD", Some("cf.a.compression")),
        ("node.cf.sst_size=5", None),
        ("load.ingest.sstsize=5", Some("load.ingest.sst_size")),
        ("node.cf.compression_opts.levels=5", Some("node.cf.compression_opts.level")),
    ] {
        let name = set.split('=').next().unwrap_or_default();
        let nearest = nearest.map_or_else(String::new, |name| format!("; the nearest valid name is `{name}`"));
        assert_eq!(refused(set), format!("unknown option `{name}`{nearest}"));
    }
    // RocksDB ignores it.
    assert!(refused("node.cf.soft_rate_limit=3").starts_with("unknown option `node.cf.soft_rate_limit`"));
    let text = "loader = \"memtable\"\n[load.cf]\nwrite_bufer_size = \"64M\"\n";
    assert!(problem(text).starts_with("mine.toml:3: unknown option `load.cf.write_bufer_size`; "));
    let error = error_of("ingest", &["node.cf.write_bufer_size=5"]);
    assert_eq!((error.exit(), error.hint().as_str()), (crate::Exit::Usage, "write `node.cf.write_buffer_size`"));
    let error = Preset::find("ingset").expect_err("no such preset").to_string();
    assert_eq!(
        error,
        "cannot find preset `ingset`: no built-in preset has this name; the nearest valid name is `ingest`"
    );
    assert_eq!(Preset::find("./nowhere.toml").expect_err("no such file").to_string(), "cannot open ./nowhere.toml");
}

#[test]
fn wrong_value_is_refused_with_the_reason() {
    for (set, message) in [
        (
            "node.cf.write_buffer_size=64MB",
            "`node.cf.write_buffer_size` cannot be `64MB`: \
             64MB may mean powers of 1000 or of 1024: write 64M or 64MiB for powers of 1024",
        ),
        (
            "node.cf.max_write_buffer_number=4G",
            "RocksDB refuses `node.cf.max_write_buffer_number` = `4294967296`: Error parsing max_write_buffer_number:stoi",
        ),
        (
            "node.cf.compression=gzip",
            "`node.cf.compression` cannot be `gzip`: it is one of none (kNoCompression), \
             snappy (kSnappyCompression), zlib (kZlibCompression), bzip2 (kBZip2Compression), lz4 (kLZ4Compression), \
             lz4hc (kLZ4HCCompression), zstd (kZSTD)",
        ),
        (
            "node.table.filter_policy=bloom",
            "`node.table.filter_policy` cannot be `bloom`: it needs the bits of a key: `bloom:10`",
        ),
        (
            "load.cf.write_buffer_size=64M",
            "`load.cf.write_buffer_size` has no effect with the ingest loader: no record passes through a memtable",
        ),
    ] {
        assert_eq!(refused(set), message);
    }
    for (set, end) in [
        ("node.cf.write_buffer_size=99999999999T", "too large: the largest size is 18446744073709551615 bytes"),
        ("node.cf.memtable_prefix_bloom_size_ratio=1M", "a number is needed, without a unit"),
        ("node.cf.optimize_filters_for_hits=yes", "it is `true` or `false`"),
        ("load.ingest.threads=0", "it is at least 1 and at most 2147483647"),
    ] {
        assert!(refused(set).ends_with(end), "{set}: {}", refused(set));
    }
    for (set, part) in [
        ("node.cf.write_buffer_size=64X", "`X` is not a unit of size"),
        ("load.write.batch_count=5", "has no effect with the ingest loader"),
        ("node.db.wal_dir=/elsewhere", "it places files outside of the database"),
        ("node.cf.compression=kZstd", "RocksDB refuses `node.cf.compression` = `kZstd`: "),
    ] {
        assert!(refused(set).contains(part), "{set}: {}", refused(set));
    }
    let hint = error_of("ingest", &["node.cf.compression=kZstd"]).hint();
    assert_eq!(hint, "write it as RocksDB does, e.g. `kLZ4Compression`");
}

#[test]
fn refused_option_of_a_file_has_its_line() {
    for (text, message) in [
        (
            "loader = \"memtable\"\n[load.cf]\nmemtable_factory = \"vectro\"\n",
            "mine.toml:3: RocksDB refuses `load.cf.memtable_factory` = `vectro`: ",
        ),
        (
            "loader = \"memtable\"\n[load.cf]\nwrite_buffer_size = -5\n",
            "mine.toml:3: RocksDB refuses `load.cf.write_buffer_size` = `-5`: ",
        ),
        (
            "loader = \"memtable\"\nname = \"x\"\n[load.db]\nunordered_write = true\nenable_pipelined_write = true\n",
            "preset `x`: RocksDB refuses its load options together: \
             unordered_write is incompatible with enable_pipelined_write",
        ),
        (
            "loader = \"memtable\"\n[load.ingest]\nsst_size = \"64M\"\n",
            "mine.toml:3: `load.ingest.sst_size` has no effect with the memtable loader: \
             no SST file is built outside of the database",
        ),
        (
            "loader = \"ingest\"\n[load.table]\npartition_filters = true\n",
            "mine.toml:3: `load.table.partition_filters` cannot be `true`",
        ),
    ] {
        assert!(problem(text).starts_with(message), "{}", problem(text));
    }
}

#[test]
fn options_that_crash_rocksdb_are_refused() {
    const LEVELS: &str = "partitioned filters need a partitioned index";
    const BEHIND: &str = "it reserves the last level";
    for (set, words) in [
        (&["node.table.partition_filters=true"][..], LEVELS),
        (&["load.table.partition_filters=true"], LEVELS),
        (&["node.table.partition_filters=true", "node.table.index_type=kBinarySearchWithFirstKey"], LEVELS),
        (&["node.cf.preclude_last_level_data_seconds=18446744073709551615"], "it must be 0 to 4294967295"),
        (&["node.cf.preserve_internal_time_seconds=18446744073709551615"], "it must be 0 to 4294967295"),
        (
            &[
                "node.table.index_type=kHashSearch",
                "node.cf.prefix_extractor=fixed:4",
                "node.table.index_block_restart_interval=2",
            ],
            "with index_type kHashSearch it must be 1",
        ),
        (&["node.table.block_restart_interval=0"], "it must be 1 to 2147483647"),
        (&["node.table.index_block_restart_interval=-1"], "it must be 1 to 2147483647"),
        (&["node.table.block_size=0", "node.table.block_align=true"], "it must be 1 to 4294967295"),
        (&["node.table.block_size_deviation=101"], "it must be 0 to 100"),
        (&["node.db.allow_ingest_behind=true"], BEHIND),
        (&["node.cf.cf_allow_ingest_behind=true"], BEHIND),
        (&["node.cf.compaction_style=kCompactionStyleFIFO", "node.db.max_open_files=-1"], "deletes the oldest files"),
        (&["node.db.error_if_exists=true"], "opens the database more than once"),
        (&["node.db.use_session_tmp_dir_for_remote_compaction=true"], "leaves a directory in the database"),
        (&["node.cf.comparator=rocksdb.ReverseBytewiseComparator"], "records are sorted byte by byte"),
        (&["node.db.allow_mmap_writes=true", "node.db.allow_fallocate=false"], "needs its space"),
        (&["node.db.log_readahead_size=2147483648"], "it must be 0 to 1073741824"),
        (&["node.cf.arena_block_size=2147483647"], "it must be 0 to 268435456"),
    ] {
        for name in ["ingest", "memtable"] {
            let error = error_of(name, set);
            let text = error.to_string();
            assert!(text.starts_with("option ") && text.contains(" cannot be "), "{name}: {text}");
            assert!(text.contains(words), "{name}: {text}");
            assert!(error.hint().starts_with("change it or leave it out"), "{name}: {}", error.hint());
        }
    }
}

#[test]
fn tiny_sst_size_is_refused() {
    // The plan divides by a quarter of it.
    let text = error_of("ingest", &["load.ingest.sst_size=3"]).to_string();
    assert!(text.ends_with("it must be 4096 to 4611686018427387904"), "{text}");
}

#[test]
fn numbers_of_threads_are_limited() {
    for (name, option) in [
        ("ingest", "node.db.max_background_jobs"),
        ("memtable", "load.db.max_background_jobs"),
        ("memtable", "load.db.max_background_flushes"),
        ("memtable", "load.db.max_background_compactions"),
        ("ingest", "node.db.max_subcompactions"),
        ("ingest", "node.db.max_file_opening_threads"),
        ("ingest", "node.db.read_io_executor_threads"),
        ("ingest", "node.cf.compression_opts.parallel_threads"),
        ("ingest", "load.ingest.threads"),
        ("ingest", "load.ingest.file_opening_threads"),
        ("memtable", "load.write.writer_threads"),
        ("memtable", "load.compaction.max_subcompactions"),
    ] {
        let text = error_of(name, &[&format!("{option}=2147483647")]).to_string();
        assert!(text.contains("cannot be `2147483647`: it must be ") && text.ends_with(" to 1024"), "{text}");
    }
}

#[test]
fn a_rehearsal_names_the_refused_option() {
    for (name, set, message) in [
        ("ingest", "load.db.recycle_log_file_num=3", "disableWAL option is not supported"),
        ("memtable", "load.db.recycle_log_file_num=3", "disableWAL option is not supported"),
        ("ingest", "node.table.user_defined_index_factory=trie_index", "Trie index"),
        ("ingest", "node.table.index_type=kHashSearch", "prefix_extractor is not given"),
        ("memtable", "load.cf.paranoid_memory_checks=true", "Not implemented"),
        ("memtable", "load.cf.table_factory=PlainTable", "PlainTable requires a prefix extractor"),
        ("memtable", "load.cf.table_factory=CuckooTable", "File is not mmaped"),
    ] {
        let text = error_of(name, &[set]).to_string();
        let (key, value) = set.split_once('=').expect("an assignment");
        let begins = format!("option {set}: RocksDB refuses `{key}` = `{value}`: ");
        assert!(text.starts_with(&begins) && text.contains(message), "{text}");
    }
}

/// The bug: a name of 5 MB was compared with every known name for minutes.
#[test]
fn long_name_resembles_no_other() {
    assert_eq!(nearest_of("ingesst", ["ingest"]), Some("ingest"));
    let (long, longer) = ("x".repeat(300), "x".repeat(301));
    assert_eq!(nearest_of(&longer, [&*long]), None);
}

#[test]
fn preset_of_many_options_is_linear() {
    let lines: String = (0..60_000).map(|number| format!("option_{number} = 1\n")).collect();
    let text = format!("loader = \"ingest\"\n[node.cf]\n{lines}");
    let started = std::time::Instant::now();
    assert_eq!(preset(&text).all_assignments().len(), 60_000);
    assert!(problem(&text).starts_with("mine.toml:3: unknown option `node.cf.option_0`"), "{}", problem(&text));
    assert!(started.elapsed() < LINEAR, "{:?}", started.elapsed());
}

#[test]
fn notes_about_an_options_file_are_limited() {
    let lines: String = (0..60_000).map(|number| format!("  option_{number}=1\n")).collect();
    let repeated = "  num_levels=6\n".repeat(60_000);
    let started = std::time::Instant::now();
    let notes = options_file::of_node(&format!("{lines}{repeated}"), "", &[]).expect("good").notes;
    assert!(started.elapsed() < LINEAR, "{:?}", started.elapsed());
    let left_out = notes.iter().filter(|note| note.starts_with("left out: ")).count();
    assert_eq!(left_out, 20, "{notes:?}");
    assert!(notes.contains(&"59980 more options are left out".to_owned()), "{notes:?}");
}
