//! Guarantees of the workflows, the image and the package scripts, read from their files.

use crate::project::{listed, read, root};

/// Lines of one job of a workflow.
fn job(workflow: &str, name: &str) -> String {
    let text = read(format!(".github/workflows/{workflow}.yml"));
    let (_, rest) = text.split_once(&format!("\n  {name}:\n")).unwrap_or_else(|| panic!("no job {name}"));
    rest.lines().take_while(|line| line.is_empty() || line.starts_with("   ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn workflows_pin_actions_by_commit() {
    let mut pinned = 0;
    for path in listed(".github/workflows") {
        let text = read(path);
        for action in text.lines().filter_map(|line| line.split_once("uses: ")).map(|(_, action)| action) {
            if action.starts_with("./") {
                assert!(root().join(action).is_file(), "{action}");
                continue;
            }
            let (_, commit) = action.split_once('@').expect(action);
            let (commit, version) = commit.split_once(" # v").unwrap_or_else(|| panic!("no version: {action}"));
            assert!(commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{action}");
            assert_eq!(version.split('.').count(), 3, "{action}");
            pinned += 1;
        }
    }
    assert!(pinned > 5);
}

#[test]
fn check_runs_compatibility_and_server_tests() {
    let test = job("check", "test");
    let at = |step: &str| test.find(&format!("- run: {step}\n")).unwrap_or_else(|| panic!("no {step}: {test}"));
    assert!(at("scripts/old-rocksdb") < at("make test") && at("scripts/servers") < at("make test"));
    // Debian 12 has the old RocksDB; Ubuntu has not.
    assert!(test.contains("bookworm") && test.contains("-arm]"), "{test}");
}

#[test]
fn release_needs_check_and_packages() {
    assert!(job("release", "check").contains("uses: ./.github/workflows/check.yml"));
    assert!(job("release", "packages").contains("uses: ./.github/workflows/packages.yml"));
    assert!(job("release", "publish").contains("needs: [check, packages, image, crate]"));
    let packages = read(".github/workflows/packages.yml");
    assert!(packages.contains("schedule:") && packages.contains("arch: aarch64"), "{packages}");
    assert!(packages.contains("make release-files") && packages.contains("scripts/test-packages"), "{packages}");
}

#[test]
fn image_runs_as_a_user() {
    let file = read("Containerfile");
    let user = file.lines().filter_map(|line| line.strip_prefix("USER ")).next_back().expect("a user");
    assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "{user}");
    // Kubernetes mounts a volume that belongs to root.
    let (_, group) = user.split_once(':').expect("a group");
    assert!(read("examples/fleet/kubernetes.yaml").contains(&format!("fsGroup: {group}}}")), "{group}");
}

#[test]
fn image_is_built_from_listed_files() {
    let ignored = read(".dockerignore");
    let mut lines = ignored.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(lines.next(), Some("*"));
    let listed: Vec<&str> = lines.map(|line| line.strip_prefix('!').expect("a file that is taken")).collect();
    // The manifest names tests, benches and examples; cargo refuses it without them.
    for needed in ["Cargo.toml", "Cargo.lock", "Makefile", "scripts", "src", "configs", "tests", "benches", "examples"]
    {
        assert!(listed.contains(&needed), "{needed}");
    }
    assert!(!listed.iter().any(|name| ["target", ".git", ".cargo"].contains(name)), "{listed:?}");
}

#[test]
fn files_keep_their_guarantees() {
    for (path, text, is_there) in [
        ("scripts/portable", "LARGEST=$((32 << 20))", true),
        // Debian's version.
        ("examples/go/go.mod", "\ngo 1.19\n", true),
        ("examples/go/read.go", "Go 1.19", true),
        ("examples/go/read.go", "golang-go", true),
        // The program replaces no symbol of the linker.
        ("src/main.rs", "export_name", false),
        ("src/cli/last_resort.rs", "link_name", false),
    ] {
        assert_eq!(read(path).contains(text), is_there, "{path}: {text}");
    }
    assert!(!root().join("build.rs").exists());
}

#[test]
fn recording_shows_the_last_screen_first() {
    let picture = read("docs/recording.svg");
    // Lines of the last screen are those that are shown without animation.
    let last: Vec<&str> = picture
        .lines()
        .filter(|line| line.starts_with("<text y=\"") && !line.contains("visibility=\"hidden\""))
        .collect();
    assert!(last.len() > 10 && last.iter().all(|line| line.contains("values=\"visible;hidden;visible\"")), "{last:#?}");
    assert_eq!(picture.matches("values=\"visible").count(), last.len());
}
