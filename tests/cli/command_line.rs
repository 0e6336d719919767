//! The command line: results, pipes, and refused arguments.

use std::path::Path;

use crate::cli::{command, ends, run, shell, with_database, with_snapshot};
use crate::common::car::{car, sections, zstd};
use crate::common::database::ssts;
use crate::common::run::Place;

#[test]
fn database_is_named_by_position_or_option() {
    let place = with_database("1MiB");
    let db = place.path("db").display().to_string();
    let quiet = |line: &str| {
        let ended = run(&place, &format!("{line} --progress off"));
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{line}");
        ended.stdout
    };
    for name in ["verify", "walk", "stat"] {
        for line in [format!("{name} {db}"), format!("{name} --db {db}"), format!("{name} {db} --quiet")] {
            assert!(quiet(&line).contains(&db), "{line}");
        }
        ends(&place, name, 2, "were not provided: <DB>");
        ends(&place, &format!("{name} {db} --db {db}"), 2, "cannot be used with '--db <DIR>'");
    }
    for line in ["export db a.car", "export --db db b.car -q"] {
        assert!(quiet(line).contains("digest"), "{line}");
    }
    let hint = "hint: name both, e.g. bedload export chain chain.car";
    let refused = ends(&place, "export c.car", 2, hint).stderr;
    assert!(refused.starts_with("error: no output file is given\nhint: "), "{refused}");
    assert!(quiet("generate d.car --size 100K -q").contains("blocks"));
    assert!(quiet("get db --epoch 0").contains("\"Height\":0"));
    let hint = "as in `bedload get chain 1000`\n";
    for (line, words) in [
        ("get", "error: no database and no key are given\nhint: name both, "),
        ("get db", "error: no key is given\nhint: name the database and a key, "),
        ("get --db db", "error: no key is given\nhint: name the database and a key, "),
    ] {
        assert_eq!(ends(&place, line, 2, "").stderr, format!("{words}{hint}"), "{line}");
    }
}

#[test]
fn closed_pipe_ends_a_command_quietly() {
    let place = with_database("3MiB");
    for (line, lines) in [
        ("bedload presets list | head -1", 1),
        ("bedload presets explain ingest | head -2", 2),
        ("bedload inspect --list snapshot.car | head -3", 3),
        ("bedload stat --db db | head -1", 1),
        ("bedload stat --json --db db | head -1", 1),
        ("bedload completions bash | head -1", 1),
        ("bedload man | head -1", 1),
        ("bedload generate --size 3MiB - | head -c 1 | tr -c x y; echo", 1),
        // An import whose output is not read ends well.
        ("bedload import snapshot.car --db text --progress off | true", 0),
        ("bedload import snapshot.car --db json --progress off --json | true", 0),
        ("bedload import snapshot.car --db lines 2>&1 | true", 0),
    ] {
        let ended = shell(&place.path(""), line);
        let found = (ended.stdout.lines().count(), &*ended.stderr, ended.code);
        assert_eq!(found, (lines, "", Some(0)), "{line}");
    }
    for db in ["text", "json", "lines"] {
        ends(&place, &format!("verify --quiet --db {db}"), 0, "");
    }
}

/// The bug: the exit code was 0, and no error was printed.
#[test]
fn closed_pipe_hides_no_damage() {
    let place = with_database("1MiB");
    for sst in ssts(&place.path("db")) {
        let mut bytes = std::fs::read(&sst).expect("read");
        bytes[1000] ^= 1;
        std::fs::write(&sst, bytes).expect("written");
    }
    for command in ["verify", "verify --json", "walk", "walk --json"] {
        // `true` ends before the report is printed.
        let ended = shell(&place.path(""), &format!("{{ sleep 0.2; bedload {command} -q --db db; }} | true"));
        assert_eq!(ended.code, Some(3), "{command}: {}", ended.stderr);
        assert!(ended.stderr.contains("error: "), "{command}: {}", ended.stderr);
    }
}

