//! The arguments of `import`: where the database is named, what wrong ones suggest, and what no import waits for.

use std::path::Path;
use std::time::Duration;

use crate::common::database::{bedload, generate};
use crate::common::run::{BEDLOAD, bedload as program, hermetic};

/// Runs the program in `dir`. Returns the exit code, standard output and standard error.
fn run(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = program().args(args).current_dir(dir).args(["--progress", "off"]).output().expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Runs the command of a hint in a shell.
fn obey(dir: &Path, hint: &str) {
    let bin = Path::new(BEDLOAD).parent().expect("a directory").display();
    let line = format!("set -o pipefail; PATH={bin}:$PATH; {hint}");
    let output = hermetic("bash").args(["-c", &line]).current_dir(dir).output().expect("bash");
    assert!(output.status.success(), "{hint}: {}", String::from_utf8_lossy(&output.stderr));
}

fn hint(stderr: &str) -> &str {
    stderr.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap_or_else(|| panic!("no hint: {stderr}"))
}

#[test]
fn import_takes_the_database_by_position() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let car = "snapshot.car";
    generate(dir, "200K");
    std::fs::copy(dir.join(car), dir.join("more.car")).expect("copied");
    for args in [&["import", car, "one"][..], &["import", car, "more.car", "two"], &["import", car, "one", "--replace"]]
    {
        let (code, _, stderr) = run(dir, args);
        assert_eq!(code, Some(0), "{args:?}: {stderr}");
    }
    assert!(dir.join("one/BEDLOAD.json").exists() && dir.join("two/BEDLOAD.json").exists());
    // An existing snapshot is no database, and neither is what has the name of one.
    std::fs::create_dir(dir.join("cars")).expect("created");
    std::fs::rename(dir.join("more.car"), dir.join("cars/more.car")).expect("renamed");
    for last in ["cars", "typo.car", car, "-"] {
        let (code, _, stderr) = run(dir, &["import", car, last]);
        assert_eq!(code, Some(2), "{last}: {stderr}");
        let said = format!("error: no database is named\nhint: bedload import snapshot.car {last} ");
        assert!(stderr.starts_with(&said) && stderr.ends_with(" --db snapshot.db\n"), "{last}: {stderr}");
    }
    assert!(!dir.join("snapshot.db").exists());
    let (code, _, stderr) = run(dir, &["import", car, "--bundle", "place", "--replace"]);
    assert!(code == Some(2) && stderr.starts_with("error: --replace needs --db"), "{stderr}");
}

#[test]
fn hint_of_missing_db_can_be_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "200K");
    std::fs::rename(&car, dir.path().join("it's a.car")).expect("renamed");
    let (code, stdout, stderr) =
        run(dir.path(), &["import", "it's a.car", "--set", "node.table.block_size=32K", "--json"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.starts_with("error: no database is named\n"), "{stderr}");
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((document["hint"].as_str(), document["exit"].as_u64()), (Some(hint(&stderr)), Some(2)));
    obey(dir.path(), hint(&stderr));
    assert!(dir.path().join("it's a.db/BEDLOAD.json").exists());
}

#[test]
fn hint_of_an_archive_can_be_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "200K");
    let mut tar = hermetic("tar");
    tar.args(["-cf", "an archive.tar"]).arg(car.file_name().expect("a name")).current_dir(dir.path());
    assert!(tar.status().expect("tar").success());
    let (code, _, stderr) = run(dir.path(), &["import", "an archive.tar", "--db", "my db"]);
    assert_eq!(code, Some(3), "{stderr}");
    let command = hint(&stderr).split_once(": ").expect("a command").1;
    assert!(command.starts_with("tar -xOf 'an archive.tar' | bedload import - --db 'my db'"), "{stderr}");
    obey(dir.path(), command);
    assert!(dir.path().join("my db/BEDLOAD.json").exists());
}

#[test]
fn unknown_arguments_get_useful_hints() {
    let dir = tempfile::tempdir().expect("a directory");
    for (line, says) in [
        ("bench a.car --report r", "bench writes report.md, report.html, report.csv and results.json into "),
        ("bench --report r", "bench writes report.md"),
        ("walk db --report r", "--json prints the report on standard output"),
        ("seed p --db d --dry-run", "omit it: a seed does not touch an existing database until "),
        ("verify db --dry-run", "omit it: only `bedload import` has a dry run"),
        ("import a.car --db d -v", "--progress lines shows more"),
        ("verify db --verbose", "--progress lines shows more"),
        ("presets ingest", "bedload presets show ingest"),
        ("presets ingst", "bedload presets show ingest"),
        ("presets ./mine.toml", "bedload presets show ./mine.toml"),
        ("version", "bedload --version"),
        ("import a.car --db d --check-links", "bedload import a.car --db d --links check"),
        ("import a.car --require-roots --db d", "bedload import a.car --links roots --db d"),
        ("import a.car --require-links --db d", "bedload import a.car --links require --db d"),
        ("import a.car --db d --no-id-index", "bedload import a.car --db d --indexes none"),
        ("import a.car --db d --index transactions", "write --indexes ids,transactions"),
        ("import a.car --db d --force", "bedload import a.car --db d --replace"),
        ("import a.car --output=d", "bedload import a.car --db d"),
        ("verify d -j 3", "bedload verify d --threads 3"),
        ("clean d -j 3", "bedload clean --help lists the options"),
        ("presets diff ingest", "bedload presets diff --help lists the options"),
        ("import a.car --db d --memry 1G", "a similar argument exists: '--memory'"),
        ("verfy d", "a similar subcommand exists: 'verify'"),
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        let (code, _, stderr) = run(dir.path(), &args);
        assert!(code == Some(2) && hint(&stderr).starts_with(says), "{line}: {stderr}");
    }
}

