//! The command line: results, pipes, colors, and refused arguments.

use std::path::Path;

use crate::common::database::{bedload, generate, import};
use crate::common::run::bedload as program;

#[test]
fn database_is_named_by_position_or_option() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    let db = import(dir.path(), &car, &[]);
    let db = db.to_str().expect("text");
    let run = |args: &[&str]| {
        let output = program().args(args).args(["--progress", "off"]).output().expect("run");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    for command in ["verify", "walk", "stat"] {
        for args in [&[command, db][..], &[command, "--db", db], &[command, db, "--quiet"]] {
            let (code, stdout, stderr) = run(args);
            assert_eq!((code, stdout.contains(db), stderr.as_str()), (Some(0), true, ""), "{args:?}");
        }
        let (code, _, stderr) = run(&[command]);
        assert!(code == Some(2) && stderr.contains("were not provided: <DB>"), "{stderr}");
        let (code, _, stderr) = run(&[command, db, "--db", db]);
        assert!(code == Some(2) && stderr.contains("cannot be used with '--db <DIR>'"), "{stderr}");
    }
    let out = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    for args in [&["export", db, &out("a.car")][..], &["export", "--db", db, &out("b.car"), "-q"]] {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, stdout.contains("digest"), stderr.as_str()), (Some(0), true, ""), "{args:?}");
    }
    let (code, _, stderr) = run(&["export", &out("c.car")]);
    assert!(
        code == Some(2)
            && stderr
                .starts_with("error: a file to write is needed\nhint: name both, e.g. bedload export chain chain.car"),
        "{stderr}"
    );
    let (code, stdout, _) = run(&["generate", &out("d.car"), "--size", "100K", "-q"]);
    assert_eq!((code, stdout.contains("blocks")), (Some(0), true), "{stdout}");
    let (code, stdout, _) = run(&["get", db, "--epoch", "0"]);
    assert!(code == Some(0) && stdout.contains("\"Height\":0"), "{stdout}");
    for args in [&["get"][..], &["get", db], &["get", "--db", db]] {
        let (code, _, stderr) = run(args);
        let said = "error: a database and a key are needed\nhint: name both, as in `bedload get \
                    chain 1000`\n";
        assert_eq!((code, stderr.as_str()), (Some(2), said), "{args:?}");
    }
}

/// The output of a shell, and the exit code of the pipe's first command.
fn piped(line: &str) -> (String, String, Option<i32>) {
    let line = line.replace("bedload", crate::common::run::BEDLOAD);
    let output = crate::common::run::hermetic("bash").args(["-o", "pipefail", "-c", &line]).output().expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn closed_pipe_ends_a_command_quietly() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "3MiB");
    let db = import(dir.path(), &car, &[]);
    let (car, db) = (car.display(), db.display());
    for (line, lines) in [
        ("bedload presets list | head -1".to_owned(), 1),
        ("bedload presets explain ingest | head -2".to_owned(), 2),
        (format!("bedload inspect --list {car} | head -3"), 3),
        (format!("bedload stat --db {db} | head -1"), 1),
        (format!("bedload stat --json --db {db} | head -1"), 1),
        ("bedload completions bash | head -1".to_owned(), 1),
        ("bedload man | head -1".to_owned(), 1),
        (format!("bedload export --progress off -q --db {db} - | head -c 1 | tr -c x y; echo"), 1),
        ("bedload generate --size 3MiB - | head -c 1 | tr -c x y; echo".to_owned(), 1),
    ] {
        let (stdout, stderr, code) = piped(&line);
        assert_eq!((stdout.lines().count(), stderr.as_str(), code), (lines, "", Some(0)), "{line}");
    }
}

