//! Finds the owners of sockets in `/proc`, as far as this user may see them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Longest name and path that are reported, in bytes.
const MOST_BYTES: usize = 4096;
/// The variables in which launchers give a process its rank: Open MPI, MPICH, torchrun, Slurm. A torchrun that Slurm
/// has started passes Slurm's variable on to all its ranks, so its own comes first.
const RANKS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK", "SLURM_PROCID"];

/// The process that holds a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The process's number.
    pub pid: u32,
    /// The name shown by `ps -o comm`.
    pub name: String,
    /// The path in cgroup v2 or, if that is empty, the longest path in version 1.
    pub cgroup: String,
    /// The rank, if a launcher of MPI programs or torchrun started the process.
    pub rank: Option<u32>,
}

/// The processes of all sockets that this user may see, by the socket's inode.
pub(crate) fn owners() -> HashMap<u32, Owner> {
    let mut owners = HashMap::new();
    let Ok(processes) = fs::read_dir("/proc") else {
        return owners;
    };
    for entry in processes.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let path = entry.path();
        let inodes = inodes(&path);
        if inodes.is_empty() {
            continue;
        }
        let owner = owner(pid, &path);
        for inode in inodes {
            owners.entry(inode).or_insert_with(|| owner.clone());
        }
    }
    owners
}

fn inodes(process: &Path) -> Vec<u32> {
    let Ok(files) = fs::read_dir(process.join("fd")) else {
        return Vec::new();
    };
    let inode = |link: &Path| -> Option<u32> {
        let name = link.to_str()?;
        name.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    files
        .flatten()
        .filter_map(|file| inode(&fs::read_link(file.path()).ok()?))
        .collect()
}

fn owner(pid: u32, process: &Path) -> Owner {
    let text = |name: &str| fs::read(process.join(name)).map_or_else(|_| String::new(), |bytes| kept(&bytes));
    let environment = fs::read(process.join("environ")).unwrap_or_default();
    Owner {
        pid,
        name: text("comm").trim().to_owned(),
        cgroup: cgroup(&text("cgroup")),
        rank: rank(&environment),
    }
}

fn kept(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_BYTES)]).into_owned()
}

fn cgroup(lines: &str) -> String {
    let paths = || lines.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let unified = lines.lines().find_map(|line| line.strip_prefix("0::"));
    match unified {
        Some(path) if path != "/" => path.to_owned(),
        _ => paths().max_by_key(|path| path.len()).unwrap_or_default().to_owned(),
    }
}

fn rank(environment: &[u8]) -> Option<u32> {
    let value = |name: &str| {
        environment
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    RANKS
        .iter()
        .find_map(|name| std::str::from_utf8(value(name)?).ok()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_socket_is_its_process_own() {
        let _socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = owners()
            .into_values()
            .find(|owner| owner.pid == std::process::id())
            .unwrap();
        assert!(!own.name.is_empty());
    }

    #[test]
    fn ranks_and_cgroups_are_read() {
        assert_eq!(rank(b"A=1\0OMPI_COMM_WORLD_RANK=12\0B="), Some(12));
        assert_eq!(rank(b"XPMI_RANK=1\0PMI_RANK=x"), None);
        assert_eq!(rank(b"SLURM_PROCID=0\0RANK=3\0"), Some(3));
        assert_eq!(cgroup("3:cpu:/docker/ab\n0::/system.slice/a"), "/system.slice/a");
        assert_eq!(cgroup("3:cpu:/docker/ab\n1:name=systemd:/\n0::/"), "/docker/ab");
        assert_eq!(cgroup(""), "");
    }
}
