//! The agent's binary: its socket, its signals and its command line.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use gavotte_agent::contract::agents::{EnrolRequest, HealthRequest, LogsRequest, MeasureRequest, Peer, Probe};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Scratch, client};

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gavotte-agent"))
}

fn serve(socket: &Path) -> Command {
    let mut command = command();
    command
        .args(["serve", "--bind", "127.0.0.1", "--data-port", "0", "--socket"])
        .arg(socket);
    command
}

async fn started(socket: &Path) -> Child {
    started_as(serve(socket), socket).await
}

async fn started_as(mut command: Command, socket: &Path) -> Child {
    let mut child = command.arg("--die-with-parent").stderr(Stdio::piped()).spawn().unwrap();
    let mut tries = 0;
    while std::os::unix::net::UnixStream::connect(socket).is_err() && tries < 1000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        tries += 1;
    }
    if tries == 1000 {
        child.kill().unwrap();
        child.wait().unwrap();
        panic!("the agent did not come up");
    }
    child
}

fn stopped(child: Child, signal: Signal) -> Output {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    child.wait_with_output().unwrap()
}

#[tokio::test]
async fn the_socket_is_private_and_removed_on_a_signal() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let scratch = Scratch::new();
        let socket = scratch.socket();
        let child = started(&socket).await;
        let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let health = client(&socket)
            .await
            .health(HealthRequest {})
            .await
            .unwrap()
            .into_inner();
        assert_eq!(health.version, env!("CARGO_PKG_VERSION"));
        let output = stopped(child, signal);
        assert!(output.status.success(), "{output:?}");
        assert!(!socket.exists());
    }
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let scratch = Scratch::new();
    let socket = scratch.socket();
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let child = started(&socket).await;
    let second = serve(&socket).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&second.stderr).contains("another agent"),
        "{second:?}"
    );
    assert!(socket.exists());
    stopped(child, Signal::SIGTERM);
}

#[test]
fn a_file_in_the_sockets_place_is_kept() {
    let scratch = Scratch::new();
    let path = scratch.socket();
    std::fs::write(&path, "precious").unwrap();
    let output = serve(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn the_command_line_says_what_it_is() {
    let version = command().arg("--version").output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        format!("gavotte-agent {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(command().arg("serve").output().unwrap().status.code(), Some(2));
}

#[test]
fn a_log_that_makes_no_sense_is_refused() {
    for (name, value) in [("GAVOTTE_LOG", "a=b=c"), ("GAVOTTE_LOG_FORMAT", "xml")] {
        let output = serve(Path::new("/nowhere/agent.sock"))
            .env(name, value)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr.starts_with(&format!("gavotte-agent: {name}: ")), "{stderr}");
        assert_eq!(stderr.lines().count(), 1);
    }
}

/// The entries of an agent's log after a probe to an unreachable peer, from its stderr and from its Logs call.
async fn logged(format: &str) -> (Vec<String>, Vec<String>) {
    let scratch = Scratch::new();
    let socket = scratch.socket();
    let mut command = serve(&socket);
    command.env("GAVOTTE_LOG", "debug").env("GAVOTTE_LOG_FORMAT", format);
    let child = started_as(command, &socket).await;
    let mut client = client(&socket).await;
    let peer = |name: &str, data_port| Peer {
        name: name.into(),
        address: "127.0.0.1".into(),
        data_port,
        origins: Vec::new(),
    };
    let enrolment = EnrolRequest {
        run_id: "r1".into(),
        secret: vec![0xa5; 32],
        self_: "a".into(),
        peers: vec![peer("a", 2), peer("\u{1b}[2J", 1)],
        ..EnrolRequest::default()
    };
    client.enrol(enrolment).await.unwrap();
    let probe = Probe {
        round: 7,
        peer: "\u{1b}[2J".into(),
        kind: None,
    };
    let schedule = MeasureRequest {
        run_id: "r1".into(),
        probes: vec![probe],
        rounds: 9,
        ..MeasureRequest::default()
    };
    let mut replies = client.measure(schedule).await.unwrap().into_inner();
    assert!(
        replies
            .message()
            .await
            .unwrap()
            .is_some_and(|reply| !reply.error.is_empty())
    );
    assert!(replies.message().await.unwrap().is_none());
    let entries_by_call = client
        .logs(LogsRequest { entries: 0 })
        .await
        .unwrap()
        .into_inner()
        .entries;
    let last = client
        .logs(LogsRequest { entries: 1 })
        .await
        .unwrap()
        .into_inner()
        .entries;
    assert_eq!(last, entries_by_call[entries_by_call.len() - 1..]);
    let output = stopped(child, Signal::SIGTERM);
    let stderr = String::from_utf8(output.stderr).unwrap();
    (stderr.lines().map(Into::into).collect(), entries_by_call)
}

#[tokio::test]
async fn entries_say_run_peer_and_round_as_json() {
    let (stderr, entries_by_call) = logged("json").await;
    assert_eq!(stderr[..entries_by_call.len()], entries_by_call);
    let entries: Vec<serde_json::Value> = stderr.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let failed = entries.iter().find(|entry| entry["message"] == "probe failed").unwrap();
    let (schedule, probe) = (&failed["spans"][0], &failed["spans"][1]);
    assert_eq!(
        (&schedule["name"], &schedule["run"]),
        (&"schedule".into(), &"r1".into())
    );
    assert_eq!((&probe["peer"], &probe["round"]), (&"\u{1b}[2J".into(), &7.into()));
    assert_eq!(
        (&failed["level"], &failed["target"]),
        (&"INFO".into(), &"gavotte_agent::work::schedule".into())
    );
    assert!(failed["timestamp"].is_string() && failed["error"].is_string());
}

#[tokio::test]
async fn entries_are_lines_without_secrets_and_control_characters() {
    let (stderr, _) = logged("text").await;
    let failed = stderr.iter().find(|line| line.contains("probe failed")).unwrap();
    assert!(
        failed.contains("INFO schedule{run=\"r1\"}:probe{round=7 peer="),
        "{failed}"
    );
    assert!(stderr.iter().all(|line| !line.contains(char::is_control)));
    assert!(
        stderr
            .iter()
            .all(|line| !line.contains("165, 165") && !line.contains("a5a5"))
    );
}