/// The bug: the exit code was 0, although the snapshot is incomplete.
#[test]
fn export_to_a_closed_pipe_fails() {
    let place = with_database("3MiB");
    let ended = shell(&place.path(""), "bedload export --progress off -q --db db - | true");
    assert_eq!((ended.code, &*ended.stdout), (Some(1), ""));
    assert!(ended.stderr.starts_with("error: cannot write "), "{}", ended.stderr);
    assert!(ended.stderr.contains("roken pipe"), "{}", ended.stderr);
}

#[test]
fn quiet_hides_progress_but_not_results() {
    let place = Place::in_memory();
    for (line, result) in [
        ("generate a.car --size 1MiB", "a.car: "),
        ("generate b.car --size 1MiB --json", "\"schema\": \"bedload-generate-1\""),
        ("generate log --size 1MiB --profile steem", "log: "),
        ("import a.car --db db", "digest"),
        ("verify --db db", "digest"),
        ("walk --db db", "reachable"),
        ("export --db db c.car", "c.car"),
    ] {
        let ended = ends(&place, &format!("{line} --quiet"), 0, "");
        assert!(ended.stdout.contains(result) && ended.stderr.is_empty(), "{line}: {ended:?}");
    }
    // The end of a snapshot is missing: a warning, and no narration.
    let mut blocks = sections(&std::fs::read(place.path("a.car")).expect("a file"));
    let (absent, _) = blocks.remove(0);
    place.file("lacks.car", &car(&[absent], &blocks));
    for more in ["q -q", "off --progress off"] {
        let said = ends(&place, &format!("import lacks.car --links check --db {more}"), 0, "1 of 1 roots").stderr;
        assert!(said.lines().all(|line| line.starts_with("warning: ")), "{said}");
        assert!(said.contains(" that they link to"), "{said}");
    }
    let said = ends(&place, "generate d.car --size 1MiB --quiet --progress lines", 0, " blocks, 1.0 MiB").stderr;
    assert!(said.starts_with("generate "), "{said}");
    let said = ends(&place, "doctor d.car --quiet --progress json", 0, "\"phase\":\"measure\"").stderr;
    assert!(said.contains("\"phase\":\"sample\""), "{said}");
}

#[test]
fn unwritable_output_directory_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o555)).expect("ours");
    // The superuser may write everywhere but to some file systems of the kernel.
    let refuses = |folder: &&Path| {
        let made = std::fs::File::create_new(folder.join("bedload-test"));
        made.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    let Some(folder) = [dir.path(), Path::new("/sys")].into_iter().find(refuses) else {
        crate::common::skipped("this user may write to every folder");
        return;
    };
    let folder = folder.display();
    let said = ends(&Place::in_memory(), &format!("generate {folder}/a.car --size 1MiB"), 1, "").stderr;
    assert_eq!(
        said,
        format!(
            "error: cannot create {folder}/a.car: Permission denied\n\
             hint: this user may not write to {folder} (ls -ld {folder}): choose another place, or run the command as its owner\n"
        )
    );
}

