//! The lifeline ends an agent together with the controller that started it over SSH.
//!
//! The agent's stdin is a pipe whose other end the controller holds. Whether the controller, the SSH connection or the
//! network fails, the pipe closes or falls silent.

use std::io::{self, Read};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tracing::warn;

/// Returns when stdin has ended or was silent for `limit`.
///
/// # Errors
/// If the reading thread cannot be started.
pub async fn cut(limit: Duration) -> io::Result<()> {
    let (beat, beats) = watch::channel(());
    // A blocking read cannot be cancelled, so the runtime must not wait for it.
    thread::Builder::new()
        .name("lifeline".into())
        .spawn(move || listen(io::stdin().lock(), &beat))?;
    silence(beats, limit).await;
    Ok(())
}

fn listen(mut line: impl Read, beat: &watch::Sender<()>) {
    let mut bytes = [0; 64];
    loop {
        match line.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => beat.send_replace(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                warn!(%error, "cannot read the lifeline");
                return;
            }
        }
    }
}

async fn silence(mut beats: watch::Receiver<()>, limit: Duration) {
    while let Ok(Ok(())) = timeout(limit, beats.changed()).await {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGES: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn the_end_of_the_line_cuts_it() {
        let (beat, beats) = watch::channel(());
        listen(&b"\n\n"[..], &beat);
        drop(beat);
        silence(beats, AGES).await;
    }

    #[tokio::test]
    async fn silence_cuts_it_and_a_beat_does_not() {
        let (beat, beats) = watch::channel(());
        silence(beats.clone(), Duration::from_millis(1)).await;
        let held = tokio::spawn(silence(beats, AGES));
        for _ in 0..3 {
            beat.send_replace(());
            tokio::task::yield_now().await;
            assert!(!held.is_finished());
        }
        drop(beat);
        held.await.unwrap();
    }
}
