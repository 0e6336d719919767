//! Resolves the layers: the value of each option, and where it was set.

use std::collections::BTreeMap;
use std::path::Path;

use super::Preset;
use super::key::{Key, Origin, Scope, Stage};
use super::lints;
use super::machine::Machine;
use super::overrides::{Choice, Overrides};
use super::parse::Assignment;
use super::problem::PresetProblem;
use super::resolved::{Resolved, agrees};
use super::validate::{Setting, Validator, default_of};
use crate::error::{Error, Result};
use crate::rocks::option_map::{Group, OptionMap, fields_of};
use crate::rocks::options::{self, ProbeError, Refusal};
use crate::rocks::options_file::{Line, OptionsFile};

/// Applies `overrides` to a preset, and checks every name, every value, and all of them together with RocksDB.
///
/// # Errors
/// [`Error::Preset`] with a [`PresetProblem`]: the first thing that is wrong, with its place; [`Error::Io`],
/// [`Error::Usage`]: a file cannot be read.
pub fn resolve(preset: &Preset, overrides: &Overrides) -> Result<Resolved> {
    let defaults = options::defaults()?;
    let machine = overrides.machine.unwrap_or_else(Machine::here);
    let resolved = Resolved {
        preset: preset.name.clone(),
        choice: Choice::Default,
        summary: preset.summary.clone(),
        loader: preset.loader,
        machine,
        notes: Vec::new(),
        settings: BTreeMap::new(),
        defaults,
    };
    let mut layers = Layers { resolved, validator: Validator { loader: preset.loader, machine, defaults } };
    preset.layers().into_iter().try_for_each(|preset| layers.apply(&preset.assignments))?;
    if let Some(config) = overrides.read_user_config()? {
        layers.apply_config(&config.assignments)?;
    }
    layers.apply(&overrides.of_environment(defaults)?)?;
    if let Some(path) = &overrides.options_file {
        layers.resolved.settings.retain(|key, _| key.stage == Stage::Load);
        layers.apply_options_file(path, overrides.column_family.as_deref().unwrap_or("default"))?;
    }
    layers.apply(&overrides.of_command_line()?)?;
    layers.try_together("load", layers.resolved.loading())?;
    layers.try_together("node", layers.resolved.node())?;
    let mut resolved = layers.resolved;
    resolved.notes.extend(lints::warnings(&resolved));
    Ok(resolved)
}

/// A preset while its layers are applied, lowest first.
struct Layers<'a> {
    resolved: Resolved,
    validator: Validator<'a>,
}

