//! Resolves the layers: the value of each option, and the place that sets it.

use std::collections::BTreeMap;
use std::path::Path;

use super::Preset;
use super::key::{Key, Loader, Origin, Scope, Stage};
use super::lints;
use super::machine::Machine;
use super::overrides::Overrides;
use super::parse::Assignment;
use super::problem::PresetProblem;
use super::registry;
use super::resolved::{Resolved, Setting, agrees, default_of};
use super::rules;
use crate::error::{Error, Result};
use crate::rocks::option_map::{Group, OptionMap, fields_of};
use crate::rocks::options::{self, ProbeError, Refusal};
use crate::rocks::options_file::{Line, OptionsFile};
use crate::rocks::rehearsal::{self, Way};

/// The most notes about left-out options of an OPTIONS file.
const MAX_LEFT_OUT: usize = 20;

/// Options of a database that are not those of its copy: the order of keys is kept, directories are other ones, and RocksDB would add
/// records of its own.
const OF_OLD_DATABASE: [&str; 5] =
    ["comparator", "wal_dir", "db_log_dir", "persist_stats_to_disk", "best_efforts_recovery"];

/// The most options that are tried, to find the one that RocksDB refuses.
const MAX_SUSPECTS: usize = 200;

/// Applies `overrides` to a preset, and checks every name, every value, and all of them together with RocksDB.
pub fn resolve(preset: &Preset, overrides: &Overrides) -> Result<Resolved> {
    let defaults = options::defaults();
    let resolved = Resolved {
        preset: preset.name.clone(),
        choice: "default".into(),
        summary: preset.summary.clone(),
        loader: preset.loader,
        machine: overrides.machine.unwrap_or_else(Machine::here),
        notes: Vec::new(),
        settings: BTreeMap::new(),
        defaults,
        places: overrides.scratch.clone().map_or_else(options::places, |dir| vec![dir]),
    };
    let mut layers = Layers { resolved, is_built_in: preset.is_built_in(), left_out: 0 };
    preset.layers().into_iter().try_for_each(|preset| layers.apply(&preset.assignments))?;
    if let Some(config) = overrides.read_user_config()? {
        layers.apply_config(&config.assignments)?;
    }
    if let Some(path) = &overrides.options_file {
        layers.resolved.settings.retain(|key, _| key.stage == Stage::Load);
        let path = OptionsFile::find(path)?;
        let family = overrides.column_family.as_deref().unwrap_or("default");
        layers.apply_options_file(&path, family, overrides.keeps_order)?;
    }
    layers.apply(&overrides.of_command_line()?)?;
    rules::check(&layers.resolved)?;
    let has_changes = layers.resolved.settings().any(|setting| !matches!(setting.origin, Origin::Preset(..)));
    if preset.is_built_in() && !has_changes {
        // Tests try the built-in presets. The threads that RocksDB starts depend on the machine.
        let opens = |map, section| {
            options::check_opens(&map, &layers.resolved.places).map_err(|error| layers.refused(section, error))
        };
        opens(layers.resolved.loading(), "load")?;
        opens(layers.resolved.node(), "node")?;
    } else {
        layers.try_together("load", layers.resolved.loading())?;
        layers.try_together("node", layers.resolved.node())?;
        rehearse(&layers.resolved).map_err(|error| layers.refused("load", error))?;
    }
    let mut resolved = layers.resolved;
    resolved.notes.extend(lints::warnings(&resolved));
    Ok(resolved)
}

/// A preset while its layers are applied, lowest first.
struct Layers {
    resolved: Resolved,
    is_built_in: bool,
    left_out: usize,
}

impl Layers {
    /// Notes that an option is left out, up to [`MAX_LEFT_OUT`] times.
    fn leave_out(&mut self, origin: &Origin, problem: impl std::fmt::Display) {
        self.left_out += 1;
        if self.left_out <= MAX_LEFT_OUT {
            // Column families may leave out the same options at other lines.
            let text = problem.to_string();
            self.resolved.notes.push(format!("left out: {}", text.trim_start_matches(&format!("{origin}: "))));
        }
    }

    fn extend(&mut self, settings: Vec<Setting>) {
        self.resolved.settings.extend(settings.into_iter().map(|setting| (setting.key.clone(), setting)));
    }

