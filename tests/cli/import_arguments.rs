//! The arguments of `import`: where the database is named, what wrong ones suggest, and what no import waits for.

use std::time::Duration;

use crate::cli::{command, ends, output, shell, with_snapshot};
use crate::common::run::{Place, hermetic};

/// Runs the command of a hint in a shell.
#[track_caller]
fn obey(place: &Place, hint: &str) {
    let ended = shell(&place.path(""), hint);
    assert_eq!(ended.code, Some(0), "{hint}: {ended:?}");
}

#[test]
fn import_takes_the_database_by_position() {
    let place = with_snapshot("200K");
    std::fs::copy(place.path("snapshot.car"), place.path("more.car")).expect("copied");
    for line in ["import snapshot.car one", "import snapshot.car more.car two", "import snapshot.car one --replace"] {
        ends(&place, line, 0, "");
    }
    assert!(place.path("one/BEDLOAD.json").exists() && place.path("two/BEDLOAD.json").exists());
    // An existing snapshot is no database, and neither is what has the name of one.
    std::fs::create_dir(place.path("cars")).expect("created");
    std::fs::rename(place.path("more.car"), place.path("cars/more.car")).expect("renamed");
    for last in ["cars", "typo.car", "snapshot.car", "-"] {
        let said = ends(&place, &format!("import snapshot.car {last}"), 2, "").stderr;
        let begin = format!("error: no database is given\nhint: bedload import snapshot.car {last} ");
        assert!(said.starts_with(&begin) && said.ends_with(" --db snapshot.db\n"), "{last}: {said}");
    }
    assert!(!place.path("snapshot.db").exists());
    ends(&place, "import snapshot.car --bundle place --replace", 2, "error: --replace needs --db");
}