impl Layers<'_> {
    /// Applies one layer: options that it names override those of its shorthands.
    fn apply(&mut self, layer: &[Assignment]) -> Result<()> {
        let mut settings = Vec::new();
        for assignment in layer {
            settings.extend(self.validator.validate(assignment)?);
        }
        settings.sort_by_key(|setting| setting.via.is_none());
        self.resolved.settings.extend(settings.into_iter().map(|setting| (setting.key.clone(), setting)));
        Ok(())
    }

    /// A configuration is written once for all presets, so options of the other loader are left out, with a note.
    fn apply_config(&mut self, layer: &[Assignment]) -> Result<()> {
        let mut effective = Vec::new();
        for assignment in layer {
            match self.validator.validate(assignment) {
                Err(Error::Preset(problem))
                    if matches!(problem.downcast_ref(), Some(PresetProblem::NoEffect { .. })) =>
                {
                    self.resolved.notes.push(format!("left out: {problem}"));
                }
                Err(error) => return Err(error),
                Ok(_) => effective.push(assignment.clone()),
            }
        }
        self.apply(&effective)
    }

    fn apply_options_file(&mut self, path: &Path, family: &str) -> Result<()> {
        let file = OptionsFile::read(path)?;
        let Some(of) = file.family(family) else {
            let names: Vec<&str> = file.families.iter().map(|family| family.name.as_str()).collect();
            return Err(Error::Usage {
                reason: format!("{} has no column family `{family}`", path.display()),
                hint: format!("it has {}; choose with --column-family", names.join(", ")),
            });
        };
        if let Some(format) = of.table_format.as_deref().filter(|format| *format != "BlockBasedTable") {
            return Err(Error::Usage {
                reason: format!("{}: column family `{family}` keeps its files as {format}", path.display()),
                hint: "only BlockBasedTable can be loaded".into(),
            });
        }
        for (group, lines) in [(Group::Db, &file.db), (Group::Cf, &of.cf), (Group::Table, &of.table)] {
            for line in lines {
                self.apply_line(path, group, line)?;
            }
        }
        Ok(())
    }

    /// One line of a node's OPTIONS file. What equals RocksDB's default needs no mention; what this RocksDB does not take
    /// (an option of another version, an operator that lives in the node's program) is left out, aloud.
    fn apply_line(&mut self, path: &Path, group: Group, line: &Line) -> Result<()> {
        let origin = Origin::OptionsFile { file: path.to_owned(), line: line.line };
        let assignment = |name: &str, value: &str| Assignment {
            key: Key { stage: Stage::Node, scope: Scope::from(group), name: name.to_owned() },
            value: value.to_owned(),
            reason: None,
            origin: origin.clone(),
        };
        let default = self.resolved.defaults.get(group, &line.name);
        let list: Vec<Assignment> = match default.and_then(fields_of).and(fields_of(&line.value)) {
            Some(fields) if !line.value.contains("id=") => {
                fields.into_iter().map(|(field, value)| assignment(&format!("{}.{field}", line.name), value)).collect()
            }
            _ => vec![assignment(&line.name, &line.value)],
        };
        for assignment in list {
            if default_of(self.resolved.defaults, group, &assignment.key.name)
                .is_some_and(|default| agrees(&assignment.value, default))
            {
                continue;
            }
            if (group, assignment.key.name.as_str()) == (Group::Cf, "comparator") {
                let reason = "records are sorted byte by byte, as leveldb.BytewiseComparator does".into();
                return Err(PresetProblem::BadValue {
                    at: assignment.origin,
                    key: assignment.key,
                    value: assignment.value,
                    reason,
                }
                .into());
            }
            if assignment.value.is_empty() {
                continue;
            }
            match self.validator.validate(&assignment) {
                Ok(settings) => {
                    self.resolved.settings.extend(settings.into_iter().map(|setting| (setting.key.clone(), setting)));
                }
                Err(Error::Preset(problem)) => self.resolved.notes.push(format!("left out: {problem}")),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Checks what RocksDB makes of the options together. A value that it does not keep is refused if it fell back to the
    /// default (that is how it treats objects it cannot make), and noted if RocksDB adjusted it.
    fn try_together(&mut self, section: &'static str, map: OptionMap) -> Result<()> {
        let effective = match options::effective(&map) {
            Ok(effective) => effective,
            Err(ProbeError::Failed(error)) => return Err(error),
            Err(ProbeError::Refused(Refusal(message))) => {
                return Err(PresetProblem::Together { preset: self.resolved.preset.clone(), section, message }.into());
            }
        };
        let mut notes = Vec::new();
        for (group, name, value) in map.iter() {
            // Clipped to the soft limit of descriptors, which is raised before a load.
            if (group, name) == (Group::Db, "max_open_files") {
                continue;
            }
            let Some(kept) = default_of(&effective, group, name).filter(|kept| !agrees(value, kept)) else { continue };
            let Some(setting) = self.setting_of(section, group, name) else { continue };
            let is_number = kept.parse::<f64>().is_ok();
            let from_options_file = matches!(setting.origin, Origin::OptionsFile { .. });
            if !from_options_file && (!is_number || value.starts_with('-')) {
                return Err(PresetProblem::Refused {
                    at: setting.origin.clone(),
                    key: setting.key.clone(),
                    value: value.to_owned(),
                    message: format!("it keeps `{kept}`"),
                    default: default_of(self.resolved.defaults, group, name).unwrap_or_default().to_owned(),
                }
                .into());
            }
            notes.push(format!("{}: RocksDB makes `{kept}` of `{}` = `{value}`", setting.origin, setting.key));
        }
        notes.retain(|note| !self.resolved.notes.contains(note));
        self.resolved.notes.extend(notes);
        Ok(())
    }

    fn setting_of(&self, section: &str, group: Group, name: &str) -> Option<&Setting> {
        let key = |stage| Key { stage, scope: Scope::from(group), name: name.to_owned() };
        let load = self.resolved.settings.get(&key(Stage::Load)).filter(|_| section == "load");
        load.or_else(|| self.resolved.settings.get(&key(Stage::Node)))
    }
}
