//! Wrong command lines, printed as every other error is: one `error:` line, one `hint:` line, exit code 2.

use std::io;

use crate::Exit;
use crate::preset::{Preset, nearest_of};
use clap::error::ErrorKind;

use crate::cli::command_line::command_line;
use crate::cli::globals::supports_color;
use crate::cli::output;

/// Prints the requested help or version, or the error, and ends the program.
pub fn end(error: &clap::Error, command: &clap::Command) -> ! {
    let requested = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion].contains(&error.kind());
    // Without arguments the help is printed, but the exit code is an error.
    if requested || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // `clap` ignores an output that cannot be written.
        let printed = error.print().and_then(|()| io::Write::flush(&mut io::stdout()));
        if let Err(failed) = printed
            && failed.kind() != io::ErrorKind::BrokenPipe
        {
            let (message, hint) =
                (format!("cannot write the output stream: {failed}"), "check the file or device of the output");
            output::print_error(&message, hint, Exit::Failed, supports_color(&io::stderr()));
            std::process::exit(Exit::Failed as i32);
        }
        std::process::exit(error.exit_code());
    }
    let args: Vec<String> = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let (message, hint) = lines(&error.render().to_string(), &args, command);
    let color = match args.iter().position(|arg| arg.starts_with("--color")) {
        Some(at) if args[at].ends_with("=never") || args.get(at + 1).is_some_and(|arg| arg == "never") => false,
        _ => supports_color(&io::stderr()),
    };
    output::print_error(&message, &hint, Exit::Usage, color);
    if args.iter().any(|arg| arg == "--json") {
        let _ = output::print_json(&output::error_document(&message, &hint, Exit::Usage));
    }
    std::process::exit(Exit::Usage as i32)
}

enum Remedy {
    /// The command with these words instead of the argument.
    Write(&'static [&'static str]),
    Say(&'static str),
}

/// Arguments that users try, each with the command that lacks it (any command if empty).
const REMEDIES: &[(&str, &[&str], Remedy)] = &[
    ("", &["-v", "--verbose"], Remedy::Say("--progress lines shows more; --log-format json is for programs")),
    ("bench", &["--report"], Remedy::Say("bench writes report.md and results.json into the directory of --out")),
    ("", &["--report"], Remedy::Say("--json prints the report on standard output")),
    ("", &["--dry-run"], Remedy::Say("omit it: only `bedload import` has a dry run")),
    ("import", &["-f", "--force", "--overwrite"], Remedy::Write(&["--replace"])),
    ("import", &["-o", "--out", "--output"], Remedy::Write(&["--db"])),
    ("", &["-j", "--jobs", "--workers"], Remedy::Write(&["--threads"])),
    ("", &["version"], Remedy::Say("bedload --version")),
];

/// Converts clap's paragraphs to message and hint.
pub fn lines(rendered: &str, args: &[String], command: &clap::Command) -> (String, String) {
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = rendered.split("\n\n");
    let message = joined(paragraphs.next().unwrap_or_default());
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    // clap lists hidden subcommands as well.
    let message = message.split(" [subcommands: ").next().unwrap_or(message);
    // The standard library's message for a number.
    let message = message.replace(": invalid digit found in string", ": not a number");
    let wrong = message.split('\'').nth(1).unwrap_or_default();
    let is_unknown = message.starts_with("unexpected argument ") || message.starts_with("unrecognized subcommand ");
    let found = args.iter().find_map(|arg| command.find_subcommand(arg.as_str()));
    let name = found.map_or("", clap::Command::get_name);
    if let Some(hint) = is_unknown.then(|| remedy(wrong, name, found, args)).flatten() {
        return (message, hint);
    }
    // clap suggests names that have little in common, and `--` before whatever begins with a dash.
    let is_near = |tip: &String| {
        let meant: Vec<&str> = tip.split('\'').skip(1).step_by(2).map(|name| name.trim_start_matches('-')).collect();
        !is_unknown || (!tip.contains("'-- ") && nearest_of(wrong.trim_start_matches('-'), meant).is_some())
    };
    let tips = rendered.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).map(joined);
    let tips: Vec<String> = tips.filter(is_near).collect();
    if !tips.is_empty() {
        return (message, tips.join("; "));
    }
    let (used, path) = args.iter().fold((command, "bedload".to_owned()), |(at, path), arg| {
        at.find_subcommand(arg).map_or_else(|| (at, path.clone()), |next| (next, format!("{path} {}", next.get_name())))
    });
    if let Some(missing) = message.strip_prefix("the following required arguments were not provided: ") {
        let help = used.get_after_help().map(ToString::to_string).unwrap_or_default();
        if let Some((_, example)) = help.rsplit_once("Example: ") {
            let option = missing.split(' ').next().filter(|it| it.starts_with("--") && !example.contains(it));
            let hint = match option {
                Some(_) => format!("add {missing}; {path} --help explains the options"),
                None => format!("for example: {example}"),
            };
            return (message, hint);
        }
    }
    let hint = match message.starts_with("unrecognized subcommand ") {
        true if name == "presets" => "`bedload presets` lists the presets, bedload presets --help the commands".into(),
        true => format!("{path} --help lists the commands"),
        false => format!("{path} --help lists the options"),
    };
    (message, hint)
}

fn remedy(wrong: &str, name: &str, found: Option<&clap::Command>, args: &[String]) -> Option<String> {
    if name == "presets" && !wrong.starts_with('-') {
        let is_file = wrong.contains('/') || wrong.ends_with(".toml");
        let meant = if is_file { Some(wrong) } else { nearest_of(wrong, Preset::builtin_names()) };
        return meant.map(|preset| command_line(["presets", "show", preset].into_iter()));
    }
    let is_meant = |(command, words, remedy): &&(&str, &[&str], Remedy)| {
        let exists = |option: &str| {
            found.is_some_and(|it| it.get_arguments().any(|arg| arg.get_long() == option.strip_prefix("--")))
        };
        let is_usable = !matches!(remedy, Remedy::Write([option, ..]) if !exists(option));
        (command.is_empty() || *command == name) && words.contains(&wrong) && is_usable
    };
    match &REMEDIES.iter().find(is_meant)?.2 {
        Remedy::Say(hint) => Some((*hint).to_owned()),
        Remedy::Write(words) => {
            let (at, value) = args.iter().enumerate().find_map(|(at, arg)| {
                let rest = arg.strip_prefix(wrong)?;
                (rest.is_empty() || rest.starts_with('=')).then(|| (at, rest.strip_prefix('=')))
            })?;
            let new = words.iter().copied().chain(value);
            let (before, after) = (args.get(..at)?, args.get(at + 1..)?);
            let words = before.iter().map(String::as_str).chain(new).chain(after.iter().map(String::as_str));
            Some(command_line(words))
        }
    }
}
