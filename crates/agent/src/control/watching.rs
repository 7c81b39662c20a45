//! Watches the host's own sockets for a controller.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gavotte_sockets::Watch;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use tokio::sync::mpsc::Sender;
use tokio::task::{JoinError, spawn_blocking};
use tonic::Status;

use crate::contract::agents::{SocketBytes, SocketOwner, WatchReply, WatchRequest};
use crate::error::WorkError;
use crate::hold::Hold;

/// Shortest interval between looks: with shorter ones the host would do little else.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);
const LONGEST_REPORT: Duration = Duration::from_secs(5);

/// Returns the time between looks, and the number of looks between reports.
///
/// # Errors
/// The name of the invalid field.
pub fn paces(request: &WatchRequest) -> Result<(Duration, u32), String> {
    let of = |name: &str, value: f64| Duration::try_from_secs_f64(value).map_err(|_| format!("{name}: not {value}"));
    let look = of("look_s", request.look_s)?.max(SHORTEST_LOOK);
    let report = of("report_s", request.report_s)?.clamp(look, LONGEST_REPORT.max(look));
    Ok((look, (report.as_secs_f64() / look.as_secs_f64()).round() as u32))
}

/// Starts to watch.
///
/// # Errors
/// If the kernel reports nothing about sockets.
pub async fn begin() -> Result<Watch, WorkError> {
    spawn_blocking(Watch::begin)
        .await
        .map_err(std::io::Error::other)
        .and_then(|begun| begun)
        .map_err(WorkError::io("read this host's sockets"))
}

/// Reports traffic until the hold is over or the controller stops listening.
pub async fn run(
    hold: Arc<Hold>,
    watch: Watch,
    (look, looks): (Duration, u32),
    replies: Sender<Result<WatchReply, Status>>,
) {
    let result = hold.during(report_traffic(watch, look, looks.max(1), &replies)).await;
    if let Err(error) = result {
        let _ = replies.send(Err(error.into())).await;
    }
}

async fn report_traffic(
    mut watch: Watch,
    look: Duration,
    looks: u32,
    replies: &Sender<Result<WatchReply, Status>>,
) -> Result<(), WorkError> {
    let mut pace = tokio::time::interval(look);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut spent_s = 0.0;
    loop {
        let reply = reply(&mut watch, spent_s);
        if replies.send(Ok(reply)).await.is_err() {
            return Ok(());
        }
        for _ in 0..looks {
            pace.tick().await;
            if replies.is_closed() {
                return Ok(());
            }
            let looked: Result<_, JoinError> = spawn_blocking(move || {
                let before_s = thread_s();
                let looked = watch.look();
                (watch, looked, thread_s() - before_s)
            })
            .await;
            let (back, looked, took_s) =
                looked.map_err(|error| WorkError::io("watch")(std::io::Error::other(error)))?;
            watch = back;
            spent_s += took_s;
            looked.map_err(WorkError::io("read this host's sockets"))?;
        }
    }
}

/// Processor time of this thread so far, in seconds.
fn thread_s() -> f64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0.0, |used| {
        (used.user_time() + used.system_time()).num_microseconds() as f64 / 1e6
    })
}

fn reply(watch: &mut Watch, cpu_s: f64) -> WatchReply {
    let report = watch.report();
    let counters = watch.counters();
    let counter = |name: &str| {
        counters
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(0, |(_, value)| *value)
    };
    let moved = report.moved.into_iter().map(|each| SocketBytes {
        here: each.here.to_string(),
        there: each.there.to_string(),
        datagrams: each.datagrams,
        sent_bytes: each.sent_bytes,
        received_bytes: each.received_bytes,
    });
    let owners = report.owners.into_iter().map(|(here, owner)| SocketOwner {
        here: here.to_string(),
        pid: owner.pid,
        name: owner.name,
        cgroup: owner.cgroup,
        rank: owner.rank,
    });
    WatchReply {
        unix_time_ns: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_nanos() as i64),
        moved: moved.collect(),
        owners: owners.collect(),
        looks: counter("looks"),
        connections: counter("connections"),
        closed_unseen: counter("closed_unseen"),
        tells_ends: counter("tells_ends") != 0,
        without_datagrams: watch.without_datagrams().unwrap_or_default().to_owned(),
        uncounted_datagrams: counter("uncounted_datagrams"),
        cpu_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_bounded() {
        let of = |look_s, report_s| {
            paces(&WatchRequest {
                run_id: String::new(),
                look_s,
                report_s,
            })
        };
        assert_eq!(of(0.1, 1.0), Ok((Duration::from_millis(100), 10)));
        assert_eq!(of(0.0, 0.0), Ok((SHORTEST_LOOK, 1)));
        assert_eq!(of(0.5, 1e9), Ok((Duration::from_millis(500), 10)));
        assert!(of(-1.0, 1.0).unwrap_err().contains("look_s"));
        assert!(of(1.0, f64::NAN).unwrap_err().contains("report_s"));
    }
}
