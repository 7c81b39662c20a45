//! The data path in the kernel, with real packets in the test's own namespaces.

mod support;

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gavotte_shaper::{PairRate, Port, Setup, Shaper, UNLIMITED_BPS, sweep};
use support::{LEFT, LEFT6, RIGHT, RIGHT6, Row, allowed};

fn setup(address: IpAddr) -> Setup {
    Setup {
        address,
        limit_bps: UNLIMITED_BPS,
        newcomers_bps: 1_000_000_000,
        ect: true,
        bpf: true,
    }
}

/// Starts a shaper on each host, in the threads of their namespaces.
fn shapers(row: &Row) -> (Arc<Mutex<Shaper>>, Arc<Mutex<Shaper>>) {
    shapers_between(row, LEFT, RIGHT)
}

fn shapers_between(row: &Row, from: IpAddr, to: IpAddr) -> (Arc<Mutex<Shaper>>, Arc<Mutex<Shaper>>) {
    let mut left = row.left.run(move || Shaper::install(setup(from)).unwrap());
    let mut right = row.right.run(move || Shaper::install(setup(to)).unwrap());
    left.watch(to).unwrap();
    right.watch(from).unwrap();
    (Arc::new(Mutex::new(left)), Arc::new(Mutex::new(right)))
}

/// Sends datagrams of `bytes` from left to right in groups. Returns the number that left.
fn send(row: &Row, count: usize, bytes: usize, pause: Duration) -> usize {
    send_between(row, (LEFT, RIGHT), count, bytes, pause)
}

fn send_between(row: &Row, (from, to): (IpAddr, IpAddr), count: usize, bytes: usize, pause: Duration) -> usize {
    row.left.run(move || {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        let payload = vec![0; bytes];
        let mut sent = 0;
        for number in 0..count {
            sent += usize::from(socket.send_to(&payload, (to, 7)).is_ok());
            if number % 16 == 15 {
                thread::sleep(pause);
            }
        }
        sent
    })
}

#[test]
fn counts_are_exact_and_drops_are_found() {
    exact(LEFT, RIGHT, 42);
}

#[test]
fn counts_are_exact_with_ipv6() {
    exact(LEFT6, RIGHT6, 62);
}

fn exact(from: IpAddr, to: IpAddr, header_bytes: u64) {
    if !allowed() {
        return;
    }
    let row = Row::new();
    let (left, right) = shapers_between(&row, from, to);
    assert_eq!(left.lock().unwrap().without_bpf(), None);
    // No packets are lost at first.
    let sent = send_between(&row, (from, to), 400, 1000, Duration::from_millis(2));
    thread::sleep(Duration::from_millis(200));
    let (out, arrived) = (left.lock().unwrap().sent(to), right.lock().unwrap().received(from));
    assert_eq!((sent as u64, sent as u64), (out.packets, arrived.packets));
    assert_eq!(
        (out.bytes, arrived.bytes),
        ((1000 + header_bytes) * sent as u64, (1000 + header_bytes) * sent as u64)
    );
    assert_eq!(arrived.gaps, 0);
    // A bottleneck that drops most of them.
    row.middle
        .shell("tc qdisc add dev out root tbf rate 8mbit burst 3000 limit 9000");
    let more = send_between(&row, (from, to), 4000, 1000, Duration::from_millis(1));
    thread::sleep(Duration::from_millis(200));
    // The last packet must arrive to reveal the gap before it.
    row.middle.shell("tc qdisc del dev out root");
    let last = send_between(&row, (from, to), 1, 1000, Duration::ZERO);
    thread::sleep(Duration::from_millis(200));
    let arrived = right.lock().unwrap().received(from);
    let all = (sent + more + last) as u64;
    assert_eq!(left.lock().unwrap().sent(to).packets, all);
    assert!(arrived.gaps > 1000, "{arrived:?}");
    assert_eq!(arrived.packets + arrived.gaps, all);
}

