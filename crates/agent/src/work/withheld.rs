//! Measures for how long the host kept the agent from running: a cgroup's quota, a hypervisor that ran other machines, or
//! other programs.
//!
//! A train with such a gap looks like one on a slow path. The kernel reports each cause in files of its own:
//!
//! 1. `cpu.stat` of each cgroup with a quota (`cpu.max`, or `cpu.cfs_quota_us` in version 1), from the agent's own to
//!    the root of the mount.
//! 2. Steal in `/proc/stat`, in ticks of 10 ms, for each core.
//! 3. The run delay in each thread's `schedstat`: how long the thread was ready but had no core.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::contract::agents::Withheld;

/// The kernel's tick in `/proc/stat`: `USER_HZ` is 100 on all architectures that the agent is built for.
const TICK: Duration = Duration::from_millis(10);
/// Number of the column of a core's line in `/proc/stat` that contains its steal.
const STEAL: usize = 8;
/// Number of the column of `schedstat` that contains the run delay, in nanoseconds.
const RUN_DELAY: usize = 1;

static HOST: LazyLock<Files> = LazyLock::new(|| Files::below(Path::new("/")));

/// The kernel's files.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
    mounts: Vec<Mount>,
}

/// A mounted hierarchy of cgroups that may limit processors.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    unified: bool,
    root: String,
    folder: String,
}

/// One cgroup with a quota, as it was at one moment.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    folder: PathBuf,
    quota_cpus: f64,
    period: Duration,
    throttles: u64,
    throttled: Duration,
}

/// The kernel's counters at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    at: Instant,
    groups: Vec<Group>,
    stolen_ticks: BTreeMap<String, u64>,
    delays: BTreeMap<String, Duration>,
}

impl Files {
    /// The files below a folder, which is `/` except in tests.
    pub fn below(root: &Path) -> Self {
        let mounts = mounts(&text(&root.join("proc/self/mountinfo")));
        Self {
            root: root.to_owned(),
            mounts,
        }
    }

    /// Reads all counters.
    pub fn read(&self) -> Reading {
        Reading {
            at: Instant::now(),
            groups: self.groups(),
            stolen_ticks: stolen_ticks(&text(&self.root.join("proc/stat"))),
            delays: self.delays(),
        }
    }

    /// The smallest quota of the agent's cgroups in processors; 0 if there is none.
    pub fn quota_cpus(&self) -> f64 {
        least_quota(&self.groups())
    }

    /// The share of all cores' time since the host's start that was stolen, 0 to 1.
    pub fn stolen_share(&self) -> f64 {
        stolen_share(&text(&self.root.join("proc/stat")))
    }

    /// The agent's cgroups that have a quota. The agent may have been moved since the last call.
    fn groups(&self) -> Vec<Group> {
        let own = text(&self.root.join("proc/self/cgroup"));
        let mut groups = Vec::new();
        for mount in &self.mounts {
            let Some(path) = own.lines().find_map(|line| mount.path_of(line)) else {
                continue;
            };
            let base = self.root.join(mount.folder.trim_start_matches('/'));
            for folder in base
                .join(path)
                .ancestors()
                .take_while(|folder| folder.starts_with(&base))
            {
                groups.extend(Group::read(folder, mount.unified));
            }
        }
        groups
    }

    fn delays(&self) -> BTreeMap<String, Duration> {
        let threads = fs::read_dir(self.root.join("proc/self/task"))
            .into_iter()
            .flatten()
            .flatten();
        threads
            .filter_map(|thread| {
                let line = text(&thread.path().join("schedstat"));
                let delay_ns = line.split_ascii_whitespace().nth(RUN_DELAY)?.parse().ok()?;
                Some((
                    thread.file_name().to_string_lossy().into_owned(),
                    Duration::from_nanos(delay_ns),
                ))
            })
            .collect()
    }
}

/// The files of this host.
pub fn host() -> &'static Files {
    &HOST
}

impl Mount {
    /// The path below the mount that a line of `/proc/self/cgroup` names, if the line is about this hierarchy. The
    /// agent's cgroup may lie outside a container's mount; the mount's own top is then the nearest known one.
    fn path_of<'a>(&self, line: &'a str) -> Option<&'a str> {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let mine = if self.unified {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|name| name == "cpu")
        };
        let below = path.strip_prefix(self.root.trim_end_matches('/')).unwrap_or("");
        let safe = !below.split('/').any(|part| part == "..");
        mine.then_some(if safe { below.trim_start_matches('/') } else { "" })
    }
}

