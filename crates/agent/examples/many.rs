//! Many agents in one process, each with a control socket and a data port of its own, for benchmarks of their controller.
//!
//! `many FOLDER FIRST COUNT` binds FOLDER/K.sock and port 7411 of 127.64.0.0 + K for COUNT numbers K from FIRST on, and
//! serves until its input ends. An agent takes four file descriptors or more, so that 10,000 need several processes.

use std::io::Read;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use gavotte_agent::control::serve::{Options, serve};
use gavotte_agent::control::socket::ControlSocket;
use gavotte_agent::hold::Caps;

const ADDRESSES: u32 = 0x7f40_0000;
const PORT: u16 = 7411;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("FOLDER"));
    let mut number = |name: &str| -> u32 { arguments.next().and_then(|text| text.parse().ok()).expect(name) };
    let (first, count) = (number("FIRST"), number("COUNT"));
    let caps = Caps {
        max_bytes: u64::MAX,
        max_time: Duration::from_secs(3600),
    };
    for number in first..first + count {
        let (socket, control) = ControlSocket::bind(&folder.join(format!("{number}.sock"))).expect("a free socket");
        let options = Options {
            bind: Some(Ipv4Addr::from(ADDRESSES + number).into()),
            data_port: PORT,
            caps,
            state: None,
        };
        tokio::spawn(async move {
            let _socket = socket;
            serve(options, control, std::future::pending())
                .await
                .expect("a free port");
        });
    }
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
    std::process::exit(0);
}
