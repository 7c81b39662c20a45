//! Enters a container's network namespace, found behind a veth or by a cgroup's processes.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gavotte_shaper::namespace_behind;
use nix::sched::{CloneFlags, setns};

use crate::guarantee::duty::Inside;

/// Moves this thread, and the processes that it starts, into the network namespace of a container.
///
/// # Errors
/// A text that names what is missing.
pub(super) fn enter(inside: &Inside) -> Result<(), String> {
    let namespace = match inside {
        Inside::Device(device) => behind(device)?,
        Inside::Cgroup(cgroup) => of_cgroup(cgroup)?,
    };
    setns(namespace, CloneFlags::CLONE_NEWNET).map_err(|error| format!("enter the network of {inside:?}: {error}"))
}

fn behind(device: &str) -> Result<OwnedFd, String> {
    namespace_behind(device, candidates()).map_err(|error| format!("device `{device}`: {error}"))
}

/// An open file for every network namespace: the named ones, and those of all processes.
fn candidates() -> impl Iterator<Item = OwnedFd> {
    let named = entries(Path::new("/run/netns"));
    let processes = entries(Path::new("/proc"))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit())
        })
        .map(|path| path.join("ns/net"));
    named
        .chain(processes)
        .filter_map(|path| File::open(path).ok())
        .map(Into::into)
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
}

fn of_cgroup(cgroup: &str) -> Result<OwnedFd, String> {
    let relative = Path::new(cgroup.trim_start_matches('/'));
    if relative.components().any(|part| part.as_os_str() == "..") {
        return Err(format!("cgroup `{cgroup}`: must not contain `..`"));
    }
    let folder = Path::new("/sys/fs/cgroup").join(relative);
    let failed = |error: io::Error| format!("cgroup `{cgroup}`: {error}");
    let processes = fs::read_to_string(folder.join("cgroup.procs")).map_err(failed)?;
    let own = fs::metadata("/proc/thread-self/ns/net").map_err(failed)?.ino();
    for process in processes.split_whitespace() {
        let path = Path::new("/proc").join(process).join("ns/net");
        // The process may have ended in the meantime.
        let Ok(file) = File::open(path) else {
            continue;
        };
        if file.metadata().map_err(failed)?.ino() == own {
            return Err(format!(
                "cgroup `{cgroup}`: its processes share the network of their host; guarantee the host"
            ));
        }
        return Ok(file.into());
    }
    Err(format!("cgroup `{cgroup}`: no process is in it"))
}