impl Group {
    fn read(folder: &Path, unified: bool) -> Option<Self> {
        let (quota_us, period_us) = if unified {
            let limit = text(&folder.join("cpu.max"));
            let (quota, period) = limit.trim().split_once(' ')?;
            (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)
        } else {
            let number = |name: &str| text(&folder.join(name)).trim().parse::<u64>().ok();
            (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
        };
        let stat = text(&folder.join("cpu.stat"));
        let counter = |key: &str| -> Option<u64> {
            let value = stat
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
            value.trim().parse().ok()
        };
        let throttled = match counter("throttled_usec") {
            Some(us) => Duration::from_micros(us),
            None => Duration::from_nanos(counter("throttled_time")?),
        };
        (period_us > 0).then(|| Self {
            folder: folder.to_owned(),
            quota_cpus: quota_us as f64 / period_us as f64,
            period: Duration::from_micros(period_us),
            throttles: counter("nr_throttled").unwrap_or(0),
            throttled,
        })
    }

    /// The time for which the group was throttled since `before`. The kernel adds up all cores, but it throttles a group
    /// once in each period.
    fn throttled_since(&self, before: &Self) -> Duration {
        let throttles = u32::try_from(self.throttles.saturating_sub(before.throttles)).unwrap_or(u32::MAX);
        let most = self.period.saturating_mul(throttles);
        self.throttled.saturating_sub(before.throttled).min(most)
    }
}

impl Reading {
    /// What was withheld between this reading and a later one. No cause can last longer than the time between them.
    pub fn until(&self, later: &Self) -> Withheld {
        let time = later.at.saturating_duration_since(self.at);
        let seconds = |cause: Duration| cause.min(time).as_secs_f64();
        let (throttled, quota_cpus) = later
            .groups
            .iter()
            .filter_map(|group| {
                let before = self.groups.iter().find(|before| before.folder == group.folder)?;
                Some((group.throttled_since(before), group.quota_cpus))
            })
            .max_by_key(|(throttled, _)| *throttled)
            .filter(|(throttled, _)| !throttled.is_zero())
            .unwrap_or((Duration::ZERO, least_quota(&later.groups)));
        let stolen = later.stolen_ticks.iter().filter_map(|(core, ticks)| {
            let ticks = ticks.saturating_sub(*self.stolen_ticks.get(core)?);
            Some(TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX)))
        });
        let waited = later.delays.iter().map(|(thread, delay)| {
            // A thread that has just begun had waited for nothing before.
            delay.saturating_sub(self.delays.get(thread).copied().unwrap_or_default())
        });
        Withheld {
            seconds: time.as_secs_f64(),
            throttled_s: seconds(throttled),
            quota_cpus,
            stolen_s: seconds(stolen.max().unwrap_or_default()),
            waited_s: seconds(waited.max().unwrap_or_default()),
        }
    }
}

fn least_quota(groups: &[Group]) -> f64 {
    groups
        .iter()
        .map(|group| group.quota_cpus)
        .reduce(f64::min)
        .unwrap_or(0.0)
}

/// Reads the hierarchies that may have quotas from `mountinfo`: number, parent, device, root, folder, options, `-`, type,
/// source, and the hierarchy's own options.
fn mounts(mountinfo: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, folder) = (place.next()?.to_owned(), place.next()?.to_owned());
        let mut kind = kind.split(' ');
        let unified = match kind.next()? {
            "cgroup2" => true,
            "cgroup" => false,
            _ => return None,
        };
        let limits = unified || kind.nth(1)?.split(',').any(|option| option == "cpu");
        limits.then_some(Mount { unified, root, folder })
    };
    mountinfo.lines().filter_map(mount).collect()
}

fn stolen_ticks(stat: &str) -> BTreeMap<String, u64> {
    stat.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let core = words.first()?.strip_prefix("cpu").filter(|number| !number.is_empty())?;
            Some((core.to_owned(), words.get(STEAL)?.parse().ok()?))
        })
        .collect()
}

/// Guests' time is part of user, so it is not counted again.
fn stolen_share(stat: &str) -> f64 {
    let Some(line) = stat.lines().find_map(|line| line.strip_prefix("cpu ")) else {
        return 0.0;
    };
    let spent = line
        .split_ascii_whitespace()
        .take(STEAL)
        .map_while(|word| word.parse::<f64>().ok());
    let spent: Vec<f64> = spent.collect();
    let all: f64 = spent.iter().sum();
    match spent.get(STEAL - 1) {
        Some(stolen) if all > 0.0 => stolen / all,
        _ => 0.0,
    }
}