#[test]
fn quiet_hides_progress_but_not_results() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |args: &[&str]| {
        let output = program().args(args).current_dir(dir.path()).output().expect("run");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).expect("text"), String::from_utf8(output.stderr).expect("text"))
    };
    for (args, result) in [
        (&["generate", "a.car", "--size", "1MiB"][..], "a.car: "),
        (&["generate", "b.car", "--size", "1MiB", "--json"], "\"schema\": \"bedload-generate-1\""),
        (&["generate", "log", "--size", "1MiB", "--profile", "steem"], "log: "),
        (&["import", "a.car", "--db", "db"], "digest"),
        (&["verify", "--db", "db"], "digest"),
        (&["walk", "--db", "db"], "reachable"),
        (&["export", "--db", "db", "c.car"], "c.car"),
    ] {
        let (stdout, stderr) = run(&[args, &["--quiet"]].concat());
        assert!(stdout.contains(result), "{args:?}: {stdout}");
        assert_eq!(stderr, "", "{args:?}");
    }
    // The end of a snapshot is missing: a warning, and no narration.
    let mut blocks = crate::common::car::sections(&std::fs::read(dir.path().join("a.car")).expect("a file"));
    let (absent, _) = blocks.remove(0);
    let lacks = crate::common::car::car(&[absent], &blocks);
    std::fs::write(dir.path().join("lacks.car"), lacks).expect("written");
    for (db, more) in [("q", &["-q"][..]), ("off", &["--progress", "off"])] {
        let (_, stderr) = run(&[&["import", "lacks.car", "--links", "check", "--db", db][..], more].concat());
        assert!(stderr.lines().all(|line| line.starts_with("warning: ")), "{stderr}");
        assert!(stderr.contains("1 of 1 roots") && stderr.contains(" that they link to"), "{stderr}");
    }
    let (_, stderr) = run(&["generate", "d.car", "--size", "1MiB", "--quiet", "--progress", "lines"]);
    assert!(stderr.starts_with("generate ") && stderr.contains(" blocks, 1.0 MiB"), "{stderr}");
    let (_, stderr) = run(&["doctor", "d.car", "--quiet", "--progress", "json"]);
    for phase in ["measure", "sample"] {
        assert!(stderr.contains(&format!("\"phase\":\"{phase}\"")), "{stderr}");
    }
}

#[test]
fn missing_output_directory_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = ["generate", "gone/a.car", "--size", "1MiB"];
    let output = program().args(made).current_dir(dir.path()).output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(
        said,
        "error: create gone/a.car: No such file or directory (os error 2)\n\
         hint: there is no directory gone: check the path, or make it: mkdir -p gone\n"
    );
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
    let file = folder.join("a.car");
    let output = program().arg("generate").arg(&file).args(["--size", "1MiB"]).output().expect("run");
    let (file, folder) = (file.display(), folder.display());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!(
            "error: create {file}: Permission denied (os error 13)\n\
             hint: this user may not write to {folder} (ls -ld {folder}): choose another place, or run the command as its owner\n"
        )
    );
}

#[test]
fn plan_and_record_report_spilling() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "4MiB");
    let packed = dir.path().join("packed.car.zst");
    std::fs::write(&packed, crate::common::car::zstd(&std::fs::read(&car).expect("a file"))).expect("written");
    let run = |args: &[&str]| {
        let output = program().args(args).current_dir(dir.path()).output().expect("run");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        (text(&output.stdout), text(&output.stderr))
    };
    let (plan, _) = run(&["import", "packed.car.zst", "--db", "dry", "--dry-run"]);
    assert!(
        plan.starts_with(
            "packed.car.zst, preset ingest (default): sort in memory if all fits, else spill to partitions and sort each in \
             memory: "
        ),
        "{plan}"
    );
    let (plan, _) = run(&["import", "snapshot.car", "--db", "dry", "--dry-run", "--threads", "1"]);
    assert!(plan.starts_with("snapshot.car, preset ingest (default): sort in memory: 1 thread, "), "{plan}");
    let insists = ["import", "packed.car.zst", "--plan", "memory", "--memory"];
    let (_, stderr) = run(&[&insists[..], &["16MiB", "--db", "small"]].concat());
    assert!(
        stderr.contains("warning: the blocks do not fit the ") && stderr.contains("in spite of --plan memory"),
        "{stderr}"
    );
    assert_eq!(stderr.matches("warning: ").count(), 1, "{stderr}");
    // Without it this is stderr as it happens, and in the summary.
    let auto = ["import", "packed.car.zst", "--memory", "16MiB", "--db"];
    let (text, stderr) = run(&[&auto[..], &["auto"]].concat());
    assert!(stderr.contains("\nspill    the blocks do not fit the ") && !stderr.contains("warning: "), "{stderr}");
    assert!(text.contains("\nspilled   the blocks did not fit into memory and were written to files"), "{text}");
    let (text, stderr) = run(&[&auto[..], &["quiet", "-q"]].concat());
    assert!(stderr.is_empty() && text.contains("\nspilled   "), "{stderr}{text}");
    let (text, stderr) = run(&[&auto[..], &["planned", "--plan", "spill"]].concat());
    assert!(!stderr.contains("\nspill ") && !text.contains("\nspilled "), "{stderr}{text}");
    let (_, stderr) = run(&[&insists[..], &["1GiB", "--db", "large"]].concat());
    assert!(!stderr.contains("warning: "), "{stderr}");
    let (text, _) = run(&["stat", "--db", "large"]);
    let row =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    let year = humantime::parse_rfc3339(row("imported  ")).expect("a time");
    assert!(year.elapsed().expect("not in the future").as_secs() < 3600, "{text}");
    assert!(row("head      ").starts_with("filecoin, epoch "), "{text}");
}

