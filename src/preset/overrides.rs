//! The overrides of a preset, and the choice of the preset.

use std::path::PathBuf;

use derive_setters::Setters;

use super::key::Origin;
use super::machine::Machine;
use super::parse::{self, Assignment, PresetDocument, Role};
use super::{DEFAULT, Preset};
use crate::error::{Error, Result};

/// Overrides of the preset; none by default. [`Overrides::from_environment`] has the user's configuration, as the command line does.
#[derive(Debug, Clone, Default, Setters)]
#[setters(strip_option)]
#[non_exhaustive]
pub struct Overrides {
    /// Options and values, e.g. `load.cf.write_buffer_size=64M`. The last value of an option wins.
    pub(crate) set: Vec<String>,
    /// A node's OPTIONS file. It replaces all `node` options of lower precedence.
    #[setters(into)]
    pub(crate) options_file: Option<PathBuf>,
    /// The column family of the OPTIONS file whose options are used. Defaults to `default`.
    #[setters(into)]
    pub(crate) column_family: Option<String>,
    /// The user's configuration file, `config.toml`.
    #[setters(into)]
    pub(crate) user_config: Option<PathBuf>,
    /// The values of `cores` and `open_files`. Defaults to this machine's.
    #[setters(skip)]
    pub(crate) machine: Option<Machine>,
    /// True if the comparator of the OPTIONS file is not an option: the copy of a database keeps the order of its keys.
    #[setters(skip)]
    pub(crate) keeps_order: bool,
    /// The directory in which options are tried. Defaults to one in memory, or to a temporary one.
    #[setters(skip)]
    pub(crate) scratch: Option<PathBuf>,
}

impl Overrides {
    /// Finds the user's configuration: `$XDG_CONFIG_HOME/bedload/config.toml`, or
    /// `~/.config/bedload/config.toml`.
    pub fn from_environment() -> Self {
        let home = std::env::var_os("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            // The XDG Base Directory Specification ignores relative paths.
            .filter(|path| path.is_absolute())
            .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")));
        // A path that is not a file is an error when it is read.
        let user_config = home.map(|home| home.join("bedload/config.toml")).filter(|path| path.exists());
        Self { user_config, ..Self::default() }
    }

    /// Chooses a preset: the named one, the user's, or `ingest`.
    pub(crate) fn preset(&self, named: Option<&str>) -> Result<Preset> {
        self.choose(named, DEFAULT).map(|(preset, _)| preset)
    }

    /// Like [`Overrides::preset`] with another default. Also returns the place that names the preset.
    pub(crate) fn choose(&self, named: Option<&str>, default: &str) -> Result<(Preset, String)> {
        if let Some(word) = named {
            return Ok((Preset::find(word)?, "command line".into()));
        }
        match (self.read_user_config()?.and_then(|document| document.preset), &self.user_config) {
            (Some(word), Some(config)) => Ok((Preset::find(&word)?, config.display().to_string())),
            _ => Ok((Preset::builtin(default)?, "default".into())),
        }
    }

    pub(super) fn read_user_config(&self) -> Result<Option<PresetDocument>> {
        let Some(path) = &self.user_config else { return Ok(None) };
        Ok(Some(parse::document(&parse::read(path)?, path, Role::UserConfig)?))
    }

    pub(super) fn of_command_line(&self) -> Result<Vec<Assignment>> {
        let read = |argument: &String| parse::assignment(argument, Origin::Override(argument.clone()));
        self.set.iter().map(read).collect()
    }

    /// The overrides for one of the column families `names`: `cf.NAME.option` is an option of the node there.
    pub(crate) fn of_family(&self, name: &str, names: &[&str]) -> Self {
        let own = |text: &String| if text.starts_with("cf.") { of_node(text, name, names) } else { Some(text.clone()) };
        let (set, column_family) = (self.set.iter().filter_map(own).collect(), Some(name.to_owned()));
        Self { set, column_family, ..self.clone() }
    }

    /// Gives the options of the node in a message the names that they have in `cf.NAME.option`, if it is about such an option.
    pub(crate) fn restore_names(&self, family: &str, names: &[&str], message: String) -> String {
        let is_named = |own: String| message.contains(own.split('=').next().unwrap_or_default().trim());
        if !self.set.iter().filter_map(|given| of_node(given, family, names)).any(is_named) {
            return message;
        }
        let begin = format!("cf.{family}.");
        message.replace("node.table.", &format!("{begin}table.")).replace("node.cf.", &begin)
    }

    /// Checks that each `cf.NAME.option` is for one of the column families.
    pub(crate) fn check_families(&self, names: &[&str]) -> Result<()> {
        let unknown =
            |text: &&String| text.starts_with("cf.") && names.iter().all(|name| of_node(text, name, names).is_none());
        self.set.iter().find(unknown).map_or(Ok(()), |text| {
            let hint = format!("write node.cf.option=value or cf.NAME.option=value with one of: {}", names.join(", "));
            Err(Error::usage(format!("`{text}` names no column family of the source"), hint))
        })
    }
}

/// `cf.NAME.option` as an option of the node. A name may begin with another one and a dot.
fn of_node(text: &str, name: &str, names: &[&str]) -> Option<String> {
    let rest = |name: &str| text.strip_prefix("cf.")?.strip_prefix(name)?.strip_prefix('.');
    let is_longer = |other: &&str| other.len() > name.len() && rest(other).is_some();
    let rest = rest(name).filter(|rest| !rest.starts_with("node.") && !names.iter().any(is_longer))?;
    Some(format!("{}.{rest}", if rest.starts_with("table.") { "node" } else { "node.cf" }))
}
