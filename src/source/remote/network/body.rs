//! The bytes of an answer.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use super::fault::Fault;
use crate::failpoint;

/// Time without data after which a connection has stalled.
const STALL: Duration = Duration::from_secs(15);
/// The throughput below which a connection has stalled, in bytes a second. It is measured over this many times the
/// stall.
pub(super) const LEAST_RATE: u64 = 1 << 10;
const STALLS: u32 = 4;

/// The bytes of an answer. Only the time in which the caller waits for bytes counts.
pub(super) struct AnswerBody {
    stream: BoxStream<'static, Result<Bytes, Fault>>,
    stall: Duration,
    /// Time of waiting and bytes since the throughput was last compared with the least.
    waited: Duration,
    bytes: u64,
}

impl AnswerBody {
    pub fn new(stream: BoxStream<'static, Result<Bytes, Fault>>) -> Self {
        Self { stream, stall: failpoint::network_stall().unwrap_or(STALL), waited: Duration::ZERO, bytes: 0 }
    }

    /// Reads at least `want` bytes, or all if there are fewer.
    pub async fn take(&mut self, want: usize) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        while bytes.len() < want
            && let Some(piece) = self.next().await?
        {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// Returns the next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let window = self.stall * STALLS;
        let stalled = |what: String| Err(Fault::transient(format!("the connection stalled: {what}")));
        let mut quiet = Duration::ZERO;
        loop {
            if self.waited >= window {
                if (self.bytes as f64) < LEAST_RATE as f64 * self.waited.as_secs_f64() {
                    return stalled(format!("less than 1 KiB/s for {} s", window.as_secs_f64()));
                }
                (self.waited, self.bytes) = Default::default();
            }
            if quiet >= self.stall {
                return stalled(format!("no data for {} s", self.stall.as_secs_f64()));
            }
            let (began, most) = (Instant::now(), (self.stall - quiet).min(window - self.waited));
            let piece = tokio::time::timeout(most, self.stream.next()).await;
            self.waited += began.elapsed();
            quiet += began.elapsed();
            if let Ok(piece) = piece {
                let piece = piece.transpose()?;
                self.bytes += piece.as_ref().map_or(0, Bytes::len) as u64;
                return Ok(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    /// Returns the end of a body whose pieces of `bytes` arrive after `every`.
    fn end_of(every: Duration, bytes: usize) -> String {
        let pieces = stream::unfold((), move |()| async move {
            tokio::time::sleep(every).await;
            Some((Ok(Bytes::from(vec![0; bytes])), ()))
        });
        let mut body = AnswerBody { stall: Duration::from_millis(100), ..AnswerBody::new(pieces.boxed()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async move {
            let until = Instant::now() + Duration::from_secs(2);
            while Instant::now() < until {
                match body.next().await {
                    Err(Fault::Transient { what, .. }) => return what,
                    piece => drop(piece.expect("a piece")),
                }
            }
            "nothing".into()
        })
    }

    #[test]
    fn a_trickle_is_a_stall() {
        let millis = Duration::from_millis;
        assert_eq!(end_of(millis(20), 1), "the connection stalled: less than 1 KiB/s for 0.4 s");
        assert_eq!(end_of(millis(10), 1000), "nothing");
        assert_eq!(end_of(millis(500), 1 << 20), "the connection stalled: no data for 0.1 s");
    }
}
