//! A description of the agent's host, read from `/proc`. A value that cannot be read is empty or 0.

use std::fs;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::tcp;
use tokio::net::TcpSocket;

use crate::contract::PROTOCOL;
use crate::contract::agents::HealthReply;
use crate::work::withheld;

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;
/// The congestion control that transfers request, so that they behave alike on all hosts.
const COMMON: &str = "cubic";

/// Describes the host for a controller; `data_port` and `run_id` are the agent's own.
pub fn health(data_port: u16, run_id: String) -> HealthReply {
    let load = line("/proc/loadavg");
    let cpus = std::thread::available_parallelism().map_or(0.0, |cpus| cpus.get() as f64);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_nanos() as i64);
    HealthReply {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: PROTOCOL,
        hostname: line("/proc/sys/kernel/hostname"),
        kernel: line("/proc/sys/kernel/osrelease"),
        cpus,
        memory_bytes: memory_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        congestion: line("/proc/sys/net/ipv4/tcp_congestion_control"),
        congestion_available: words(&line("/proc/sys/net/ipv4/tcp_available_congestion_control")),
        data_port: u32::from(data_port),
        unix_time_ns: now,
        run_id,
        load_1min: load
            .split(' ')
            .next()
            .and_then(|first| first.parse().ok())
            .unwrap_or(0.0),
        lacking: lacking(),
        cpu_quota: withheld::host().quota_cpus(),
        stolen: withheld::host().stolen_share(),
    }
}

/// Lists the privileges that this agent lacks, each with the consequence.
fn lacking() -> Vec<String> {
    let mut lacking = Vec::new();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !has_capability(&status, CAP_NET_ADMIN) {
        lacking.push("CAP_NET_ADMIN: `guarantee` cannot shape what it sends".to_owned());
    }
    lacking.extend(lacking_programs(&status));
    let allowed = words(&line("/proc/sys/net/ipv4/tcp_allowed_congestion_control"));
    let forbidden = |error: &SocketError| error.is_forbidden();
    let pinned = TcpSocket::new_v4().map(|socket| tcp::set_congestion(&socket, COMMON));
    if let Ok(Err(error)) = &pinned
        && forbidden(error)
    {
        lacking.push(format!(
            "TCP `{COMMON}`: transfers use {} (allowed: {})",
            line("/proc/sys/net/ipv4/tcp_congestion_control"),
            allowed.join(", ")
        ));
    }
    lacking
}

/// Lists why BPF programs do not run, each reason with the consequence.
fn lacking_programs(status: &str) -> Vec<String> {
    let Err(counting) = gavotte_sockets::try_counting_datagrams() else {
        return Vec::new();
    };
    let live = "`profile live` cannot count UDP";
    let demand = "`guarantee` cannot follow demand";
    match gavotte_shaper::try_programs() {
        Ok(()) => vec![format!("{}: {live} ({counting})", cause(&counting, status))],
        Err(shaping) if cause(&shaping, status) == cause(&counting, status) => {
            vec![format!(
                "{}: {live}, and {demand} ({counting})",
                cause(&counting, status)
            )]
        }
        Err(shaping) => vec![
            format!("{}: {live} ({counting})", cause(&counting, status)),
            format!("{}: {demand} ({shaping})", cause(&shaping, status)),
        ],
    }
}

/// Returns what the host needs so that a BPF program which failed with `error` could run.
fn cause(error: &io::Error, status: &str) -> &'static str {
    let may = has_capability(status, CAP_BPF) || has_capability(status, CAP_SYS_ADMIN);
    match error.kind() {
        io::ErrorKind::NotFound => "cgroup v2",
        io::ErrorKind::PermissionDenied if may => "BPF programs, which the kernel or a system call filter refuses",
        io::ErrorKind::PermissionDenied => "CAP_BPF",
        // Links of programs to cgroups are the newest part that is needed.
        _ => "BPF programs as of Linux 5.7",
    }
}

fn has_capability(status: &str, number: u32) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    bits.is_none_or(|bits| bits >> number & 1 == 1)
}

fn line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.map_or(0, |kibibytes| kibibytes.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(
            memory_bytes("MemFree: 1 kB\nMemTotal:       4030464 kB\n"),
            4_127_195_136
        );
        assert_eq!(memory_bytes("MemTotal: many\n"), 0);
    }

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        let status = "CapPrm:\tffffffffffffffff\nCapEff:\t0000000000001000\n";
        assert!(has_capability(status, CAP_NET_ADMIN) && !has_capability(status, CAP_BPF));
        // A set that cannot be read is no reason for a warning.
        assert!(has_capability("", CAP_BPF));
    }

    #[test]
    fn the_missing_part_is_named_by_the_error() {
        let (root, nobody) = ("CapEff:\t000001ffffffffff\n", "CapEff:\t0000000000000000\n");
        let named = |kind: io::ErrorKind, status| cause(&kind.into(), status);
        assert_eq!(named(io::ErrorKind::NotFound, root), "cgroup v2");
        assert_eq!(named(io::ErrorKind::PermissionDenied, nobody), "CAP_BPF");
        assert!(named(io::ErrorKind::PermissionDenied, root).contains("system call filter"));
        assert!(named(io::ErrorKind::InvalidInput, root).contains("Linux 5.7"));
    }

    #[test]
    fn a_host_describes_itself() {
        let health = health(7411, "run".into());
        assert!(health.cpus >= 1.0 && health.memory_bytes > 0 && !health.kernel.is_empty());
        assert!(health.congestion_available.contains(&health.congestion));
    }
}
