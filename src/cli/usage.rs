//! Wrong command lines, told as every other error is: one `error:` line, one `hint:` line, exit code 2.

use bedload::Exit;
use clap::error::ErrorKind;

/// Ends the program: with the help or version that was asked for, or with what is wrong.
pub fn end(error: &clap::Error) -> ! {
    let asked_for = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion].contains(&error.kind());
    // Without any argument the help is the best answer, but no success.
    if asked_for || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        error.exit();
    }
    let args: Vec<String> = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let (message, hint) = lines(&error.render().to_string(), &args);
    let color = match args.iter().position(|arg| arg.starts_with("--color")) {
        Some(at) if args[at].ends_with("=never") || args.get(at + 1).is_some_and(|arg| arg == "never") => false,
        _ => super::stderr_wants_color(),
    };
    super::tell(&message, &hint, color);
    if args.iter().any(|arg| arg == "--json") {
        let _ = super::print_json(&super::error_document(&message, &hint, Exit::Usage));
    }
    std::process::exit(Exit::Usage as i32)
}

/// What clap says in several paragraphs, as message and hint.
fn lines(rendered: &str, args: &[String]) -> (String, String) {
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = rendered.split("\n\n");
    let message = joined(paragraphs.next().unwrap_or_default());
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    let tips: Vec<String> = rendered.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).map(joined).collect();
    if !tips.is_empty() {
        return (message, tips.join("; "));
    }
    let known = super::command();
    let command = args.iter().find(|arg| known.find_subcommand(arg.as_str()).is_some());
    let command = command.map(|command| format!(" {command}")).unwrap_or_default();
    (message, format!("bedload{command} --help shows what there is"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> (String, String) {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let error = super::super::command()
            .try_get_matches_from(std::iter::once("bedload".to_owned()).chain(args.iter().cloned()))
            .expect_err(line);
        lines(&error.render().to_string(), &args)
    }

    #[test]
    fn what_is_wrong_comes_as_one_line_and_the_next_step_as_another() {
        for (line, message, hint) in [
            (
                "import a.car --db d --memry 1G",
                "unexpected argument '--memry' found",
                "a similar argument exists: '--memory'",
            ),
            ("verfy", "unrecognized subcommand 'verfy'", "a similar subcommand exists: 'verify'"),
            (
                "import a.car",
                "the following required arguments were not provided: --db <DIR>",
                "bedload import --help shows what there is",
            ),
            (
                "walk --db d --depth 5",
                "invalid value '5' for '--depth <tipsets=N>': write it as tipsets=2000",
                "bedload walk --help shows what there is",
            ),
            (
                "import a.car --db d --key cidd",
                "invalid value 'cidd' for '--key <LAYOUT>' [possible values: cid, multihash, digest]",
                "a similar value exists: 'cid'",
            ),
            (
                "export --db d a.car --all --cids b",
                "the argument '--all' cannot be used with '--cids <FILE>'",
                "bedload export --help shows what there is",
            ),
        ] {
            assert_eq!(said(line), (message.to_owned(), hint.to_owned()), "{line}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        super::super::command().debug_assert();
    }
}
