//! Wrong command lines, printed as every other error is: one `error:` line, one `hint:` line, exit code 2.

use crate::Exit;
use clap::error::ErrorKind;

use crate::cli::{globals, output};

/// Ends the program: with the help or version that the user requested, or with what is wrong.
pub fn end(error: &clap::Error, command: &clap::Command) -> ! {
    let requested = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion].contains(&error.kind());
    // Without any argument the help is the best answer, but no success.
    if requested || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // `clap` ignores an output that cannot be written.
        let printed = error.print().and_then(|()| std::io::Write::flush(&mut std::io::stdout()));
        if let Err(failed) = printed
            && failed.kind() != std::io::ErrorKind::BrokenPipe
        {
            let hint = "look at the file or device that the output goes to";
            output::print_error(
                &format!("write standard output: {failed}"),
                hint,
                Exit::Failed,
                globals::stderr_supports_color(),
            );
            std::process::exit(Exit::Failed as i32);
        }
        std::process::exit(error.exit_code());
    }
    let args: Vec<String> = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let (message, hint) = lines(&error.render().to_string(), &args, command);
    let color = match args.iter().position(|arg| arg.starts_with("--color")) {
        Some(at) if args[at].ends_with("=never") || args.get(at + 1).is_some_and(|arg| arg == "never") => false,
        _ => globals::stderr_supports_color(),
    };
    output::print_error(&message, &hint, Exit::Usage, color);
    if args.iter().any(|arg| arg == "--json") {
        let _ = output::print_json(&output::error_document(&message, &hint, Exit::Usage));
    }
    std::process::exit(Exit::Usage as i32)
}

/// The paragraphs of clap's error as message and hint.
pub fn lines(rendered: &str, args: &[String], command: &clap::Command) -> (String, String) {
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = rendered.split("\n\n");
    let message = joined(paragraphs.next().unwrap_or_default());
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    // clap lists the hidden ones as well.
    let message = message.split(" [subcommands: ").next().unwrap_or(message).to_owned();
    let tips: Vec<String> = rendered.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).map(joined).collect();
    if !tips.is_empty() {
        return (message, tips.join("; "));
    }
    let name = args.iter().find(|arg| command.find_subcommand(arg.as_str()).is_some());
    let name = name.map(|name| format!(" {name}")).unwrap_or_default();
    (message, format!("bedload{name} --help lists the options"))
}
