//! Exchanging the names of the complete database and of the one that it replaces.

use std::path::Path;

use crate::error::{Error, Result, StateKind};
use crate::load::journal::Journal;
use crate::load::target::Target;
use crate::os::files::{exchange, exchanges_no_names, sync_dir, unfinished_name};
use crate::os::private;
use crate::report::record::record_checksum;
use crate::schema::RECORD_FILE;

impl Target {
    /// Checks that the file system can exchange names, with two directories of no other use.
    pub fn check_exchange(&self) -> Result<()> {
        let dir = self.partial.join("probe");
        let names = ["1", "2"].map(|name| unfinished_name(&dir.join(name)));
        private::create_dir(&dir)?;
        names.iter().try_for_each(|name| private::create_dir(name))?;
        let outcome = exchange(&names[0], &names[1]);
        let removed = self.remove_dir(&dir);
        outcome.map_err(|error| self.not_exchanged(error)).and(removed)
    }

    /// Exchanges the names of the complete database, set aside, and of the one that it replaces.
    pub fn exchange(&self) -> Result<()> {
        exchange(&self.swap, &self.db).map_err(|error| self.not_exchanged(error))
    }

    fn not_exchanged(&self, error: std::io::Error) -> Error {
        if !exchanges_no_names(&error) {
            return Error::io("replace", &self.db)(error);
        }
        let reason = format!("is on a file system that cannot exchange two names in one step ({error})");
        let hint = "move the old database away and run the same command again, or choose another --db";
        Error::state(&self.db, StateKind::Other, reason, hint)
    }

    /// True if an import into this target was complete and died before it had cleaned up. It is an error if names were being
    /// exchanged and neither database is known to be the new one.
    pub fn is_finished(&self) -> Result<bool> {
        let known = Journal::peek(&self.partial);
        if self.swap.symlink_metadata().is_ok() {
            let is_new = |dir: &Path| known.exchanging.is_some() && record_checksum(dir) == known.exchanging;
            return match (is_new(&self.db), is_new(&self.swap)) {
                (true, _) => Ok(true),
                (false, true) => Ok(false),
                (false, false) => Err(Error::state(
                    &self.swap,
                    StateKind::Unfinished,
                    format!(
                        "nothing tells whether this is the new database or the one that it replaces: neither it nor {} \
                         has the BEDLOAD.json that the journal names",
                        self.db.display()
                    ),
                    "look at both; put the one to keep under the name, and move this one out of the directory, \
                           which --restart then clears",
                )),
            };
        }
        // While the new database has its working name, the final name belongs to another one.
        let is_named = self.into_existing || self.staging.symlink_metadata().is_err();
        Ok(known.is_complete && is_named && self.db.join(RECORD_FILE).exists())
    }

    /// Gives the complete database its working name again, if a run died before it exchanged names.
    pub fn undo_swap(&self) -> Result<()> {
        if self.swap.symlink_metadata().is_err() {
            return Ok(());
        }
        if self.is_finished()? {
            let hint = "run the same command again: it cleans up";
            return Err(Error::state(&self.db, StateKind::Busy, "another run has just finished this import", hint));
        }
        std::fs::rename(&self.swap, &self.staging).map_err(Error::io("rename", &self.swap))?;
        sync_dir(&self.partial)
    }
}