#[test]
fn plan_and_record_report_spilling() {
    let place = with_snapshot("4MiB");
    place.file("packed.car.zst", &zstd(&std::fs::read(place.path("snapshot.car")).expect("a file")));
    let run = |line: &str| {
        let ended = ends(&place, line, 0, "");
        (ended.stdout, ended.stderr)
    };
    let (plan, _) = run("import packed.car.zst --db dry --dry-run");
    let spills = "sort in memory if all fits, else spill to partitions and sort each in memory: ";
    assert!(plan.starts_with(&format!("packed.car.zst, preset ingest (default): {spills}")), "{plan}");
    let (plan, _) = run("import packed.car.zst --db dry --dry-run --plan spill --memory 1GiB --threads 2");
    let how = "spill to partitions, then sort each in memory: 2 threads, 1.0 GiB of memory, ";
    assert!(plan.contains(how), "{plan}");
    let (plan, said) = run("import snapshot.car --db dry --dry-run --threads 1");
    assert!(plan.starts_with("snapshot.car, preset ingest (default): sort in memory: 1 thread, "), "{plan}");
    assert_eq!(format!("{plan}{said}").matches("sort in memory: ").count(), 1, "{plan}{said}");

    let insists = "import packed.car.zst --plan memory --memory";
    let (_, said) = run(&format!("{insists} 16MiB --db small"));
    assert!(
        said.contains("warning: the blocks do not fit the ") && said.contains("in spite of --plan memory"),
        "{said}"
    );
    assert_eq!(said.matches("warning: ").count(), 1, "{said}");
    let (_, said) = run(&format!("{insists} 1GiB --db large"));
    assert!(!said.contains("warning: "), "{said}");
    // Without --plan it is on standard error as it happens, and in the summary.
    let auto = "import packed.car.zst --memory 16MiB --db";
    let (text, said) = run(&format!("{auto} auto"));
    assert!(said.contains("\nspill    blocks exceed ") && !said.contains("warning: "), "{said}");
    assert!(text.contains("\nspilled   the blocks did not fit into memory and were written to files"), "{text}");
    let (text, said) = run(&format!("{auto} quiet -q"));
    assert!(said.is_empty() && text.contains("\nspilled   "), "{said}{text}");
    let (text, said) = run(&format!("{auto} planned --plan spill"));
    let how = "spill to partitions, then sort each in memory, because ";
    let (_, reason) = said.split_once(how).unwrap_or_else(|| panic!("{said}"));
    let (reason, _) = reason.split_once(": ").expect("the end of a reason");
    assert!(reason.ends_with(" MiB) and their index exceed the memory for them (1.0 MiB)"), "{said}");
    assert!(!said.contains("\nspill ") && text.contains(&format!("\nspilled   {reason}\n")), "{said}{text}");

    let (text, _) = run("stat --db large");
    let row =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    let year = humantime::parse_rfc3339(row("imported  ")).expect("a time");
    assert!(year.elapsed().expect("not in the future").as_secs() < 3600, "{text}");
    assert!(row("head      ").starts_with("filecoin, epoch "), "{text}");
}

#[test]
fn tables_fit_80_columns() {
    let place = Place::in_memory();
    ends(&place, "generate log --profile steem --size 1MiB -q", 0, "");
    ends(&place, "import log --db chain --indexes ids,transactions --preset ingest-zstd -q", 0, "");
    for line in ["presets list", "presets diff ingest memtable", "stat chain"] {
        let text = ends(&place, line, 0, "").stdout;
        let widest = text.lines().max_by_key(|line| line.chars().count()).expect("a table");
        assert!(widest.chars().count() <= 80, "{line}: {widest}");
    }
    // Of a structure the fields that differ, under the names that can be set.
    let text = run(&place, "stat chain").stdout;
    assert!(text.contains("cf.compression_opts.level = 1 (default 32767)\n") && !text.contains('{'), "{text}");
}

#[test]
fn other_file_formats_are_recognized() {
    let place = with_database("1MiB");
    let table = std::fs::read(ssts(&place.path("db")).remove(0)).expect("a table");
    let mut tar = vec![b'a'; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    let index: Vec<u8> = (0..500u64).flat_map(|block| (block * 300).to_le_bytes()).collect();
    for (name, bytes, format, hint) in [
        ("a.zip", &b"PK\x03\x04 and the rest of it"[..], "it is a zip archive", "unzip -p"),
        ("a.tar", &tar, "it is a tar archive", "tar -xOf"),
        ("a.tar.zst", &zstd(&tar), "it is a tar archive", "tar -xOf"),
        ("a.bz2", b"BZh91AY&SY", "it is bzip2 data", "bzip2 -dc "),
        ("a.sst", &table, "it is a table of RocksDB", "bedload stat --db"),
        ("block_log.index", &index, "it is the index of a block log", "give the log itself"),
    ] {
        let words = format!("this is not a CAR: {format}\n");
        place.file(name, bytes);
        let said = ends(&place, &format!("import {name} --db new"), 3, &words).stderr;
        assert!(said.contains(hint), "{name}: {said}");
        // A table is known by its end, which a pipe does not show.
        if name != "a.sst" {
            let said = ends_with_input(&place, "import - --db new", bytes, 3, &words);
            assert!(said.contains(hint), "{name}: {said}");
        }
    }
    let url = "ftp://snapshots.example/a.car.zst";
    let hint = format!("(curl -fL {url} | bedload import - --db nowhere)");
    let said = run(&place, &format!("import {url} --db nowhere")).stderr;
    assert!(said.contains("it is neither a supported URL nor an existing file") && said.contains(&hint), "{said}");
}

/// Runs the program on this standard input. Returns standard error.
#[track_caller]
fn ends_with_input(place: &Place, line: &str, input: &[u8], code: i32, words: &str) -> String {
    let mut command = assert_cmd::Command::from_std(command(place, line));
    let output = command.write_stdin(input).output().expect("it runs");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(code), "{line}: {said}");
    assert!(said.contains(words), "{line}: {said}");
    said
}