/// The text of a file; empty if it cannot be read, as where a kernel does not report something.
fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const VERSION_1: &str = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                             33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    /// A folder with the files of a host, removed at the end.
    struct Host(PathBuf);

    impl Host {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let host = Self(std::env::temp_dir().join(format!("gavotte-{name}-{}", std::process::id())));
            host.write(files);
            host
        }

        fn write(&self, files: &[(&str, &str)]) {
            for (name, text) in files {
                let path = self.0.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }

        /// What was withheld in 80 ms in which these files changed.
        fn withheld_while(&self, changes: &[(&str, &str)]) -> Withheld {
            let files = Files::below(&self.0);
            let before = files.read();
            self.write(changes);
            let at = before.at + Duration::from_millis(80);
            before.until(&Reading { at, ..files.read() })
        }
    }

    impl Drop for Host {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_ancestor_that_was_throttled_is_found() {
        let host = Host::new(
            "unified",
            &[
                ("proc/self/mountinfo", UNIFIED),
                ("proc/self/cgroup", "0::/pods/agent\n"),
                ("sys/fs/cgroup/pods/agent/cpu.max", "150000 100000\n"),
                (
                    "sys/fs/cgroup/pods/agent/cpu.stat",
                    "nr_throttled 3\nthrottled_usec 9000\n",
                ),
                ("sys/fs/cgroup/pods/cpu.max", "20000 100000\n"),
                (
                    "sys/fs/cgroup/pods/cpu.stat",
                    "usage_usec 5\nnr_throttled 7\nthrottled_usec 100000\n",
                ),
                ("sys/fs/cgroup/cpu.stat", "usage_usec 5\n"),
            ],
        );
        assert!((Files::below(&host.0).quota_cpus() - 0.2).abs() < 1e-9);
        let stat = "sys/fs/cgroup/pods/cpu.stat";
        let withheld = host.withheld_while(&[(stat, "usage_usec 5\nnr_throttled 8\nthrottled_usec 162000\n")]);
        assert_eq!((withheld.throttled_s, withheld.quota_cpus), (0.062, 0.2));
        // Two cores were throttled for 62 ms each in the same period of 100 ms; the probe took only 80 ms.
        let withheld = host.withheld_while(&[(stat, "nr_throttled 9\nthrottled_usec 286000\n")]);
        assert_eq!((withheld.throttled_s, withheld.seconds), (0.08, 0.08));
        let withheld = host.withheld_while(&[]);
        assert_eq!((withheld.throttled_s, withheld.quota_cpus), (0.0, 0.2));
    }

    #[test]
    fn version_1_has_files_of_its_own() {
        let host = Host::new(
            "version-1",
            &[
                ("proc/self/mountinfo", VERSION_1),
                ("proc/self/cgroup", "3:cpuset:/else\n2:cpu,cpuacct:/agent\n0::/\n"),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
                ("sys/fs/cgroup/cpu,cpuacct/agent/cpu.cfs_quota_us", "5000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/agent/cpu.cfs_period_us", "100000\n"),
                (
                    "sys/fs/cgroup/cpu,cpuacct/agent/cpu.stat",
                    "nr_throttled 1\nthrottled_time 5000000\n",
                ),
            ],
        );
        let stat = "sys/fs/cgroup/cpu,cpuacct/agent/cpu.stat";
        let withheld = host.withheld_while(&[(stat, "nr_throttled 2\nthrottled_time 45000000\n")]);
        assert_eq!((withheld.throttled_s, withheld.quota_cpus), (0.04, 0.05));
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top_of_the_mount() {
        let mount = |root: &str| mounts(&format!("5 4 0:1 {root} /sys/fs/cgroup ro - cgroup2 cgroup rw\n")).remove(0);
        assert_eq!(mount("/docker/x").path_of("0::/docker/x/agent"), Some("agent"));
        assert_eq!(mount("/").path_of("0::/"), Some(""));
        assert_eq!(mount("/").path_of("0::/../../other"), Some(""));
        assert_eq!(mount("/docker/x").path_of("0::/other"), Some(""));
        assert_eq!(mount("/").path_of("4:cpu:/agent"), None);
    }

    #[test]
    fn stolen_time_is_that_of_the_core_that_lost_most() {
        let stat = |first: u32, second: u32| {
            format!(
                "cpu  10 0 10 60 0 0 0 20 0 0\ncpu0 5 0 5 30 0 0 0 {first} 0 0\ncpu1 5 0 5 30 0 0 0 {second} 0 0\nintr 1\n"
            )
        };
        let host = Host::new("stolen", &[("proc/stat", &stat(10, 10))]);
        assert!((Files::below(&host.0).stolen_share() - 0.2).abs() < 1e-9);
        let withheld = host.withheld_while(&[("proc/stat", &stat(11, 14))]);
        assert_eq!((withheld.stolen_s, withheld.quota_cpus), (0.04, 0.0));
    }

    #[test]
    fn the_thread_that_waited_longest_is_counted() {
        let host = Host::new("delays", &[("proc/self/task/7/schedstat", "900 1000000 3\n")]);
        let withheld = host.withheld_while(&[
            ("proc/self/task/7/schedstat", "950 31000000 9\n"),
            ("proc/self/task/8/schedstat", "50 2000000 1\n"),
        ]);
        assert!((withheld.waited_s - 0.03).abs() < 1e-9);
    }

    #[test]
    fn a_host_that_reports_nothing_withholds_nothing() {
        let host = Host::new(
            "silent",
            &[("proc/stat", "cpu 1 2 3\nbtime x\n"), ("proc/self/cgroup", "nonsense")],
        );
        let withheld = host.withheld_while(&[]);
        assert_eq!(
            (
                withheld.throttled_s,
                withheld.stolen_s,
                withheld.waited_s,
                withheld.quota_cpus
            ),
            (0.0, 0.0, 0.0, 0.0)
        );
        assert_eq!(
            (Files::below(&host.0).quota_cpus(), Files::below(&host.0).stolen_share()),
            (0.0, 0.0)
        );
    }
}
