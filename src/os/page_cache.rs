//! What the page cache holds of a file that is being written: when that goes to the disk, and whether it stays.

use std::fs::File;
use std::num::NonZeroU64;

use rustix::fs::{Advice, fadvise};

/// Drops the whole pages before `end` that are on the disk, and starts to write the others, without a flush and without
/// waiting. The last page stays while it is not full: what is appended next would have to read it back. Advice only.
pub(crate) fn write_and_drop(file: &File, end: u64) {
    if let Some(len) = NonZeroU64::new(whole_pages(end)) {
        let _ = fadvise(file, 0, Some(len), Advice::DontNeed);
    }
}

/// The bytes of the whole pages before `end`.
fn whole_pages(end: u64) -> u64 {
    end - end % rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_full_is_left_out() {
        let page = rustix::param::page_size() as u64;
        for (end, whole) in [(0, 0), (1, 0), (page - 1, 0), (page, page), (page + 1, page), (3 * page, 3 * page)] {
            assert_eq!(whole_pages(end), whole, "{end}");
        }
    }
}