#[test]
fn directory_with_cars_and_log_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let both = dir.path().join("both");
    std::fs::create_dir(&both).expect("created");
    let car = generate(dir.path(), "200K");
    std::fs::rename(car, both.join("a.car")).expect("renamed");
    let (code, ..) = run(dir.path(), &["generate", "both/block_log", "--profile", "steem", "--size", "200K"]);
    assert_eq!(code, Some(0));
    let (code, _, stderr) = run(dir.path(), &["import", "both", "--db", "db"]);
    assert_eq!(
        (code, stderr.as_str()),
        (
            Some(2),
            "error: both holds both CARs (a.car) and a block log (block_log)\n\
             hint: name the files that are meant, or import one kind with --format car or --format block-log\n"
        )
    );
    for (format, db) in [("car", "cars"), ("block-log", "log")] {
        let (code, _, stderr) = run(dir.path(), &["import", "both", "--db", db, "--format", format]);
        assert_eq!(code, Some(0), "{format}: {stderr}");
    }
}

#[test]
fn import_names_the_origin_of_its_preset() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "200K");
    let config = dir.path().join("bedload/config.toml");
    for (preset, from) in [
        ("ingest", "default"),
        ("ingest-compat", "command line"),
        ("memtable", "BEDLOAD_PRESET"),
        ("memtable", "config"),
    ] {
        let import = |args: &[&str]| {
            let mut command = program();
            command.env("XDG_CONFIG_HOME", dir.path()).arg("import").arg(&car).args(args);
            match from {
                "command line" => command.args(["--preset", preset]),
                "BEDLOAD_PRESET" => command.env("BEDLOAD_PRESET", preset),
                "config" => {
                    std::fs::create_dir_all(config.parent().expect("a parent")).expect("created");
                    std::fs::write(&config, format!("preset = \"{preset}\"\n")).expect("written");
                    &mut command
                }
                _ => &mut command,
            };
            let output = command.output().expect("run");
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
            let (stdout, stderr) = (text(output.stdout), text(output.stderr));
            assert!(output.status.success(), "{stderr}");
            (stdout, stderr)
        };
        let shown = if from == "config" { config.display().to_string() } else { from.to_owned() };
        let db = dir.path().join(from).display().to_string();
        let line = format!("{}, preset {preset} ({shown}): ", car.display());
        assert!(import(&["--db", &db, "--dry-run"]).0.starts_with(&line));
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        let plan = json(&import(&["--db", &db, "--dry-run", "--json"]).0);
        let fields = ["source", "preset", "preset_from"].map(|field| plan[field].as_str().expect("text"));
        assert_eq!(fields, [&car.display().to_string(), preset, &shown]);
        let (stdout, stderr) = import(&["--db", &db, "--progress", "lines"]);
        assert!(stderr.contains(&line), "{stderr}");
        assert!(stdout.contains(&format!("preset    {preset} ({shown})\n")), "{stdout}");
        assert!(stdout.contains(&format!("source    {}\n", car.display())), "{stdout}");
        let report = json(&import(&["--db", &db, "--replace", "--json"]).0);
        assert_eq!((report["preset"].as_str(), report["preset_from"].as_str()), (Some(preset), Some(&*shown)));
    }
}

#[test]
fn named_pipes_instead_of_files_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "200K");
    let pipe = |name: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).expect("a pipe");
        path.display().to_string()
    };
    let (one, part, config) = (pipe("pipe"), pipe("parts/block_log_part.0001"), pipe("config/bedload/config.toml"));
    let dictionaries = Path::new(&pipe("dictionaries/000M.dict.zst")).parent().expect("a parent").to_owned();
    let car = car.to_str().expect("text");
    let log = dir.path().join("made").display().to_string();
    let dictionaries = dictionaries.to_str().expect("text");
    let list = format!("@{one}");
    let parts = Path::new(&part).parent().expect("a parent").to_str().expect("text");
    for (args, code) in [
        (&["import", car, "--preset", &one][..], 2),
        (&["import", car, "--options-file", &one], 2),
        (&["import", car, "--checkpoint", &one], 2),
        (&["import", car, "--checksum", &format!("sha256:{one}")], 1),
        (&["import", car, "--bundle", "place", "--sign", &one], 2),
        (&["import", &list], 1),
        (&["import", parts], 1),
        (&["generate", &log, "--profile", "hive", "--size", "1M", "--dictionaries", dictionaries], 1),
        (&["seed", "place", "--trust", &one], 2),
    ] {
        let db = if args[0] == "generate" { &[][..] } else { &["--db", "db"] };
        let mut command = bedload();
        let output = command.current_dir(dir.path()).args(args).args(db).timeout(Duration::from_secs(60)).output();
        let output = output.expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains("is no regular file"), "{args:?}: {said}");
    }
    let mut command = bedload();
    command.env("XDG_CONFIG_HOME", Path::new(&config).ancestors().nth(2).expect("a parent"));
    let output = command.args(["import", car, "--db", "db"]).timeout(Duration::from_secs(60)).output().expect("run");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}
