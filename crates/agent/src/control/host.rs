//! What the agent's host looks like, read from `/proc`. What cannot be read is empty or 0.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::contract::PROTOCOL;
use crate::contract::agents::HealthReply;

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
    }
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
    fn a_host_describes_itself() {
        let health = health(7411, "run".into());
        assert!(health.cpus >= 1.0 && health.memory_bytes > 0 && !health.kernel.is_empty());
        assert!(health.congestion_available.contains(&health.congestion));
    }
}