#[test]
fn packets_of_all_addresses_of_a_host_count_for_it() {
    if !allowed() {
        return;
    }
    let row = Row::new();
    let [far, also_left, also_right]: [IpAddr; 3] =
        ["10.0.0.9", "10.77.0.3", "10.77.0.4"].map(|text| text.parse().unwrap());
    row.left.shell(&format!("ip addr add {also_left}/24 dev eth0"));
    row.right.shell(&format!("ip addr add {also_right}/24 dev eth0"));
    let mut left = row.left.run(|| Shaper::install(setup(LEFT)).unwrap());
    let mut right = row.right.run(|| Shaper::install(setup(RIGHT)).unwrap());
    left.known_as(&[also_left]);
    right.known_as(&[also_right, RIGHT]);
    // The address that names a host need not be in any packet.
    assert!(left.reach(far, &[RIGHT, also_right]).unwrap());
    assert!(right.reach(far, &[LEFT, also_left]).unwrap());
    assert!(!right.reach(far, &[LEFT, also_left]).unwrap());
    let ways = [
        (LEFT, RIGHT),
        (also_left, RIGHT),
        (LEFT, also_right),
        (also_left, also_right),
    ];
    let exchange = || {
        let sent: usize = ways
            .iter()
            .map(|way| send_between(&row, *way, 10, 100, Duration::ZERO))
            .sum();
        thread::sleep(Duration::from_millis(100));
        sent as u64
    };
    let sent = exchange();
    let (out, arrived) = (left.sent(far).packets, right.received(far));
    assert_eq!((out, arrived.packets, arrived.gaps), (sent, sent, 0));
    // An address belongs to the host that it was set for last, and to none after that host has another one.
    assert!(right.reach(LEFT, &[also_left]).unwrap());
    assert!(right.reach(far, &[LEFT]).unwrap());
    let more = exchange();
    assert_eq!(right.received(LEFT).packets, more / 2);
    assert_eq!(right.received(far).packets, sent + more / 2);
    assert!(right.reach(LEFT, &[]).unwrap());
    exchange();
    assert_eq!(right.received(LEFT).packets, more / 2);
    assert_eq!(left.sent(far).packets, sent + 2 * more);
}

#[test]
fn rates_are_enforced_and_own_drops_are_told_apart() {
    if !allowed() {
        return;
    }
    let row = Row::new();
    let (left, right) = shapers(&row);
    let rate = |bps: f64| PairRate {
        target: RIGHT,
        rate_bps: bps / 2.0,
        ceil_bps: bps,
    };
    for bps in [20e6, 60e6] {
        left.lock().unwrap().set(&[rate(bps)]).unwrap();
        let (begin, before) = (Instant::now(), right.lock().unwrap().received(LEFT));
        // Ten times as many as may pass.
        send(&row, (bps / 8000.0 * 2.0) as usize, 1400, Duration::from_micros(300));
        let seconds = begin.elapsed().as_secs_f64();
        let bytes = right.lock().unwrap().received(LEFT).bytes - before.bytes;
        let carried = 8.0 * bytes as f64 / seconds;
        let wanted = bps;
        assert!(carried < 1.1 * wanted, "{carried} of {wanted} bit/s in {seconds} s");
        assert!(carried > 0.5 * wanted, "{carried} of {wanted} bit/s in {seconds} s");
    }
    thread::sleep(Duration::from_millis(100));
    send(&row, 1, 1000, Duration::ZERO);
    thread::sleep(Duration::from_millis(100));
    let sent = left.lock().unwrap().sent(RIGHT);
    let arrived = right.lock().unwrap().received(LEFT);
    assert!(sent.dropped > 100, "{sent:?}");
    // None of the dropped packets had a number, and none was dropped after it got one.
    assert_eq!(left.lock().unwrap().classes().unwrap()[&RIGHT].drops, 0);
    assert_eq!((arrived.gaps, arrived.packets), (0, sent.packets));
}

#[test]
fn small_changes_are_left_out_and_many_go_in_one_batch() {
    if !allowed() {
        return;
    }
    let row = Row::new();
    let (left, _right) = shapers(&row);
    let mut left = left.lock().unwrap();
    let rates = |bps: f64| -> Vec<PairRate> {
        (1..=250u8)
            .map(|last| PairRate {
                target: IpAddr::from([10, 77, 1, last]),
                rate_bps: bps,
                ceil_bps: bps,
            })
            .collect()
    };
    assert_eq!(left.set(&rates(1e6)).unwrap(), 250);
    assert_eq!(left.set(&rates(1.005e6)).unwrap(), 0);
    assert_eq!(left.set(&rates(2e6)).unwrap(), 250);
    let shown = row.left.shell("tc class show dev eth0");
    assert_eq!(shown.matches("rate 2Mbit ceil 2Mbit").count(), 250, "{shown}");
    left.idle(IpAddr::from([10, 77, 1, 1])).unwrap();
    let shown = row.left.shell("tc class show dev eth0");
    assert_eq!(shown.matches("rate 2Mbit ceil 2Mbit").count(), 249);
}