    /// Applies one layer: options that it names override those of its shorthands.
    fn apply(&mut self, layer: &[Assignment]) -> Result<()> {
        let mut settings = Vec::new();
        for assignment in layer {
            settings.extend(self.resolved.validate(assignment)?);
        }
        settings.sort_by_key(|setting| setting.via.is_none());
        self.extend(settings);
        Ok(())
    }

    /// A configuration is written once for all presets, so options of the other loader are left out, with a note.
    fn apply_config(&mut self, layer: &[Assignment]) -> Result<()> {
        let mut effective = Vec::new();
        let off = (Scope::Compaction, "final", "false");
        let is_left_out = |own: &Setting| (own.key.scope, own.key.name.as_str(), own.value.as_str()) == off;
        for assignment in layer {
            match self.resolved.validate(assignment) {
                Err(Error::Preset(problem))
                    if matches!(problem.downcast_ref(), Some(PresetProblem::NoEffect { .. })) =>
                {
                    self.resolved.notes.push(format!("left out: {problem}"));
                }
                Err(error) => return Err(error),
                Ok(settings) if self.resolved.loader == Loader::Ingest && settings.iter().any(is_left_out) => {
                    let left_out = "`load.compaction.final` has no effect with the ingest loader";
                    self.resolved.notes.push(format!("left out: {}: {left_out}", assignment.origin));
                }
                Ok(_) => effective.push(assignment.clone()),
            }
        }
        self.apply(&effective)
    }

    fn apply_options_file(&mut self, path: &Path, family: &str, keeps_order: bool) -> Result<()> {
        let file = OptionsFile::read(path)?;
        let Some(of) = file.family(family) else {
            let names: Vec<&str> = file.families.iter().map(|family| family.name.as_str()).collect();
            let reason = format!("{} has no column family `{family}`", path.display());
            return Err(Error::usage(
                reason,
                format!("it has {}; choose with --column-family, or add it to the file", names.join(", ")),
            ));
        };
        if let Some(format) = of.table_format.as_deref().filter(|format| *format != "BlockBasedTable") {
            let reason = format!("{}: column family `{family}` keeps its files as {format}", path.display());
            return Err(Error::usage(reason, "only BlockBasedTable can be loaded"));
        }
        for (group, lines) in [(Group::Db, &file.db), (Group::Cf, &of.cf), (Group::Table, &of.table)] {
            // The last line of a name counts.
            let mut last: BTreeMap<&str, &Line> = lines.iter().map(|line| (line.name.as_str(), line)).collect();
            if keeps_order {
                last.retain(|name, _| !OF_OLD_DATABASE.contains(name));
            }
            for line in lines.iter().filter_map(|line| last.remove(line.name.as_str())) {
                self.apply_line(path, group, line)?;
            }
        }
        if let Some(more @ 1..) = self.left_out.checked_sub(MAX_LEFT_OUT) {
            self.resolved.notes.push(format!("{more} more options are left out"));
        }
        Ok(())
    }

