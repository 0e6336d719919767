//! `bedload bundle`: publishes the files of a database.

use std::path::{Path, PathBuf};

use crate::bundle::{BundleOptions, JoinOptions, Signer, bundle, join};
use crate::os::files::read_regular;
use crate::progress::CancellationToken;

use crate::cli::args::NetworkArgs;
use crate::cli::globals::Globals;
use crate::cli::render;
use crate::cli::{output, progress, signals, values};
use crate::{Error, Result};

/// The variables with the password of a secret key, and with the name of its file.
const PASSWORD: &str = "BEDLOAD_SIGN_PASSWORD";
const PASSWORD_FILE: &str = "BEDLOAD_SIGN_PASSWORD_FILE";

/// The largest password file, in bytes.
const MAX_PASSWORD: u64 = 64 << 10;

/// Publish an imported database as a bundle for `bedload seed`
///
/// Reads every record, and compares count and digest with the import's record. Then writes the missing files, each
/// named by its BLAKE3 hash, then their list bundle.json, and last the pointer `latest`. Of existing files, only
/// `latest` changes. Refuses a database that a node has written to.
///
/// A shard (`import --shard`) is published as a part. When all parts are published, `--join` makes the bundle.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload bundle /data/blocks --to s3://bucket/mainnet")]
pub struct Args {
    /// The database
    #[arg(value_name = "DB", required_unless_present_any = ["db", "join"], conflicts_with_all = ["db", "join"])]
    pub database: Option<PathBuf>,
    /// The database, as an option
    #[arg(long, value_name = "DIR", conflicts_with = "join")]
    pub db: Option<PathBuf>,
    /// Target: a directory, or s3://, gs:// or az://
    #[arg(long, value_name = "PLACE", required_unless_present = "join", conflicts_with = "join")]
    pub to: Option<PathBuf>,
    /// Make a bundle from the published parts of all shards
    #[arg(long, value_name = "PLACE")]
    pub join: Option<PathBuf>,
    /// Set of parts to join; the default is the set of the last published part
    #[arg(long, value_name = "SET", requires = "join")]
    pub set: Option<String>,
    /// Sign the bundle with this minisign secret key; its password is in BEDLOAD_SIGN_PASSWORD, or in the file named by
    /// BEDLOAD_SIGN_PASSWORD_FILE
    #[arg(long, value_name = "FILE")]
    pub sign: Option<PathBuf>,
    /// Threads to use; the default is the number of cores
    #[arg(long, value_name = "N", value_parser = values::threads())]
    pub threads: Option<usize>,
    /// URL of an S3- or Azure-compatible server
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let place = args.join.clone().or_else(|| args.to.clone()).unwrap_or_default();
    let network = NetworkArgs { connections: None, endpoint: args.endpoint.clone() }.options([&place])?;
    // Before anything is read, which takes long.
    let signer = args.sign.as_deref().map(|key| Signer::open(key, || password(key))).transpose()?;
    let stop = CancellationToken::default();
    signals::cancel_on_signals(&stop, || "run the same command again; it skips the files that are published".into())?;
    let report = progress::show(globals, |observer| match &args.join {
        Some(_) => join(&JoinOptions { place, set: args.set.clone(), signer, network, stop }, observer),
        None => {
            let db = args.database.clone().or_else(|| args.db.clone()).unwrap_or_default();
            bundle(&BundleOptions { db, to: place, threads: args.threads, network, signer, stop }, observer)
        }
    })?;
    output::report_done(render::bundle::done(&report), "it can be seeded", || {
        output::print(&report, &render::bundle::text(&report), 10, globals)
    })
}

/// The password of a secret key: from the environment, from a file without the end of its line, or from the terminal.
pub(super) fn password(key: &Path) -> Result<String> {
    let wrong = |reason: String| Error::Usage {
        reason,
        hint: format!("{PASSWORD}, or the file that {PASSWORD_FILE} names, has the password; or run it in a terminal")
            .into(),
    };
    if let Some(password) = std::env::var_os(PASSWORD) {
        return password.into_string().map_err(|_| wrong(format!("{PASSWORD} is not text")));
    }
    if let Some(path) = std::env::var_os(PASSWORD_FILE).map(PathBuf::from) {
        let bytes = read_regular(&path, MAX_PASSWORD).map_err(Error::io("read", &path))?;
        let text = String::from_utf8(bytes).map_err(|_| wrong(format!("{} is not text", path.display())))?;
        return Ok(text.trim_end_matches(['\r', '\n']).to_owned());
    }
    let shown = crate::text::escape::shown_in_line(&key.display().to_string()).into_owned();
    rpassword::prompt_password(format!("Password of {shown}: "))
        .map_err(|error| wrong(format!("the secret key {} needs its password: {error}", key.display())))
}
