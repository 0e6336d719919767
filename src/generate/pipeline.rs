//! A pipeline of windows: one is made on all threads while the one before is written.

use std::io;

const CHUNKS_PER_THREAD: usize = 4;

/// Makes and writes windows until `make` leaves one empty. `make` receives the number of the window's first piece, the most
/// pieces of a window, and a window whose pieces are used again.
pub(super) fn run<P: Send>(
    mut make: impl FnMut(u64, usize, &mut Vec<P>) -> io::Result<()> + Send,
    mut write: impl FnMut(&mut [P]) -> io::Result<()> + Send,
) -> io::Result<()> {
    crate::parallel::start_shared()?;
    let width = CHUNKS_PER_THREAD * rayon::current_num_threads();
    let (mut ready, mut next) = (Vec::new(), Vec::new());
    let mut first = 0;
    loop {
        let (written, made) = rayon::join(|| write(&mut ready), || make(first, width, &mut next));
        written?;
        made?;
        std::mem::swap(&mut ready, &mut next);
        first += ready.len() as u64;
        if ready.is_empty() {
            return Ok(());
        }
    }
}
