//! The binary itself: its socket, its signals and its command line.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use gavotte_agent::contract::agents::HealthRequest;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Scratch, client};

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
    let mut child = serve(socket)
        .arg("--die-with-parent")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
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