#[test]
fn output_never_overwrites_database_files() {
    let place = with_database("1MiB");
    let link = |name: &str, to: &Path| std::os::unix::fs::symlink(to, place.path(name)).expect("a link");
    link("link.car", &ssts(&place.path("db"))[0]);
    link("dangling.car", &place.path("nowhere"));
    let inside = "would be a file of the RocksDB database";
    for (file, words) in [
        ("db/CURRENT", inside),
        ("db/BEDLOAD.json", inside),
        ("db/new.car", inside),
        ("link.car", inside),
        ("dangling.car", "it is a link to a file that is not there"),
    ] {
        for line in [format!("export db {file}"), format!("generate {file} --size 1MiB")] {
            let said = ends(&place, &format!("{line} --force --format car"), 4, words).stderr;
            assert!(said.contains("hint: "), "{line}: {said}");
        }
    }
    ends(&place, "verify --quiet db", 0, "");
    place.file("list", b"bafkqaaa\n");
    ends(&place, "export db out.car --cids list --report list", 2, "the report would replace the list ");
    assert_eq!(std::fs::read(place.path("list")).expect("it stays"), b"bafkqaaa\n");
}

#[test]
fn values_that_crash_rocksdb_are_refused() {
    let place = with_snapshot("1MiB");
    for (option, words) in [
        ("--set node.db.table_cache_numshardbits=40", "it must be 0 to 19"),
        ("--set node.cf.num_levels=-1", "it must be 1 to 64"),
        ("--set node.db.max_background_flushes=2147483647", "it must be -1 to 1024"),
        ("--set node.table.partition_filters=true", "partitioned filters need a partitioned index"),
        ("--set load.db.recycle_log_file_num=1", "RocksDB refuses `load.db.recycle_log_file_num` = `1`"),
        ("--column-family=", "a column family has a name"),
    ] {
        ends(&place, &format!("import snapshot.car --db db {option}"), 2, words);
        assert_eq!(super::names(&place.path("")).len(), 1, "{option}: nothing is begun");
    }
}

#[test]
fn invalid_utf8_is_a_usage_error() {
    let place = with_database("1MiB");
    place.file("preset.toml", b"\xff\xfe");
    let words = "is not a preset: invalid utf-8";
    let said = ends(&place, "import snapshot.car --db other --preset preset.toml", 2, words).stderr;
    assert!(said.contains("hint: a preset is a text file"), "{said}");
    let words = "standard input is not UTF-8 text\nhint: give one key a line";
    ends_with_input(&place, "get - --db db", b"\xff\n", 2, words);
}

#[test]
fn dash_is_always_standard_input() {
    let place = Place::in_memory();
    std::fs::create_dir(place.path("-")).expect("made");
    for line in ["import - --db db", "inspect -"] {
        ends_with_input(&place, line, b"PK\x03\x04 and the rest", 3, "it is a zip archive");
        ends_with_input(&place, line, b"", 3, "hint: check the command before the pipe\n");
    }
}

#[test]
fn usage_error_has_error_and_hint() {
    ends(&Place::in_memory(), "", 2, "Usage: bedload");
    let (error, hint) = ("unexpected argument '--memry' found", "a similar argument exists: '--memory'");
    let ended = ends(&Place::in_memory(), "import a.car --db d --memry 1G --json", 2, "");
    assert_eq!(ended.stderr, format!("error: {error}\nhint: {hint}\n"));
    let expected = serde_json::json!({ "schema": "bedload-error-1", "error": error, "hint": hint, "exit": 2 });
    assert_eq!(ended.json(), expected);
}
