//! Reads the header of a source, or of one more CAR in it.

use std::path::Path;
use std::sync::Arc;

use super::OpenCar;
use crate::error::{Error, InputKind, Result};
use crate::source::StatedProblem;
use crate::source::block_log::is_block_log;
use crate::source::car::{CarProblem, Header, HeaderStep, MAX_HEADER, read_header};
use crate::source::foreign;
use crate::text::size::human;

const FIRST_READ: usize = 64 << 10;

/// Bytes in which every header has its first field.
const LEAST_HEAD: usize = 64;

/// Most bytes before the blocks: padding of a CARv2 and header.
const MAX_HEAD: u64 = MAX_HEADER + MAX_PADDING;
const MAX_PADDING: u64 = 4 << 20;

impl OpenCar {
    pub fn read_head(&mut self) -> Result<Header> {
        let Self { name, bytes, .. } = self;
        let (name, part) = (Arc::clone(name), self.position);
        let mut head = std::mem::take(&mut self.carry);
        let mut filled = head.len();
        if filled < FIRST_READ {
            head.resize(FIRST_READ, 0);
            filled += bytes.fill(&mut head[filled..], &name)?;
        }
        let mut size = self.size.map(|size| size.saturating_sub(part));
        let header = loop {
            if filled < head.len() {
                head.truncate(filled);
                // The stream has ended, so its size is known.
                size = Some(filled as u64);
            }
            if head.is_empty() {
                return Err(Error::bad_input(&name, 0, crate::source::input::CompressionProblem::Empty));
            }
            let step = read_header(&head, size).map_err(|(problem, at)| {
                let foreign = if part == 0 { foreign::kind(&head, || bytes.tail()) } else { None };
                let ends = size == Some(head.len() as u64);
                match foreign {
                    Some((what, hint)) => Error::bad_input(&name, at, CarProblem::Foreign { what, hint }),
                    None if part == 0 => no_header(&name, &head, ends, problem, at),
                    None => Error::bad_input(&name, part + at, problem),
                }
            })?;
            match step {
                HeaderStep::Header(header) => break header,
                HeaderStep::NeedMore(len) if len > MAX_HEAD => {
                    let reason = format!("header end {len} exceeds the limit of {MAX_HEAD}");
                    return Err(Error::bad_input(&name, part, CarProblem::V2Header { reason }));
                }
                // A CARv2 may begin with padding.
                HeaderStep::NeedMore(len)
                    if self.modes.limits.needs_of_header(len.saturating_sub(MAX_PADDING), 0).is_some() =>
                {
                    // The number of roots is unknown; a root has at least 8 bytes.
                    return Err(self.over_budget(&name, part, len, len as usize / 8));
                }
                HeaderStep::NeedMore(_) if size == Some(head.len() as u64) => {
                    let problem = CarProblem::Truncated { inside: "the header" };
                    let end = head.len() as u64;
                    return Err(match part {
                        0 => no_header(&name, &head, true, problem, end),
                        part => Error::bad_input(&name, part + end, problem),
                    });
                }
                HeaderStep::NeedMore(len) => {
                    // Doubled only as data arrives: a claimed length alone allocates nothing.
                    let target = (len as usize).min(head.len().saturating_mul(2)).max(head.len() + 1);
                    head.resize(target, 0);
                    filled += bytes.fill(&mut head[filled..], &name)?;
                }
            }
        };
        let len = header.blocks_start - header.v2.map_or(0, |v2| v2.data_offset);
        if self.modes.limits.needs_of_header(len, header.roots.len()).is_some() {
            return Err(self.over_budget(&name, part, len, header.roots.len()));
        }
        let start = header.blocks_start as usize;
        if part > 0 {
            self.add_to_checksum(head.get(..start).unwrap_or_default());
        }
        self.position = part + header.blocks_start;
        self.data.end = header.blocks_end().map(|end| part + end);
        self.data.index_at = header.index_at().map(|at| part + at);
        if self.is_mapped() {
            self.bytes.seek(self.position);
        } else {
            self.carry = head.get(start..).unwrap_or_default().to_vec();
            self.cut_carry();
        }
        Ok(header)
    }

    fn over_budget(&self, name: &Path, at: u64, len: u64, roots: usize) -> Error {
        let budget = self.modes.limits.budget;
        let needs = human(self.modes.limits.needs_of_header(len, roots).unwrap_or_default()).replace(' ', "");
        let reason = format!("a header of {} does not fit a memory budget of {}", human(len), human(budget));
        let hint = format!("run it again with --memory {needs}");
        Error::bad_input(name, at, StatedProblem::new(InputKind::Unsupported, reason, hint))
    }

    /// Moves the bytes after the data of a CARv2 out of `carry`.
    pub(super) fn cut_carry(&mut self) {
        let keep = self.window(self.position);
        if self.carry.len() > keep {
            let mut after = self.carry.split_off(keep);
            after.append(&mut self.data.after);
            self.data.after = after;
        }
    }
}

/// Returns the error for a file without a header. Without any field of a header it is no CAR.
fn no_header(name: &Path, head: &[u8], ends: bool, problem: CarProblem, at: u64) -> Error {
    let is_cut = head.len() < LEAST_HEAD && matches!(problem, CarProblem::Truncated { .. });
    let problem = match problem {
        CarProblem::NotACar { .. } if is_block_log(head, ends) => {
            CarProblem::Foreign { what: "a block log", hint: "leave --format car out" }
        }
        CarProblem::NotACar { .. } => problem,
        _ if is_cut || foreign::has_header_fields(head) => problem,
        _ => return Error::bad_input(name, 0, CarProblem::NotACar { reason: problem.to_string() }),
    };
    Error::bad_input(name, at, problem)
}