#[test]
fn tables_fit_80_columns() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |args: &[&str]| {
        let output = program().args(args).current_dir(dir.path()).output().expect("run");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    run(&["generate", "log", "--profile", "steem", "--size", "1MiB", "-q"]);
    run(&["import", "log", "--db", "chain", "--indexes", "ids,transactions", "-q"]);
    for args in [&["presets", "list"][..], &["presets", "diff", "ingest", "memtable"], &["stat", "chain"]] {
        let text = run(args);
        let widest = text.lines().max_by_key(|line| line.chars().count()).expect("a table");
        assert!(widest.chars().count() <= 80, "{args:?}: {widest}");
    }
    // Of a structure the fields that differ, under the names that can be set.
    let text = run(&["stat", "chain"]);
    assert!(text.contains("cf.compression_opts.level = 3 (default 32767)\n") && !text.contains('{'), "{text}");
}

#[test]
fn dry_run_prints_its_plan_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    let output = program().args(["import", "--db", "db", "--dry-run"]).arg(&car).current_dir(dir.path()).output();
    let output = output.expect("run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.matches("sort in memory: ").count(), 1, "{text}");
}

#[test]
fn other_file_formats_are_recognized() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    let db = import(dir.path(), &car, &[]);
    let sst = crate::common::database::ssts(&db).remove(0);
    let mut tar = vec![b'a'; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    let index: Vec<u8> = (0..500u64).flat_map(|block| (block * 300).to_le_bytes()).collect();
    let packed = crate::common::car::zstd(&tar);
    for (name, bytes, what, hint) in [
        ("a.zip", &b"PK\x03\x04 and the rest of it"[..], "it is a zip archive", "unzip -p"),
        ("a.tar", &tar, "it is a tar archive", "tar -xOf"),
        ("a.tar.zst", &packed, "it is a tar archive", "tar -xOf"),
        ("a.bz2", b"BZh91AY&SY", "it is bzip2 data", "bzip2 -dc "),
        ("a.sst", &std::fs::read(sst).expect("a table"), "it is a table of RocksDB", "bedload stat --db"),
        ("block_log.index", &index, "it is the index of a block log", "give the log itself"),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        // A table is known by its end, which a pipe does not show.
        for piped in [false, true].into_iter().filter(|piped| !piped || name != "a.sst") {
            let mut command = bedload();
            match piped {
                false => command.arg("import").arg(&path),
                true => command.args(["import", "-"]).write_stdin(bytes),
            };
            let output = command.arg("--db").arg(dir.path().join("new")).output().expect("run");
            let said = String::from_utf8(output.stderr).expect("text");
            assert_eq!(output.status.code(), Some(3), "{name}: {said}");
            assert!(said.contains(&format!("this is not a CAR: {what}\n")) && said.contains(hint), "{name}: {said}");
        }
    }
    let url = program().args(["import", "ftp://snapshots.example/a.car.zst", "--db", "nowhere"]).output();
    let said = String::from_utf8(url.expect("run").stderr).expect("text");
    assert!(
        said.contains("it is neither a supported URL nor an existing file")
            && said.contains("(curl -fL ftp://snapshots.example/a.car.zst | bedload import - --db nowhere)"),
        "{said}"
    );
}

#[test]
fn output_never_overwrites_database_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    let db = import(dir.path(), &car, &[]);
    let table = crate::common::database::ssts(&db).remove(0);
    let (link, dangling) = (dir.path().join("link.car"), dir.path().join("dangling.car"));
    std::os::unix::fs::symlink(&table, &link).expect("a link");
    std::os::unix::fs::symlink(dir.path().join("nowhere"), &dangling).expect("a link");
    let in_it = "would be a file of the RocksDB database";
    for (file, what) in [
        (&db.join("CURRENT"), in_it),
        (&db.join("BEDLOAD.json"), in_it),
        (&db.join("new.car"), in_it),
        (&link, in_it),
        (&dangling, "it is a link to a file that is not there"),
    ] {
        for command in ["export", "generate"] {
            let mut program = program();
            program.arg(command);
            match command {
                "export" => program.arg(&db).arg(file),
                _ => program.arg(file).args(["--size", "1MiB"]),
            };
            let output = program.args(["--force", "--format", "car"]).output().expect("run");
            let said = String::from_utf8(output.stderr).expect("text");
            assert_eq!(output.status.code(), Some(4), "{command} {file:?}: {said}");
            assert!(said.contains(what) && said.contains("hint: "), "{command} {file:?}: {said}");
        }
    }
    bedload().args(["verify", "--quiet"]).arg(&db).assert().success();
    let list = dir.path().join("list");
    std::fs::write(&list, "bafkqaaa\n").expect("written");
    let mut program = program();
    program.arg("export").arg(&db).arg(dir.path().join("out.car")).arg("--cids").arg(&list).arg("--report").arg(&list);
    let output = program.output().expect("run");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the report would replace the list "), "{said}");
    assert_eq!(std::fs::read(&list).expect("it stays"), b"bafkqaaa\n");
}

