//! `bedload bundle`: the files of a database, published for others.

use std::path::{Path, PathBuf};

use crate::bundle::{BundleOptions, Signer, bundle};
use crate::os::files::read_regular;
use crate::progress::CancellationToken;

use crate::cli::args::{DatabaseArgs, NetworkArgs};
use crate::cli::globals::Globals;
use crate::cli::render::{self, screen};
use crate::cli::{output, progress, signals};
use crate::{Error, Result};

/// The variable that has the password of a secret key, and that which names a file that has it.
const PASSWORD: &str = "BEDLOAD_SIGN_PASSWORD";
const PASSWORD_FILE: &str = "BEDLOAD_SIGN_PASSWORD_FILE";

/// The longest file of a password, in bytes.
const MAX_PASSWORD: u64 = 64 << 10;

/// Publish a database that an import has made, for `bedload seed`
///
/// Reads every record and compares the whole with what the import recorded, then writes the files that are not there yet,
/// each under its BLAKE3, then bundle.json, which names them all, and last the pointer `latest`. Nothing but `latest` is ever
/// changed there. A database that a node has written to is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload bundle /data/blocks --to s3://bucket/mainnet")]
pub struct Args {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Where to: a directory, or s3://, gs:// or az://
    #[arg(long, value_name = "PLACE")]
    pub to: PathBuf,
    /// Sign bundle.json with a secret key of minisign; BEDLOAD_SIGN_PASSWORD or BEDLOAD_SIGN_PASSWORD_FILE has its password
    #[arg(long, value_name = "FILE")]
    pub sign: Option<PathBuf>,
    /// Threads that read; the default is the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Another server of S3's or Azure's protocol
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let network = NetworkArgs { connections: None, endpoint: args.endpoint.clone() };
    // Before anything is read, which takes long.
    let signer = args.sign.as_deref().map(|key| Signer::open(key, || password(key))).transpose()?;
    let options = BundleOptions {
        db: args.database.path().to_owned(),
        to: args.to.clone(),
        threads: args.threads.map(usize::from),
        network: network.options([&args.to])?,
        signer,
        stop: CancellationToken::default(),
    };
    signals::cancel_on_signals(
        &options.stop,
        "run the same command again; what is there already is not written again",
    )?;
    let observer = progress::renderer(globals);
    let report = bundle(&options, observer.as_ref());
    observer.finish();
    let report = report?;
    let done = format!("the bundle {} is complete", report.id);
    output::report_done(done, "seed it as it is", || {
        if globals.json {
            return output::print_json(&report);
        }
        screen::print(&render::bundle::text(&report), 10)?;
        Ok(())
    })
}

/// The password of a secret key: from the environment, from a file without the end of its line, or from the terminal.
fn password(key: &Path) -> Result<String> {
    let wrong = |reason: String| Error::Usage {
        reason,
        hint: format!("{PASSWORD}, or the file that {PASSWORD_FILE} names, has the password; or run it in a terminal"),
    };
    if let Some(password) = std::env::var_os(PASSWORD) {
        return password.into_string().map_err(|_| wrong(format!("{PASSWORD} is no text")));
    }
    if let Some(path) = std::env::var_os(PASSWORD_FILE).map(PathBuf::from) {
        let bytes = read_regular(&path, MAX_PASSWORD).map_err(Error::io("read", &path))?;
        let text = String::from_utf8(bytes).map_err(|_| wrong(format!("{} is no text", path.display())))?;
        return Ok(text.trim_end_matches(['\r', '\n']).to_owned());
    }
    let shown = crate::escape::shown_in_line(&key.display().to_string()).into_owned();
    rpassword::prompt_password(format!("Password of {shown}: "))
        .map_err(|error| wrong(format!("the secret key {} needs its password: {error}", key.display())))
}
