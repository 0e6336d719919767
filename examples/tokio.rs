//! An import within an asynchronous node: the import runs on a blocking thread, and its progress arrives through a channel.
//!
//! ```console
//! cargo run --release --example tokio -- snapshot.car.zst chain
//! ```

use std::path::Path;

use bedload::ImportOptions;
use bedload::progress::{CancellationToken, Observer, Sample};
use bedload::report::ImportReport;
use tokio::sync::watch;

/// Sends each sample to the tasks that watch the progress.
struct Channel(watch::Sender<Option<Sample>>);

impl Observer for Channel {
    fn sample(&self, sample: &Sample) {
        self.0.send_replace(Some(*sample));
    }
}

async fn import(options: ImportOptions, progress: Channel) -> Result<ImportReport, Box<dyn std::error::Error>> {
    Ok(tokio::task::spawn_blocking(move || bedload::import(&options, &progress)).await??)
}

/// Imports the snapshot, and prints samples meanwhile.
pub fn run(snapshot: &Path, db: &Path) -> Result<ImportReport, Box<dyn std::error::Error>> {
    // A node would cancel it when it shuts down: a blocking task is not aborted when its handle is dropped.
    let stop = CancellationToken::default();
    let options = ImportOptions::new(snapshot, db).memory(1 << 30).stop(stop);
    let (sender, mut receiver) = watch::channel(None::<Sample>);
    tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        let watching = tokio::spawn(async move {
            while receiver.changed().await.is_ok() {
                if let Some(sample) = *receiver.borrow_and_update() {
                    println!("{}: {} bytes", sample.phase.name(), sample.bytes);
                }
            }
        });
        let report = import(options, Channel(sender)).await?;
        watching.await?;
        Ok(report)
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [snapshot, db] = &args[..] else { return Err("usage: tokio SNAPSHOT DB".into()) };
    let report = run(snapshot.as_ref(), db.as_ref())?;
    println!("{} blocks, digest {}", report.blocks.written, report.digest);
    Ok(())
}
