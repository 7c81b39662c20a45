//! The data path in the kernel, with real packets in the test's own namespaces.

mod support;

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gavotte_shaper::{PairRate, Port, Setup, Shaper, UNLIMITED_BPS, UNNUMBERED, sweep};
use nix::sys::socket::{setsockopt, sockopt};
use support::{LEFT, LEFT6, RIGHT, RIGHT6, Row, allowed};

const TCP: u8 = 6;
const UDP: u8 = 17;
/// What a pair may send at once after it has been idle.
const BUCKET_BYTES: f64 = 65_536.0;

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
    if !allowed() {
        return;
    }
    let row = Row::new();
    let (from, to) = (LEFT, RIGHT);
    let (left, right, sent) = exact(&row, from, to, 42);
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
fn counts_are_exact_with_ipv6_and_flow_labels_stay() {
    if !allowed() {
        return;
    }
    let row = Row::new();
    let mut tap = row.right.tap();
    let (_left, _right, sent) = exact(&row, LEFT6, RIGHT6, 62);
    // Routers choose among equal paths by the label, so all packets of a flow have the same.
    let frames = tap.frames(|frame| frame[20] == UDP && frame.len() > 1000);
    assert_eq!(frames.len(), sent);
    let labels: BTreeSet<_> = frames.iter().map(|frame| frame[15..18].to_vec()).collect();
    assert_eq!(labels.len(), 1);
}

/// Counts packets that nothing drops, exactly. Returns the shapers and how many packets there were.
fn exact(row: &Row, from: IpAddr, to: IpAddr, header_bytes: u64) -> (Arc<Mutex<Shaper>>, Arc<Mutex<Shaper>>, usize) {
    let (left, right) = shapers_between(row, from, to);
    assert_eq!(left.lock().unwrap().without_bpf(), None);
    let sent = send_between(row, (from, to), 400, 1000, Duration::from_millis(2));
    thread::sleep(Duration::from_millis(200));
    let (out, arrived) = (left.lock().unwrap().sent(to), right.lock().unwrap().received(from));
    assert_eq!((sent as u64, sent as u64), (out.packets, arrived.packets));
    assert_eq!(
        (out.bytes, arrived.bytes),
        ((1000 + header_bytes) * sent as u64, (1000 + header_bytes) * sent as u64)
    );
    assert_eq!(arrived.gaps, 0);
    (left, right, sent)
}

