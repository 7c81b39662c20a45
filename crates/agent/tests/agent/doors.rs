//! The ports for controllers, and the end of an agent that a controller started over SSH.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::support::Scratch;

fn serve() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gavotte-agent"));
    command
        .args(["serve", "--bind", "127.0.0.1", "--data-port", "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts an agent on a lifeline and waits until it is ready.
fn held(scratch: &Scratch, seconds: &str) -> (Child, String) {
    let mut command = serve();
    command.args(["--lifeline", seconds, "--socket"]).arg(scratch.socket());
    let mut child = command.spawn().unwrap();
    let mut output_line = String::new();
    let output = child.stdout.as_mut().unwrap();
    BufReader::new(output).read_line(&mut output_line).unwrap();
    (child, output_line)
}

fn failed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

#[test]
fn an_agent_ends_when_its_lifeline_does() {
    let scratch = Scratch::new();
    let (mut child, output_line) = held(&scratch, "60");
    assert_eq!(output_line, "gavotte-agent: ready\n");
    assert!(scratch.socket().exists());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(!scratch.socket().exists());
}

#[test]
fn an_agent_lives_on_while_its_lifeline_beats_and_ends_when_it_falls_silent() {
    let scratch = Scratch::new();
    let (mut child, _) = held(&scratch, "2");
    let mut line = child.stdin.take().unwrap();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(300));
        line.write_all(b"\n").unwrap();
        assert!(child.try_wait().unwrap().is_none());
    }
    // The pipe stays open: only silence ends the agent.
    assert!(child.wait().unwrap().success());
    drop(line);
}

#[test]
fn an_agent_that_cannot_serve_is_never_ready() {
    let scratch = Scratch::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_gavotte-agent"))
        .args(["serve", "--bind", "127.0.0.1", "--data-port", &port, "--lifeline", "60"])
        .arg("--socket")
        .arg(scratch.socket())
        .output()
        .unwrap();
    assert!(output.stdout.is_empty());
    assert!(failed(&output).contains("in use"));
}

#[test]
fn a_door_is_needed_and_tls_needs_all_of_its_keys() {
    for arguments in [&[][..], &["--tls", "127.0.0.1:0"], &["--ca", "ca.pem"]] {
        let output = serve().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

#[test]
fn bad_keys_are_named_in_one_line() {
    let scratch = Scratch::new();
    let file = scratch.socket().with_file_name("key.pem");
    let tls = |port: &str| {
        let mut command = serve();
        command.args(["--tls", port]);
        for option in ["--ca", "--cert", "--key"] {
            command.arg(option).arg(&file);
        }
        command.output().unwrap()
    };
    assert!(failed(&tls("127.0.0.1:0")).contains("key.pem: No such file"));
    std::fs::write(&file, "no keys").unwrap();
    assert!(failed(&tls("127.0.0.1:0")).contains("keys: "));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert!(failed(&tls(&address)).contains("control port"));
}
