//! Options that several commands have.

use std::path::PathBuf;

use bedload::progress::Stop;
use bedload::read::{Location, Resources};
use bedload::report::Advice;
use bedload::sort::key::KeyLayout;

use super::{import, screen, values};

/// What is worth knowing, each with what to do about it.
pub fn advice(all: &[Advice]) -> String {
    let line = |Advice { finding, remedy, .. }: &Advice| {
        format!("{}{}", screen::row("advice", 9, finding), screen::row("", 11, remedy))
    };
    all.iter().map(line).collect()
}

/// What the work may use.
#[derive(Debug, Clone, clap::Args)]
pub struct ResourceArgs {
    /// Threads that work; the default is the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Resources")]
    pub threads: Option<u16>,
    /// Memory to use; the default is a quarter of what the machine has
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, help_heading = "Resources")]
    pub memory: Option<u64>,
    /// Where to put what does not fit; the default is a temporary directory
    #[arg(long, value_name = "DIR", help_heading = "Resources")]
    pub work_dir: Option<PathBuf>,
}

impl ResourceArgs {
    /// As the library wants them; the first signal asks to stop.
    pub fn resources(&self) -> anyhow::Result<Resources> {
        let stop = Stop::default();
        super::stop::on_signals(&stop, "run the same command again; it starts over")?;
        Ok(Resources {
            threads: self.threads.map(usize::from),
            memory: self.memory,
            work_dir: self.work_dir.clone(),
            stop,
        })
    }
}

/// Where the blocks of a database are.
#[derive(Debug, Clone, clap::Args)]
pub struct LocationArgs {
    /// How blocks are stored: by cid, multihash or digest; see BEDLOAD.json
    #[arg(long, value_name = "LAYOUT", hide_possible_values = true, value_parser = import::key_layout(), help_heading = "Database")]
    pub key: Option<KeyLayout>,
    /// The column family that holds them; see BEDLOAD.json
    #[arg(long, value_name = "NAME", help_heading = "Database")]
    pub column_family: Option<String>,
}

impl LocationArgs {
    /// As the library wants it.
    pub fn location(&self) -> Location {
        Location { key: self.key, column_family: self.column_family.clone() }
    }
}
