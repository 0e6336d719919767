//! Guarantees of the workflows, the image and the package scripts, read from their files.

use crate::project::{listed, read, root};

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
fn image_runs_as_a_user() {
    let file = read("Containerfile");
    let user = file.lines().filter_map(|line| line.strip_prefix("USER ")).next_back().expect("a user");
    assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "{user}");
    // Kubernetes mounts a volume that belongs to root.
    let (_, group) = user.split_once(':').expect("a group");
    assert!(read("examples/fleet/kubernetes.yaml").contains(&format!("fsGroup: {group}}}")), "{group}");
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
