//! Three network namespaces in a row, with a bottleneck in the middle. One thread holds each of them, and they end with
//! the test.

#![allow(unreachable_pub)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use gavotte_kernel::packet::{OFFLOAD_BYTES, PacketSocket};
use nix::sched::{CloneFlags, unshare};

/// The sending host.
pub const LEFT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
/// The receiving host.
pub const RIGHT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
/// The second addresses of the same hosts.
pub const LEFT6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1));
pub const RIGHT6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2));

static NAMES: AtomicU32 = AtomicU32::new(0);

type Job = Box<dyn FnOnce() + Send>;

/// A thread in its own network namespace.
pub struct Place {
    jobs: mpsc::Sender<Job>,
    thread: Option<thread::JoinHandle<()>>,
    thread_id: i32,
}

impl Place {
    fn new() -> Self {
        let (jobs, todo) = mpsc::channel::<Job>();
        let (sender, thread_id) = mpsc::channel();
        let thread = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("these tests need root");
            sender.send(nix::unistd::gettid().as_raw()).unwrap();
            for job in todo {
                job();
            }
        });
        Self {
            jobs,
            thread: Some(thread),
            thread_id: thread_id.recv().unwrap(),
        }
    }

    /// Runs a job in the namespace's thread and waits for its answer.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, answer) = mpsc::channel();
        let work = Box::new(move || {
            let _ = sender.send(job());
        });
        self.jobs.send(work).unwrap();
        answer.recv().expect("the job panicked")
    }

    /// Records what arrives in the namespace from now on.
    pub fn tap(&self) -> Tap {
        Tap(self.run(|| PacketSocket::open(2048, 8192).unwrap()))
    }

    /// Runs one program, whose arguments are separated by blanks, and returns its output.
    pub fn shell(&self, line: &str) -> String {
        let line = line.to_owned();
        self.run(move || {
            let mut words = line.split_whitespace();
            let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
            assert!(
                output.status.success(),
                "{line}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8(output.stdout).unwrap()
        })
    }
}

/// The frames that arrive in a namespace.
pub struct Tap(PacketSocket);

impl Tap {
    /// The frames since the last call that are chosen, from their Ethernet header on.
    pub fn frames(&mut self, chosen: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(received) = self.0.receive() {
            let frame = &received.bytes[OFFLOAD_BYTES..];
            if frame.len() >= 54 && chosen(frame) {
                frames.push(frame.to_vec());
            }
        }
        frames
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.jobs = mpsc::channel().0;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Two hosts and the bridge between them. A test may limit the bridge's port towards `right`.
pub struct Row {
    /// The sending host.
    pub left: Place,
    /// The bridge; its port `out` leads to `right`.
    pub middle: Place,
    /// The receiving host.
    pub right: Place,
}

/// Whether this process may create network namespaces.
pub fn allowed() -> bool {
    let able = thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET).is_ok())
        .join()
        .unwrap();
    if !able {
        eprintln!("skipped: needs root");
    }
    able
}

impl Row {
    /// Creates and connects the namespaces.
    pub fn new() -> Self {
        let row = Self {
            left: Place::new(),
            middle: Place::new(),
            right: Place::new(),
        };
        let number = NAMES.fetch_add(1, Ordering::Relaxed);
        row.middle.shell("ip link add name bridge type bridge");
        row.middle.shell("ip link set dev bridge up");
        for (place, port, address, wide) in [(&row.left, "in", LEFT, LEFT6), (&row.right, "out", RIGHT, RIGHT6)] {
            let name = format!("gv{number}{port}");
            row.middle
                .shell(&format!("ip link add name {port} type veth peer name {name}"));
            // Move the other end into the host's namespace, which has no name but a thread.
            row.middle
                .shell(&format!("ip link set dev {name} netns {}", place.thread_id));
            row.middle.shell(&format!("ip link set dev {port} master bridge up"));
            place.shell(&format!("ip link set dev {name} name eth0"));
            place.shell("ip link set lo up");
            place.shell(&format!("ip addr add {address}/24 dev eth0"));
            place.shell(&format!("ip addr add {wide}/64 dev eth0 nodad"));
            place.shell("ip link set eth0 up");
        }
        // Fill the neighbour tables.
        for (from, to) in [(LEFT, RIGHT), (LEFT6, RIGHT6)] {
            for _ in 0..50 {
                let heard = row.left.run(move || {
                    let socket = UdpSocket::bind((from, 0));
                    socket.is_ok_and(|socket| socket.send_to(b"x", (to, 9)).is_ok())
                });
                thread::sleep(Duration::from_millis(20));
                let known = row.left.shell(&format!("ip neigh show to {to}"));
                if heard && known.contains("lladdr") {
                    break;
                }
            }
        }
        row
    }
}
