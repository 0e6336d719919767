//! Finds the records in the bytes of a stream.

use super::problem::{Fault, MAX_KEY, RecordLimits, fault, long_key};

const SWITCH: u32 = u32::MAX - 1;
const TRAILER: u32 = u32::MAX;

/// Bytes of a switch, and of the trailer.
const SWITCH_LEN: usize = 8;
const TRAILER_LEN: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trailer {
    pub records: u64,
    pub crc: u32,
}

/// The whole records at the front of some bytes, and the reason why no more follow.
#[derive(Debug, Default)]
pub(super) struct Framed {
    pub starts: Vec<u32>,
    /// The number of a record, and the column family of this and the next ones.
    pub switches: Vec<(u32, u16)>,
    /// Bytes of the records and switches.
    pub len: usize,
    /// Bytes that make the next record whole.
    pub needed: usize,
    /// The trailer after the records.
    pub trailer: Option<Trailer>,
    /// The fault after the records.
    pub fault: Option<Fault>,
}

/// Returns the number at an offset.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Returns the key or the value whose length is at an offset, and the offset after it.
fn part(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let len = number(bytes, at)? as usize;
    Some((bytes.get(at + 4..)?.get(..len)?, at + 4 + len))
}

/// Returns the key at an offset.
pub(super) fn key_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    Some(part(bytes, at)?.0)
}

/// Returns the key and the value of the record at an offset.
pub(super) fn record_at(bytes: &[u8], at: usize) -> Option<(&[u8], &[u8])> {
    let (key, value_at) = part(bytes, at)?;
    Some((key, part(bytes, value_at)?.0))
}

/// Appends a record of `kv`.
pub fn put_record(to: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    for part in [key, value] {
        to.extend((part.len() as u32).to_le_bytes());
        to.extend_from_slice(part);
    }
}

/// Appends the column family of the next records.
pub fn put_switch(to: &mut Vec<u8>, family: u32) {
    [SWITCH, family].iter().for_each(|number| to.extend(number.to_le_bytes()));
}

/// Appends the trailer of a stream of `records` whose bytes so far have this CRC-32.
pub fn put_trailer(to: &mut Vec<u8>, records: u64, crc: u32) {
    to.extend(TRAILER.to_le_bytes());
    to.extend(records.to_le_bytes());
    to.extend(crc.to_le_bytes());
}

/// Hops over whole records. `families` is the number of column families; 0 if there are no switches and no trailer.
pub(super) fn frame(bytes: &[u8], limits: &RecordLimits, families: u32) -> Framed {
    let mut framed = Framed { starts: Vec::with_capacity(bytes.len() / 256), ..Framed::default() };
    loop {
        let at = framed.len;
        let Some(key_len) = number(bytes, at) else {
            framed.needed = at + 4;
            return framed;
        };
        match key_len {
            SWITCH if families > 0 => {
                let Some(family) = number(bytes, at + 4) else {
                    framed.needed = at + SWITCH_LEN;
                    return framed;
                };
                if family >= families {
                    let reason =
                        format!("there is no column family {family}: the header names {families}, counted from 0");
                    framed.fault = Some(fault(at, reason));
                    return framed;
                }
                framed.switches.push((framed.starts.len() as u32, family as u16));
                framed.len += SWITCH_LEN;
                continue;
            }
            TRAILER if families > 0 => {
                let parts =
                    bytes.get(at + 4..at + TRAILER_LEN).and_then(|rest| Some((*rest.first_chunk()?, number(rest, 8)?)));
                framed.needed = at + TRAILER_LEN;
                framed.trailer = parts.map(|(records, crc)| Trailer { records: u64::from_le_bytes(records), crc });
                return framed;
            }
            len if len > MAX_KEY => {
                framed.fault = Some((at, long_key(len as usize)));
                return framed;
            }
            _ => {}
        }
        let value_at = at + 4 + key_len as usize;
        let Some(value_len) = number(bytes, value_at) else {
            framed.needed = value_at + 4;
            return framed;
        };
        if let Some(problem) = limits.refuse(u64::from(value_len)) {
            framed.fault = Some((at, problem));
            return framed;
        }
        let end = value_at + 4 + value_len as usize;
        if end > bytes.len() {
            framed.needed = end;
            return framed;
        }
        framed.starts.push(at as u32);
        framed.len = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RecordLimits =
        RecordLimits { max_value: 1 << 20, fits: 1 << 19, budget: 1 << 30, chunk: 1 << 16, allow_no_trailer: false };

    fn stream() -> Vec<u8> {
        let mut bytes = Vec::new();
        put_record(&mut bytes, b"", b"");
        put_record(&mut bytes, b"key", b"value");
        put_switch(&mut bytes, 1);
        put_record(&mut bytes, b"k", &[7; 300]);
        bytes
    }

    #[test]
    fn records_and_switches_are_found() {
        let bytes = stream();
        let framed = frame(&bytes, &LIMITS, 2);
        assert_eq!((framed.starts.len(), framed.len, framed.switches), (3, bytes.len(), vec![(2, 1)]));
        let found: Vec<_> = framed.starts.iter().map(|at| record_at(&bytes, *at as usize).expect("whole")).collect();
        assert_eq!(found, [(&b""[..], &b""[..]), (b"key", b"value"), (b"k", &[7; 300])]);
    }

    #[test]
    fn every_cut_leaves_whole_records() {
        let bytes = stream();
        for cut in 0..bytes.len() {
            let framed = frame(&bytes[..cut], &LIMITS, 2);
            assert!(framed.len <= cut && framed.needed > cut && framed.fault.is_none(), "{cut}: {framed:?}");
        }
    }

    #[test]
    fn lengths_beyond_the_limits_are_faults() {
        let long_key = (MAX_KEY + 1).to_le_bytes().to_vec();
        let long_value = [1u32.to_le_bytes().to_vec(), vec![b'k'], u32::MAX.to_le_bytes().to_vec()].concat();
        let over_budget = [0u32.to_le_bytes(), (1u32 << 20).to_le_bytes()].concat();
        let family = [SWITCH.to_le_bytes(), 2u32.to_le_bytes()].concat();
        for (bytes, words) in [
            (long_key, "a key of 65536 bytes"),
            (long_value, "a value of 4294967295 bytes"),
            (over_budget, "--memory"),
            (family, "no column family 2"),
            (SWITCH.to_le_bytes().to_vec(), ""),
        ] {
            let framed = frame(&bytes, &LIMITS, 2);
            let reason = framed.fault.map(|(_, problem)| problem.to_string()).unwrap_or_default();
            assert!(reason.contains(words) && (framed.starts.len(), framed.len) == (0, 0), "{words}: {reason}");
        }
        assert!(frame(&TRAILER.to_le_bytes(), &LIMITS, 0).fault.is_some(), "ROCKDUMP has no trailer");
    }

    #[test]
    fn trailer_ends_the_records() {
        let mut bytes = stream();
        let len = bytes.len();
        put_trailer(&mut bytes, 3, 9);
        let framed = frame(&bytes, &LIMITS, 2);
        assert_eq!((framed.len, framed.trailer), (len, Some(Trailer { records: 3, crc: 9 })));
        assert_eq!(frame(&bytes[..len + 15], &LIMITS, 2).trailer, None);
    }
}