#[test]
fn values_that_crash_rocksdb_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    for (set, words) in [
        (["--set", "node.db.table_cache_numshardbits=40"], "it must be 0 to 19"),
        (["--set", "node.cf.num_levels=-1"], "it must be 1 to 64"),
        (["--set", "node.db.max_file_opening_threads=2147483647"], "it must be 1 to 1024"),
        (["--set", "node.db.max_background_flushes=2147483647"], "it must be -1 to 1024"),
        (["--set", "node.db.max_background_jobs=2147483647"], "it must be -1 to 1024"),
        (["--set", "node.table.partition_filters=true"], "partitioned filters need a partitioned index"),
        (["--set", "node.cf.preclude_last_level_data_seconds=18446744073709551615"], "it must be 0 to 4294967295"),
        (["--set", "node.table.block_restart_interval=0"], "it must be 1 to 2147483647"),
        (["--set", "node.db.allow_ingest_behind=true"], "it reserves the last level"),
        (["--set", "node.db.recycle_log_file_num=1"], "RocksDB refuses `node.db.recycle_log_file_num` = `1`"),
        (
            ["--set", "node.table.user_defined_index_factory=trie_index"],
            "RocksDB refuses `node.table.user_defined_index",
        ),
        (["--column-family", ""], "a column family has a name"),
    ] {
        let db = dir.path().join("db");
        let output = program().arg("import").arg(&car).arg("--db").arg(&db).args(set).output().expect("run");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{set:?}: {said}");
        assert!(said.contains(words), "{set:?}: {said}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1, "{set:?}: nothing is begun");
    }
}

#[test]
fn closed_pipe_does_not_fail_an_import() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    for (db, more) in [("text", None), ("json", Some("--json"))] {
        let db = dir.path().join(db);
        let mut command = program();
        command.arg("import").arg(&car).arg("--db").arg(&db).args(["--progress", "off"]).args(more);
        let mut child =
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("run");
        drop(child.stdout.take());
        let done = child.wait_with_output().expect("ours");
        assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(0), ""));
        bedload().args(["verify", "--quiet", "--db"]).arg(&db).assert().success();
    }
}

#[test]
fn colors_need_a_terminal_and_consent() {
    let failing = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = program();
        command.args(["stat", "--db", "/nowhere"]).args(args).envs(env.iter().copied());
        String::from_utf8(command.output().expect("run").stderr).expect("text")
    };
    assert!(!failing(&[], &[]).contains('\x1b'));
    assert!(failing(&["--color", "always"], &[]).contains("\x1b[1;31merror:\x1b[0m"));
    // A terminal of its own, from util-linux; without it there is nothing to look at.
    let on_terminal = |env: &str| {
        let line = format!("{env} {} stat --db /nowhere", crate::common::run::BEDLOAD);
        let output = crate::common::run::hermetic("script").args(["-qec", &line, "/dev/null"]).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(coloured) = on_terminal("NO_COLOR= TERM=xterm") else {
        crate::common::skipped("there is no `script` (util-linux) to make a terminal");
        return;
    };
    assert!(coloured.contains("\x1b[1;31merror:"), "{coloured:?}");
    for env in ["NO_COLOR=1 TERM=xterm", "NO_COLOR= TERM=dumb"] {
        let plain = on_terminal(env).expect("it ran before");
        assert!(plain.contains("error: ") && !plain.contains('\x1b'), "{env}: {plain:?}");
    }
}

#[test]
fn invalid_utf8_is_a_usage_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    let preset = dir.path().join("preset.toml");
    std::fs::write(&preset, b"\xff\xfe").expect("written");
    let db = dir.path().join("other");
    let refused = bedload().arg("import").arg(&car).arg("--db").arg(&db).arg("--preset").arg(&preset).assert().code(2);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(
        said.contains("is not a preset: invalid utf-8") && said.contains("hint: a preset is a text file"),
        "{said}"
    );
    let db = import(dir.path(), &car, &[]);
    let refused = bedload().args(["get", "-", "--db"]).arg(&db).write_stdin(&b"\xff\n"[..]).assert().code(2);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("standard input is not UTF-8 text\nhint: give one key a line"), "{said}");
}

#[test]
fn dash_is_always_standard_input() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("-")).expect("made");
    let command = |args: &[&str]| {
        let mut command = crate::common::run::program();
        let output =
            command.args(args).current_dir(dir.path()).write_stdin("PK\x03\x04 and the rest").output().expect("run");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    for args in [&["import", "-", "--db", "db"][..], &["inspect", "-"]] {
        let (code, stderr) = command(args);
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stderr.contains("it is a zip archive"), "{stderr}");
    }
}
