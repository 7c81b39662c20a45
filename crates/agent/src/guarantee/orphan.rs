//! A child process that removes the agent's kernel state if the agent is killed, since that state would outlive it.
//!
//! The child only reads from a pipe whose other end the agent holds. However the agent ends, the kernel closes the
//! pipe. The child then removes what the agent left on the host's interfaces, or makes it static, depending on the
//! guarantees.

use std::io::{self, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use tracing::{debug, warn};

/// How often the child checks whether the agent's claim is free.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: usize = 40;

/// The agent's side. The child ends when this is dropped.
#[derive(Debug)]
pub(super) struct Orphan {
    child: Child,
    line: Option<ChildStdin>,
}

impl Orphan {
    /// Starts the child. If it cannot start, the next agent on the host removes the state.
    pub(super) fn leave(remains: bool) -> Option<Self> {
        // Run the agent's own file, even if it was replaced in the meantime.
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
                warn!(%error, "if this agent is killed, its state in the kernel stays until the next agent starts");
                None
            }
        }
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        // The agent has already removed its state.
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.line.take());
    }
}

/// The child's work: waits until stdin has ended, if requested, and removes the state or leaves static limits.
///
/// # Errors
/// If the kernel refuses.
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
    debug!(?swept, "removed the agent's state");
    Ok(swept)
}