    /// Applies a line of a node's OPTIONS file. An option that this RocksDB does not take (of another version, or an
    /// operator in the node's program) is left out, with a note.
    fn apply_line(&mut self, path: &Path, group: Group, line: &Line) -> Result<()> {
        let origin = Origin::OptionsFile(path.to_owned(), line.line);
        let assignment = |name: &str, value: &str| Assignment {
            key: Key { stage: Stage::Node, scope: Scope::from(group), name: name.to_owned() },
            value: value.to_owned(),
            reason: None,
            origin: origin.clone(),
        };
        let default = self.resolved.defaults.get(group, &line.name);
        let list: Vec<Assignment> = match default.and_then(fields_of).and(fields_of(&line.value)) {
            Some(fields) if !line.value.contains("id=") => {
                fields.iter().map(|(field, value)| assignment(&format!("{}.{field}", line.name), value)).collect()
            }
            _ => vec![assignment(&line.name, &line.value)],
        };
        for assignment in list {
            let default = default_of(self.resolved.defaults, group, &assignment.key.name);
            if assignment.value.is_empty() || default.is_some_and(|default| agrees(&assignment.value, default)) {
                continue;
            }
            // The message about an unknown option takes time.
            let is_known = default.is_some() || registry::find(assignment.key.scope, &assignment.key.name).is_some();
            if self.left_out >= MAX_LEFT_OUT && !is_known {
                self.left_out += 1;
                continue;
            }
            match self.resolved.validate(&assignment) {
                Ok(settings) => self.extend(settings),
                // A database with another order of keys cannot be made.
                Err(Error::Preset(problem)) if line.name != "comparator" => self.leave_out(&origin, problem),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Opens a database with the options. A value that RocksDB does not keep is refused if RocksDB fell back to the default,
    /// as it does for objects that it cannot make, and noted if RocksDB adjusted it.
    fn try_together(&mut self, section: &'static str, map: OptionMap) -> Result<()> {
        let effective =
            options::effective(&map, &self.resolved.places).map_err(|error| self.refused(section, error))?;
        let mut notes = Vec::new();
        for (group, name, value) in map.iter() {
            // Clipped to the soft limit of descriptors, which is raised before a load.
            if (group, name) == (Group::Db, "max_open_files") {
                continue;
            }
            let Some(kept) = default_of(&effective, group, name).filter(|kept| !agrees(value, kept)) else { continue };
            let Some(setting) = self.setting_of(section, group, name) else { continue };
            let is_number = kept.parse::<f64>().is_ok();
            // A value of a built-in preset fits unless the user has set another option.
            let is_given = matches!(setting.origin, Origin::OptionsFile(..))
                || self.is_built_in && matches!(setting.origin, Origin::Preset(..));
            if !is_given && (!is_number || value.starts_with('-')) {
                let message = format!("it keeps `{kept}`");
                return Err(setting.refused(value.to_owned(), message, &effective).into());
            }
            notes.push(format!("{}: RocksDB makes `{kept}` of `{}` = `{value}`", setting.origin, setting.key));
        }
        notes.retain(|note| !self.resolved.notes.contains(note));
        self.resolved.notes.extend(notes);
        Ok(())
    }

    /// The error about options that RocksDB rejects. It names the option without which RocksDB accepts the others, if
    /// the highest layer with such options has exactly one.
    fn refused(&self, section: &'static str, error: ProbeError) -> Error {
        let message = match error {
            ProbeError::Failed(error) => return error,
            ProbeError::Refused(Refusal(message)) => message,
        };
        let mut suspects: Vec<&Setting> = self.resolved.settings().collect();
        suspects.sort_by_key(|setting| std::cmp::Reverse(setting.origin.rank()));
        let mut culprits: Vec<&Setting> = Vec::new();
        for suspect in suspects.into_iter().take(MAX_SUSPECTS) {
            if culprits.first().is_some_and(|culprit| culprit.origin.rank() > suspect.origin.rank()) {
                break;
            }
            if self.works_without(&suspect.key) {
                culprits.push(suspect);
            }
        }
        match culprits[..] {
            [culprit] => culprit.refused(culprit.value.clone(), message, self.resolved.defaults),
            _ => PresetProblem::Together { preset: self.resolved.preset.clone(), section, message },
        }
        .into()
    }

    fn works_without(&self, key: &Key) -> bool {
        let mut without = self.resolved.clone();
        without.settings.remove(key);
        // A rehearsal of options that RocksDB refuses to open a database with may crash.
        let opens = |map: OptionMap| options::check_opens(&map, &self.resolved.places).is_ok();
        rules::check(&without).is_ok()
            && opens(without.loading())
            && opens(without.node())
            && rehearse(&without).is_ok()
    }

    fn setting_of(&self, section: &str, group: Group, name: &str) -> Option<&Setting> {
        let key = |stage| Key { stage, scope: Scope::from(group), name: name.to_owned() };
        let load = self.resolved.settings.get(&key(Stage::Load)).filter(|_| section == "load");
        load.or_else(|| self.resolved.settings.get(&key(Stage::Node)))
    }
}

/// Imports some records, because RocksDB checks some options only when it uses them.
fn rehearse(resolved: &Resolved) -> Result<(), ProbeError> {
    rehearsal::rehearse(&resolved.loading(), &resolved.node(), &way(resolved), &resolved.places)
}

pub(super) fn way(resolved: &Resolved) -> Way {
    match resolved.loader {
        Loader::Ingest => Way::Ingest(resolved.ingest()),
        Loader::Memtable => Way::Memtable {
            write: resolved.write(),
            compaction: resolved.final_compaction().then(|| (resolved.compacting(), resolved.compaction())),
        },
    }
}