/// Sends bytes from left to right by TCP.
fn stream(row: &Row, bytes: usize) {
    let listener = row.right.run(|| TcpListener::bind((RIGHT, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let reader = thread::spawn(move || io::copy(&mut listener.accept().unwrap().0, &mut io::sink()).unwrap());
    row.left.run(move || {
        let mut sender = TcpStream::connect((RIGHT, port)).unwrap();
        sender.write_all(&vec![0; bytes]).unwrap();
    });
    assert_eq!(reader.join().unwrap(), bytes as u64);
}

/// Bytes that have left a class of the left host.
fn class_bytes(row: &Row, class: &str) -> u64 {
    let shown = row.left.shell("tc -s class show dev eth0");
    let mut words = shown
        .split_whitespace()
        .skip_while(|word| *word != class)
        .skip_while(|word| *word != "Sent");
    words.nth(1).unwrap().parse().unwrap()
}

#[test]
fn what_is_in_no_pair_waits_in_one_bounded_class() {
    if !allowed() {
        return;
    }
    let row = Row::new();
    row.left.shell("ip addr add 10.77.0.9/24 dev eth0");
    let alias: IpAddr = "10.77.0.9".parse().unwrap();
    let (left, right) = shapers(&row);
    let mut left = left.lock().unwrap();
    left.limit_rest(4_000_000).unwrap();
    left.set(&[PairRate {
        target: RIGHT,
        rate_bps: 50e6,
        ceil_bps: 50e6,
    }])
    .unwrap();
    // An alias next to the host's address, and IPv6 next to IPv4.
    for (from, to) in [(alias, RIGHT), (LEFT6, RIGHT6)] {
        let (begin, before, counted) = (Instant::now(), class_bytes(&row, "6776:3"), left.rest_bytes());
        send_between(&row, (from, to), 1000, 1400, Duration::from_millis(4));
        let carried = 8.0 * (class_bytes(&row, "6776:3") - before) as f64 / begin.elapsed().as_secs_f64();
        assert!(carried < 1.2 * 4e6 + 8.0 * 40_000.0, "{from}: {carried}");
        assert!(left.rest_bytes() - counted >= 1000 * 1400);
    }
    assert_eq!(left.sent(RIGHT).packets, 0);
    // A program chooses the root's handle, or the class of the rest or of newcomers, as priority: its packets wait in
    // their pair's class nevertheless.
    for priority in [0x6776_0000_u32, 0x6776_0002, 0x6776_0003] {
        let (before, counted) = (left.sent(RIGHT).packets, class_bytes(&row, "6776:10"));
        row.left.run(move || {
            let socket = UdpSocket::bind((LEFT, 0)).unwrap();
            setsockopt(&socket, sockopt::Priority, &(priority as i32)).unwrap();
            for _ in 0..10 {
                socket.send_to(&[0; 1000], (RIGHT, 7)).unwrap();
            }
        });
        thread::sleep(Duration::from_millis(50));
        assert_eq!(left.sent(RIGHT).packets - before, 10, "{priority:x}");
        assert!(class_bytes(&row, "6776:10") - counted >= 10_000, "{priority:x}");
    }
    // The type of service of the agents' own datagrams helps no other socket: they are numbered, and lose it.
    let mut tap = row.right.tap();
    let agents = row.left.run(|| UdpSocket::bind((LEFT, 7777)).unwrap());
    left.exempt(&agents).unwrap();
    let (before, arrived) = (left.sent(RIGHT).packets, right.lock().unwrap().received(LEFT));
    row.left.run(move || {
        for socket in [UdpSocket::bind((LEFT, 0)).unwrap(), agents] {
            setsockopt(&socket, sockopt::Ipv4Tos, &UNNUMBERED.into()).unwrap();
            for _ in 0..10 {
                socket.send_to(&[0; 1000], (RIGHT, 7)).unwrap();
            }
        }
    });
    thread::sleep(Duration::from_millis(50));
    assert_eq!(left.sent(RIGHT).packets - before, 10);
    // Agents' datagrams are no traffic of the pair: an agent would answer each of them.
    let now = right.lock().unwrap().received(LEFT);
    assert_eq!(now.packets - arrived.packets, 10);
    assert_eq!((now.bytes - arrived.bytes, now.control_bytes), (10 * 1042, 10 * 1042));
    let mut services: Vec<u8> = tap
        .frames(|frame| frame[23] == UDP && frame.len() > 1000)
        .iter()
        .map(|frame| frame[15])
        .collect();
    services.sort_unstable();
    assert_eq!(services, [[0; 10], [UNNUMBERED; 10]].concat());
}

#[test]
fn what_others_change_is_announced_and_repaired() {
    if !allowed() {
        return;
    }
    let row = Row::new();
    let (left, _right) = shapers(&row);
    let mut left = left.lock().unwrap();
    let pair = PairRate {
        target: RIGHT,
        rate_bps: 20e6,
        ceil_bps: 30e6,
    };
    left.set(&[pair]).unwrap();
    left.limit_rest(5_000_000).unwrap();
    assert!(!left.is_disturbed(), "its own changes are no news");
    assert!(left.repair().unwrap().is_empty());
    let whole = row.left.shell("tc class show dev eth0");
    assert!(whole.contains("rate 20Mbit ceil 30Mbit"), "{whole}");
    let sent = left.sent(RIGHT).packets;
    let changes = [
        ("tc qdisc replace dev eth0 root pfifo", "replaced by `pfifo`"),
        ("tc qdisc del dev eth0 root", "root qdisc was removed"),
        ("tc qdisc del dev eth0 clsact", "classifiers were removed"),
        ("tc filter del dev eth0 egress", "classifiers were removed"),
        (
            "tc class change dev eth0 parent 6776:1 classid 6776:10 htb rate 900mbit",
            "classes were changed",
        ),
        ("ip link set dev eth0 gso_max_segs 64", "`gso_max_segs` was changed"),
    ];
    for (number, (change, found)) in changes.into_iter().enumerate() {
        row.left.shell(change);
        // The kernel does not announce changes of `gso_max_segs`.
        assert!(left.is_disturbed() || change.starts_with("ip link"), "{change}");
        let texts = left.repair().unwrap();
        assert!(texts.len() == 1 && texts[0].contains(found), "{change}: {texts:?}");
        assert!(left.repair().unwrap().is_empty(), "{change}");
        let mut now: Vec<_> = row
            .left
            .shell("tc class show dev eth0")
            .lines()
            .map(str::to_owned)
            .collect();
        let mut before: Vec<_> = whole.lines().map(str::to_owned).collect();
        now.sort();
        before.sort();
        assert_eq!(now, before, "{change}");
        send(&row, 10, 1000, Duration::ZERO);
        assert_eq!(left.sent(RIGHT).packets - sent, 10 * (number as u64 + 1), "{change}");
        left.is_disturbed();
    }
}

#[test]
fn what_was_there_is_there_again() {
    if !allowed() {
        return;
    }
    let row = Row::new();
    row.left.shell("tc qdisc add dev eth0 clsact");
    row.left.shell("ip link set dev eth0 gso_max_segs 32");
    let state = || {
        let links = row.left.shell("ip -d link show dev eth0");
        let segments = links
            .split_whitespace()
            .skip_while(|word| *word != "gso_max_segs")
            .nth(1);
        (row.left.shell("tc qdisc show dev eth0"), segments.unwrap().to_owned())
    };
    let before = state();
    assert_eq!(before.1, "32");
    drop(row.left.run(|| Shaper::install(setup(LEFT)).unwrap()));
    assert_eq!(state(), before);
    killed_while_shaping(&row);
    assert_eq!(row.left.run(|| sweep().unwrap()), ["eth0"]);
    assert_eq!(state(), before);
    // An `mq` root comes back with the qdiscs of its queues.
    row.left.shell("tc qdisc add dev eth0 root handle 7: mq");
    row.left
        .shell("tc qdisc add dev eth0 parent 7:1 handle 70: pfifo limit 77");
    row.left
        .shell("tc qdisc add dev eth0 parent 7:2 handle 8002: bfifo limit 50000");
    let with_queues = state();
    drop(row.left.run(|| Shaper::install(setup(LEFT)).unwrap()));
    assert_eq!(state(), with_queues);
    killed_while_shaping(&row);
    assert_eq!(row.left.run(|| sweep().unwrap()), ["eth0"]);
    assert_eq!(state(), with_queues);
    // One with classes could not be made again.
    row.left.shell("tc qdisc replace dev eth0 parent 7:1 handle 71: htb");
    let refused = row.left.run(|| Shaper::install(setup(LEFT)).unwrap_err().to_string());
    assert!(refused.contains("`mq` whose queues have `htb`"), "{refused}");
    row.left.shell("tc qdisc del dev eth0 root");
    // The `mq` that Linux itself chooses for a device with several queues comes back, too.
    row.left.shell("ip tuntap add tap0 mode tap multi_queue");
    row.left.shell("ip address add 10.78.0.1/24 dev tap0");
    row.left.shell("ip link set tap0 up");
    let of_tap = || row.left.shell("tc qdisc show dev tap0");
    let chosen = of_tap();
    assert!(chosen.starts_with("qdisc mq 0: root"), "{chosen}");
    drop(row.left.run(|| Shaper::install(setup([10, 78, 0, 1].into())).unwrap()));
    assert_eq!(of_tap(), chosen);
    // The older qdisc of arriving packets excludes the one that classifiers need.
    row.left.shell("tc qdisc del dev eth0 clsact");
    row.left.shell("tc qdisc add dev eth0 ingress");
    let refused = row.left.run(|| Shaper::install(setup(LEFT)).unwrap_err().to_string());
    assert!(refused.contains("`tc qdisc del dev eth0 ingress`"), "{refused}");
    assert!(row.left.shell("tc qdisc show dev eth0").contains("qdisc ingress ffff:"));
}

#[test]
fn only_tcp_is_made_ecn_capable() {
    if !allowed() {
        return;
    }
    let row = Row::new();
    let (_left, _right) = shapers(&row);
    let mut tap = row.right.tap();
    // VXLAN's port, and a port of any other tunnel.
    for port in [4789, 40_000] {
        row.left.run(move || {
            let socket = UdpSocket::bind((LEFT, 0)).unwrap();
            socket.send_to(&[0; 1000], (RIGHT, port)).unwrap();
        });
    }
    // A program that chose ECT(1) itself.
    row.left.run(|| {
        let socket = UdpSocket::bind((LEFT, 0)).unwrap();
        setsockopt(&socket, sockopt::Ipv4Tos, &1).unwrap();
        socket.send_to(&[0; 1000], (RIGHT, 7)).unwrap();
    });
    stream(&row, 100_000);
    thread::sleep(Duration::from_millis(50));
    let frames = tap.frames(|frame| frame[12..14] == [8, 0] && frame[26..30] == [10, 77, 0, 1]);
    let code_points = |protocol: u8, chosen: fn(&[u8]) -> bool| -> BTreeSet<u8> {
        let frames = frames.iter().filter(|frame| frame[23] == protocol && chosen(frame));
        frames.map(|frame| frame[15] & 3).collect()
    };
    assert_eq!(
        code_points(UDP, |frame| frame[36..38] == 4789_u16.to_be_bytes()),
        [0].into()
    );
    assert_eq!(
        code_points(UDP, |frame| frame[36..38] == 40_000_u16.to_be_bytes()),
        [0].into()
    );
    assert_eq!(
        code_points(UDP, |frame| frame[36..38] == 7_u16.to_be_bytes()),
        [1].into()
    );
    // The first segment stays as it is: its receiver would decline ECN.
    assert_eq!(code_points(TCP, |frame| frame[47] & 2 != 0), [0].into());
    assert_eq!(
        code_points(TCP, |frame| frame[47] & 2 == 0 && frame.len() > 1000),
        [2].into()
    );
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
        let sent = send(&row, (bps / 8000.0 * 2.0) as usize, 1400, Duration::from_micros(300));
        let seconds = begin.elapsed().as_secs_f64();
        // A sender on a busy machine may offer less than may pass.
        let offered = 8.0 * 1400.0 * sent as f64 / seconds;
        let bytes = right.lock().unwrap().received(LEFT).bytes - before.bytes;
        // What may pass at once does not count.
        let carried = 8.0 * (bytes as f64 - BUCKET_BYTES) / seconds;
        let wanted = bps;
        assert!(carried < 1.1 * wanted, "{carried} of {wanted} bit/s in {seconds} s");
        assert!(
            carried > 0.5 * wanted.min(offered),
            "{carried} of {wanted} bit/s in {seconds} s, {offered} offered"
        );
    }
    // A slow class that has been idle passes that much at once; its queue alone would drop most of it.
    thread::sleep(Duration::from_millis(300));
    let before = right.lock().unwrap().received(LEFT).packets;
    left.lock().unwrap().idle(RIGHT).unwrap();
    left.lock().unwrap().set(&[rate(100e3)]).unwrap();
    send(&row, 40, 1400, Duration::ZERO);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(right.lock().unwrap().received(LEFT).packets - before, 40);
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
    // A limit that is somewhat too high costs no guarantee, one that is too low does.
    assert_eq!(left.set(&rates(0.95e6)).unwrap(), 0);
    assert_eq!(left.set(&rates(0.9e6)).unwrap(), 250);
    assert_eq!(left.set(&rates(0.95e6)).unwrap(), 250);
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
    stream(&row, 3_000_000);
    thread::sleep(Duration::from_millis(200));
    let arrived = right.lock().unwrap().received(LEFT);
    let (passed, marked) = port.counts();
    assert!(passed >= 2000 && marked > 100, "{passed} {marked}");
    // Segments that are not ECN-capable were made so on their way, but for the first. The port also sees the hosts'
    // neighbour discovery.
    assert!(arrived.ce <= marked && marked - arrived.ce < 10, "{arrived:?} {marked}");
    assert_eq!((arrived.would_mark, arrived.gaps), (0, 0));
    // A datagram may be a tunnel's, which would be lost if it was marked.
    send(&row, 2000, 1000, Duration::from_millis(1));
    thread::sleep(Duration::from_millis(200));
    assert_eq!(right.lock().unwrap().received(LEFT).ce, arrived.ce);
    assert!(port.counts().1 > marked);
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
