//! Options that several commands have.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::load::{ImportOptions, PlanChoice};
use crate::preset::Overrides;
use crate::source::remote::{NetworkOptions, is_remote};

use crate::cli::values;

/// Hint after an interruption of a command that changes nothing.
pub const RESTARTS: &str = "run the same command again; it starts over";

#[derive(Debug, Clone, Default, clap::Args)]
pub struct NetworkArgs {
    /// Parallel connections; bedload chooses the number by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=128), help_heading = "Network", hide_short_help = true)]
    pub connections: Option<u16>,
    /// URL of an S3- or Azure-compatible server
    #[arg(long, value_name = "URL", help_heading = "Network", hide_short_help = true)]
    pub endpoint: Option<String>,
}

impl NetworkArgs {
    /// Returns the library's options for these sources.
    pub fn options(&self, sources: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<NetworkOptions, Error> {
        let is_given = self.connections.is_some() || self.endpoint.is_some();
        if is_given && !sources.into_iter().any(|source| is_remote(source.as_ref())) {
            let reason = "--connections and --endpoint have no effect: the snapshot is not a URL";
            return Err(Error::usage(reason, "omit them"));
        }
        let mut options = NetworkOptions::default();
        (options.connections, options.endpoint) = (self.connections, self.endpoint.clone());
        Ok(options)
    }
}

/// The threads and the memory of an import, and the preset.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ImportArgs {
    /// Memory to use; the default is half of what the machine or its cgroup has
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, help_heading = "Memory")]
    pub memory: Option<u64>,
    /// Threads to use; the default is the preset's, or the number of cores
    #[arg(long, value_name = "N", value_parser = values::threads(), help_heading = "Memory")]
    pub threads: Option<usize>,
    /// Preset: a name from `bedload presets list`, or a file (x.toml or ./x)
    #[arg(long, value_name = "NAME", hide_possible_values = true, value_parser = values::preset(), help_heading = "RocksDB")]
    pub preset: Option<String>,
    #[command(flatten)]
    pub overrides: OverrideArgs,
}

impl ImportArgs {
    pub fn add_to(&self, options: &mut ImportOptions) {
        (options.memory, options.threads) = (self.memory, self.threads);
        options.preset.clone_from(&self.preset);
        options.overrides = self.overrides.overrides();
    }

    /// The files that the options name, each with what it is.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let preset = self.preset.iter().map(|preset| ("preset", Path::new(preset)));
        preset.chain(self.overrides.options_file.iter().map(|path| ("options file", &**path)))
    }
}

/// The place of an import's blocks until they are sorted.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Memory")]
pub struct PlanArgs {
    /// Directory for spilled data; the default is beside the database
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub work_dir: Option<PathBuf>,
    /// Storage of blocks while sorting: auto, memory, spill (files) or source
    #[arg(long, value_name = "HOW", default_value = "auto", hide_possible_values = true, hide_short_help = true)]
    pub plan: PlanChoice,
}

#[derive(Debug, Clone, clap::Args)]
pub struct ReportArgs {
    /// Write the report, or the error, to a file as JSON; `-` is standard output
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    pub report: Option<PathBuf>,
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
    /// Override an option: node.cf.num_levels=4, cf.NAME.num_levels=4
    #[arg(long, value_name = "OPTION=VALUE", hide_possible_values = true, value_parser = values::assignment(), help_heading = "RocksDB")]
    pub set: Vec<String>,
    /// Take the database's options from a node's own OPTIONS file
    #[arg(long, value_name = "FILE", help_heading = "RocksDB", hide_short_help = true)]
    pub options_file: Option<PathBuf>,
}

impl OverrideArgs {
    /// Returns the overrides on top of the environment and the user's configuration.
    pub fn overrides(&self) -> Overrides {
        Overrides { set: self.set.clone(), options_file: self.options_file.clone(), ..Overrides::from_environment() }
    }
}