#[test]
fn hints_with_spaces_can_be_run() {
    let place = with_snapshot("200K");
    let mut tar = hermetic("tar");
    tar.args(["-cf", "an archive.tar", "snapshot.car"]).current_dir(place.path(""));
    assert!(tar.status().expect("tar").success());
    std::fs::rename(place.path("snapshot.car"), place.path("it's a.car")).expect("renamed");
    let refused = output(command(&place, "import --set node.table.block_size=32K --json").arg("it's a.car"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.starts_with("error: no database is given\n"), "{refused:?}");
    let document = refused.json();
    assert_eq!((document["hint"].as_str(), document["exit"].as_u64()), (Some(refused.hint()), Some(2)));
    obey(&place, refused.hint());
    assert!(place.path("it's a.db/BEDLOAD.json").exists());

    let refused = output(command(&place, "import").args(["an archive.tar", "--db", "my db"]));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let hint = refused.hint().split_once(": ").expect("a command").1;
    assert!(hint.starts_with("tar -xOf 'an archive.tar' | bedload import - --db 'my db'"), "{hint}");
    obey(&place, hint);
    assert!(place.path("my db/BEDLOAD.json").exists());
}

#[test]
fn import_ends_with_commands_to_copy() {
    let place = with_snapshot("200K");
    let db = place.path("my db");
    let text = output(command(&place, "import snapshot.car --db").arg(&db)).stdout;
    let lines: Vec<&str> = text.lines().collect();
    let [.., said, check, read] = &*lines else { panic!("{text}") };
    assert_eq!(*said, "complete  the database can be used");
    let check = check.strip_prefix("check it  ").expect("how to check");
    assert_eq!(check, format!("bedload verify '{}'", db.display()));
    for line in [check, read.strip_prefix("read it   ").expect("how to read")] {
        let ended = shell(&place.path(""), line);
        assert!(ended.code == Some(0) && !ended.stdout.is_empty(), "{line}: {ended:?}");
    }
}

#[test]
fn unknown_arguments_get_useful_hints() {
    let place = Place::in_memory();
    for (line, hint) in [
        ("bench a.car --report r", "bench writes report.md and results.json into "),
        ("bench --report r", "bench writes report.md"),
        ("walk db --report r", "--json prints the report on standard output"),
        ("seed p --db d --dry-run", "omit it: only `bedload import` has a dry run"),
        ("verify db --dry-run", "omit it: only `bedload import` has a dry run"),
        ("import a.car --db d -v", "--progress lines shows more"),
        ("verify db --verbose", "--progress lines shows more"),
        ("presets ingest", "bedload presets show ingest"),
        ("presets ingst", "bedload presets show ingest"),
        ("presets ./mine.toml", "bedload presets show ./mine.toml"),
        ("presets foo", "`bedload presets` lists the presets, bedload presets --help the commands"),
        ("foo", "bedload --help lists the commands"),
        ("import a.car --db d --sign key", "add --bundle <PLACE>; bedload import --help explains the options"),
        ("version", "bedload --version"),
        ("import a.car --db d --force", "bedload import a.car --db d --replace"),
        ("import a.car --output=d", "bedload import a.car --db d"),
        ("verify d -j 3", "bedload verify d --threads 3"),
        ("clean d -j 3", "bedload clean --help lists the options"),
        ("presets diff ingest", "for example: bedload presets diff ingest memtable"),
        ("verify", "for example: bedload verify /data/blocks --against snapshot.forest.car.zst"),
        ("bundle s", "for example: bedload bundle /data/blocks --to s3://bucket/mainnet"),
        ("seed b", "for example: bedload seed https://host/mainnet --db /data/blocks"),
        ("clean", "for example: bedload clean /data --dry-run"),
    ] {
        let ended = ends(&place, line, 2, "");
        assert!(ended.hint().starts_with(hint), "{line}: {ended:?}");
    }
}

#[test]
fn directory_with_cars_and_log_is_refused() {
    let place = Place::in_memory();
    std::fs::create_dir(place.path("both")).expect("created");
    ends(&place, "generate both/a.car --size 200K", 0, "");
    ends(&place, "generate both/block_log --profile steem --size 200K", 0, "");
    assert_eq!(
        ends(&place, "import both --db db", 2, "").stderr,
        "error: both contains both CARs (a.car) and a block log (block_log)\n\
         hint: pass the files, or choose one kind with `bedload import --format car` or `--format block-log`\n"
    );
    for format in ["car", "block-log"] {
        ends(&place, &format!("import both --db {format}.db --format {format}"), 0, "");
    }
}

#[test]
fn import_names_the_origin_of_its_preset() {
    let place = with_snapshot("200K");
    std::fs::create_dir(place.path("bedload")).expect("created");
    let config = place.path("bedload/config.toml");
    for (preset, from) in [("ingest", "default"), ("ingest-compat", "command line"), ("memtable", "config")] {
        let import = |args: &str| {
            let mut command = command(&place, &format!("import snapshot.car {args} --db"));
            command.arg(from).env("XDG_CONFIG_HOME", place.path(""));
            match from {
                "command line" => drop(command.args(["--preset", preset])),
                "config" => std::fs::write(&config, format!("preset = \"{preset}\"\n")).expect("written"),
                _ => {}
            }
            let ended = output(&mut command);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            ended
        };
        let shown = if from == "config" { config.display().to_string() } else { from.to_owned() };
        let line = format!("snapshot.car, preset {preset} ({shown}): ");
        assert!(import("--dry-run").stdout.starts_with(&line));
        let plan = import("--dry-run --json").json();
        let fields = ["source", "preset", "preset_from"].map(|field| plan[field].as_str().expect("text"));
        assert_eq!(fields, ["snapshot.car", preset, &shown]);
        let ended = import("--progress lines");
        assert!(ended.stderr.contains(&line), "{ended:?}");
        assert!(ended.stdout.contains(&format!("preset    {preset} ({shown})\n")), "{ended:?}");
        assert!(ended.stdout.contains("source    snapshot.car\n"), "{ended:?}");
        let report = import("--replace --json").json();
        assert_eq!((report["preset"].as_str(), report["preset_from"].as_str()), (Some(preset), Some(&*shown)));
    }
}

#[test]
fn named_pipes_instead_of_files_are_refused() {
    let place = with_snapshot("200K");
    let one = "pipe/bedload/config.toml";
    for pipe in [one, "parts/block_log_part.0001", "dictionaries/000M.dict.zst"] {
        let pipe = place.path(pipe);
        std::fs::create_dir_all(pipe.parent().expect("a parent")).expect("created");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    }
    let refused = |line: &str, config: &str, code: i32| {
        let mut command = assert_cmd::Command::from_std(command(&place, line));
        let output = command.env("XDG_CONFIG_HOME", place.path(config)).timeout(Duration::from_secs(60)).output();
        let output = output.expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains("is not a regular file"), "{line}: {said}");
    };
    for (line, code) in [
        (format!("import snapshot.car --db db --preset {one}"), 2),
        (format!("import snapshot.car --db db --options-file {one}"), 2),
        (format!("import snapshot.car --db db --checkpoint {one}"), 2),
        (format!("import snapshot.car --db db --checksum sha256:{one}"), 1),
        (format!("import snapshot.car --db db --bundle place --sign {one}"), 2),
        (format!("import @{one} --db db"), 1),
        ("import parts --db db".into(), 1),
        ("generate made --profile hive --size 1M --dictionaries dictionaries".into(), 1),
        (format!("seed place --db db --trust {one}"), 2),
    ] {
        refused(&line, "nowhere", code);
    }
    refused("import snapshot.car --db db", "pipe", 2);
}