#[test]
fn marks_are_counted_at_the_switch_and_at_the_edge() {
    if !allowed() {
        return;
    }
    let row = Row::new();
    let (left, right) = shapers(&row);
    // A switch that marks above 5 Mbit/s.
    let port = row.middle.run(|| Port::install("out", 5_000_000, 10_000).unwrap());
    send(&row, 2000, 1000, Duration::from_millis(1));
    thread::sleep(Duration::from_millis(200));
    let arrived = right.lock().unwrap().received(LEFT);
    let (passed, marked) = port.counts();
    assert!(passed >= 2000 && marked > 100, "{passed} {marked}");
    // Datagrams that are not ECN-capable were made so on their way. The port also sees the hosts' neighbour discovery.
    assert!(arrived.ce <= marked && marked - arrived.ce < 10, "{arrived:?} {marked}");
    assert_eq!((arrived.would_mark, arrived.gaps), (0, 0));
    drop(port);
    // The receiver's own phantom queue.
    right.lock().unwrap().phantom(5_000_000, 10_000);
    send(&row, 2000, 1000, Duration::from_millis(1));
    thread::sleep(Duration::from_millis(200));
    let edge = right.lock().unwrap().received(LEFT);
    assert_eq!(edge.ce, arrived.ce);
    assert!(edge.would_mark > 100, "{edge:?}");
    drop(left);
}

/// Shapes until it is killed; a separate process for the test below.
#[test]
#[ignore = "run by another test"]
fn shapes_until_killed() {
    let _shaper = Shaper::install(setup(LEFT)).unwrap();
    eprintln!("shapes");
    thread::sleep(Duration::from_secs(60));
}

/// Starts a process that shapes the left host, and kills it.
fn killed_while_shaping(row: &Row) {
    row.left.run(|| {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "shapes_until_killed", "--nocapture"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let ready_line = BufReader::new(child.stderr.take().unwrap()).lines().find(|line| {
            let line = line.as_ref().unwrap();
            line.contains("shapes")
        });
        assert!(ready_line.is_some());
        assert!(sweep().unwrap().is_empty(), "a living process was swept");
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn nothing_is_left_behind() {
    if !allowed() {
        return;
    }
    let row = Row::new();
    let before = row.left.shell("tc qdisc show dev eth0");
    let (left, right) = shapers(&row);
    assert!(row.left.shell("tc qdisc show dev eth0").contains("htb 6776:"));
    drop((left, right));
    assert_eq!(row.left.shell("tc qdisc show dev eth0"), before);
    // The next process finds the state that a killed process left.
    killed_while_shaping(&row);
    assert_eq!(row.left.run(|| sweep().unwrap()), ["eth0"]);
    assert_eq!(row.left.shell("tc qdisc show dev eth0"), before);
    assert!(row.left.run(|| sweep().unwrap()).is_empty());
    // Qdiscs of other programs stay.
    row.left
        .shell("tc qdisc add dev eth0 root tbf rate 8mbit burst 3000 limit 9000");
    let refused = row.left.run(|| Shaper::install(setup(LEFT)).unwrap_err().to_string());
    assert!(refused.contains("root qdisc `tbf` of its own"), "{refused}");
}

#[test]
fn static_rates_work_without_bpf() {
    if !allowed() {
        return;
    }
    let row = Row::new();
    let mut left = row.left.run(|| {
        Shaper::install(Setup {
            bpf: false,
            ..setup(LEFT)
        })
        .unwrap()
    });
    assert!(left.without_bpf().is_some());
    left.set(&[PairRate {
        target: RIGHT,
        rate_bps: 20e6,
        ceil_bps: 20e6,
    }])
    .unwrap();
    let begin = Instant::now();
    send(&row, 2000, 1400, Duration::from_micros(300));
    let seconds = begin.elapsed().as_secs_f64();
    let carried = 8.0 * left.classes().unwrap()[&RIGHT].bytes as f64 / seconds;
    assert!(carried < 1.1 * 20e6 && carried > 5e6, "{carried}");
}
