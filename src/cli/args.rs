//! Options that several commands have.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::preset::Overrides;
use crate::source::remote::{NetworkOptions, is_remote};

use crate::cli::values;

/// Hint after an interruption of a command that changes nothing.
pub const RESTARTS: &str = "run the same command again; it starts over";

/// Options for reading from the network.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct NetworkArgs {
    /// Connections at once to a URL; the default is measured
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=128), help_heading = "Network", hide_short_help = true)]
    pub connections: Option<u16>,
    /// Another server of S3's or Azure's protocol
    #[arg(long, value_name = "URL", help_heading = "Network", hide_short_help = true)]
    pub endpoint: Option<String>,
}

impl NetworkArgs {
    /// Returns the library's options for these sources.
    pub fn options(&self, sources: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<NetworkOptions, Error> {
        let is_given = self.connections.is_some() || self.endpoint.is_some();
        if is_given && !sources.into_iter().any(|source| is_remote(source.as_ref())) {
            return Err(Error::Usage {
                reason: "--connections and --endpoint have no effect: the snapshot is no URL".into(),
                hint: "omit them".into(),
            });
        }
        let mut options = NetworkOptions::default();
        (options.connections, options.endpoint) = (self.connections, self.endpoint.clone());
        Ok(options)
    }
}

/// The database that a command reads: a positional argument or `--db`.
#[derive(Debug, Clone, clap::Args)]
pub struct DatabaseArgs {
    /// The database
    #[arg(value_name = "DB", required_unless_present = "db", conflicts_with = "db")]
    database: Option<PathBuf>,
    /// The database, as an option
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
}

impl DatabaseArgs {
    pub fn path(&self) -> &Path {
        self.database.as_deref().or(self.db.as_deref()).unwrap_or(Path::new(""))
    }
}

/// Options of RocksDB that override those of a preset.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OverrideArgs {
    /// Set one option, as load.cf.write_buffer_size=64M; may be repeated
    #[arg(long = "set", value_name = "OPTION=VALUE", hide_possible_values = true, value_parser = values::assignment(), help_heading = "RocksDB")]
    pub set: Vec<String>,
    /// Take a node's own OPTIONS file as the `node` section, so that the database comes out as the node runs it
    #[arg(long, value_name = "FILE", help_heading = "RocksDB")]
    pub options_file: Option<PathBuf>,
}

impl OverrideArgs {
    /// Returns the overrides on top of the environment and the user's configuration.
    pub fn overrides(&self) -> Overrides {
        Overrides { set: self.set.clone(), options_file: self.options_file.clone(), ..Overrides::from_environment() }
    }
}

/// The path of this program, to run it again.
pub fn this_program() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe().map_err(Error::io("find", "bedload"))?)
}
