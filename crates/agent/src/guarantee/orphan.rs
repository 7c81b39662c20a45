//! A child process that tidies up when the agent is killed: what it keeps in the kernel would outlive it.
//!
//! The child only reads from a pipe whose other end the agent holds. However the agent ends, the kernel closes that, and the
//! child removes what the agent has left on the host's interfaces, or makes it static, as the guarantees say.

use std::io::{self, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use tracing::{debug, warn};

/// How often the child looks whether the agent has let go.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: usize = 40;

/// The agent's side: the child ends with it.
#[derive(Debug)]
pub(super) struct Orphan {
    child: Child,
    line: Option<ChildStdin>,
}

impl Orphan {
    /// Starts the child. Without one the next agent of the host tidies up.
    pub(super) fn leave(remains: bool) -> Option<Self> {
        // The agent's own file, even when it was replaced meanwhile.
        let started = Command::new("/proc/self/exe")
            .arg("sweep")
            .arg("--when-stdin-ends")
            .args(remains.then_some("--static"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        match started {
            Ok(mut child) => Some(Self {
                line: child.stdin.take(),
                child,
            }),
            Err(error) => {
                warn!(%error, "nobody tidies up if this agent is killed");
                None
            }
        }
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        // The agent has tidied up itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.line.take());
    }
}

/// What the child does: waits until stdin has ended, if that is asked for, and sweeps, or leaves static limits.
///
/// # Errors
/// When the kernel does not let it.
pub fn sweep(when_stdin_ends: bool, remains: bool) -> io::Result<Vec<String>> {
    if when_stdin_ends {
        let mut bytes = [0; 64];
        let mut line = io::stdin().lock();
        loop {
            match line.read(&mut bytes) {
                Ok(0) => break,
                Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
                _ => {}
            }
        }
    }
    let mut swept = Vec::new();
    for _ in 0..if when_stdin_ends { LOOKS } else { 1 } {
        let tidy = if remains {
            gavotte_shaper::freeze
        } else {
            gavotte_shaper::sweep
        };
        swept = tidy().map_err(io::Error::other)?;
        if !swept.is_empty() {
            break;
        }
        if when_stdin_ends {
            thread::sleep(LOOK);
        }
    }
    debug!(?swept, "tidied up");
    Ok(swept)
}
