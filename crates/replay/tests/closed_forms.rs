//! Replays of messages and loops whose times are known.

mod jobs;

use gavotte_net::{BitsPerSec, Network};
use gavotte_replay::{Kind, Model, Op, Placed, Program, ReplayError, replay};
use proptest::prelude::*;

use jobs::{
    ALPHA_S, BYTE_S, RATE_BPS, bare, close, collective, compute, irecv, isend, network, program, run, run_on, wait,
};

fn repeat(count: u64, body: Vec<Op>) -> Op {
    Op::Loop {
        count,
        body: body.into(),
    }
}

fn ping_pong(count: u64, bytes: u64) -> Vec<Vec<Op>> {
    let (send, receive) = ([isend(1, bytes, 0), wait(&[0])], [irecv(1, 1), wait(&[1])]);
    let (reply, request) = ([isend(0, bytes, 0), wait(&[0])], [irecv(0, 1), wait(&[1])]);
    vec![
        vec![repeat(count, [&send[..], &receive[..]].concat())],
        vec![repeat(count, [&request[..], &reply[..]].concat())],
    ]
}

#[test]
fn an_eager_ping_pong_takes_alpha_and_beta_each_way() {
    let done = run(ping_pong(3, 10_000), &bare()).unwrap();
    close(done.makespan_s, 6.0 * (ALPHA_S + 10_000.0 * BYTE_S));
    close(done.critical.latency_s, 6.0 * ALPHA_S);
    close(done.critical.transfer_s, 6.0 * 10_000.0 * BYTE_S);
}

#[test]
fn overheads_are_paid_at_both_ends() {
    let model = Model {
        overhead_s: 3e-6,
        byte_overhead_s: 1e-10,
        ..bare()
    };
    let done = run(ping_pong(3, 10_000), &model).unwrap();
    let end_s = 3e-6 + 10_000.0 * 1e-10;
    close(done.makespan_s, 6.0 * (ALPHA_S + 10_000.0 * BYTE_S + 2.0 * end_s));
    close(done.critical.overhead_s, 12.0 * end_s);
    close(done.overhead_s[0], 6.0 * end_s);
}

#[test]
fn what_the_token_buckets_hold_passes_at_once() {
    let unlimited = BitsPerSec::UNLIMITED;
    let with = |bursts| network(2, 2, 1e15).with_bursts(bursts).unwrap();
    let both = with(vec![Some((30_000.0, unlimited)), Some((20_000.0, unlimited))]);
    let seconds =
        |network: &Network, ranks: Vec<Vec<Op>>| run_on(network, &[0, 1], &program(ranks), &bare()).unwrap().makespan_s;
    let one = |bytes| vec![vec![isend(1, bytes, 0), wait(&[0])], vec![irecv(0, 0), wait(&[0])]];
    close(seconds(&both, one(20_000)), ALPHA_S);
    close(seconds(&both, one(50_000)), ALPHA_S + 30_000.0 * BYTE_S);
    // The bucket of the second message is as full as the pause before it has filled it.
    let pause_s = 10_000.0 * BYTE_S;
    let two = vec![
        vec![
            isend(1, 20_000, 0),
            wait(&[0]),
            compute(pause_s),
            isend(1, 20_000, 1),
            wait(&[1]),
        ],
        vec![irecv(0, 0), irecv(0, 1), wait(&[0, 1])],
    ];
    close(seconds(&both, two), pause_s + 10_000.0 * BYTE_S + ALPHA_S);
    // At a peak of twice the rate a burst takes half the time.
    let peak = BitsPerSec::new(2.0 * RATE_BPS).unwrap();
    let timed = with(vec![Some((30_000.0, peak)), Some((30_000.0, peak))]);
    close(seconds(&timed, one(20_000)), 10_000.0 * BYTE_S + ALPHA_S);
}

#[test]
fn what_the_token_buckets_hold_still_shares_the_uplinks_of_racks() {
    let bursts = vec![Some((30_000.0, BitsPerSec::UNLIMITED)); 4];
    let network = network(4, 2, RATE_BPS / 4.0).with_bursts(bursts).unwrap();
    let seconds = |targets: [u32; 2]| {
        let mut ranks = vec![Vec::new(); 4];
        for (source, target) in (0..).zip(targets) {
            ranks[source as usize].extend([isend(target, 20_000, 0)]);
            ranks[target as usize].extend([irecv(source, 1)]);
        }
        let ends = |ops: &mut Vec<Op>| {
            let requests: Vec<u32> = (ops.iter().map(|op| u32::from(matches!(op, Op::Irecv { .. })))).collect();
            ops.push(wait(&requests));
        };
        ranks.iter_mut().for_each(ends);
        run_on(&network, &[0, 1, 2, 3], &program(ranks), &bare())
            .unwrap()
            .makespan_s
    };
    close(seconds([1, 0]), ALPHA_S);
    close(seconds([2, 3]), ALPHA_S + 40_000.0 * 4.0 * BYTE_S);
}

#[test]
fn what_follows_a_burst_does_not_overtake_it_on_an_uplink() {
    let bursts = vec![Some((30_000.0, BitsPerSec::UNLIMITED)); 4];
    let network = network(4, 2, RATE_BPS / 4.0).with_bursts(bursts).unwrap();
    // The buckets of all hosts hold 30,000 of the 50,000 bytes. All of them cross the uplink.
    let mut ranks = vec![Vec::new(); 4];
    for source in 0..2u32 {
        ranks[source as usize].extend([isend(source + 2, 50_000, 0), wait(&[0])]);
        ranks[source as usize + 2].extend([irecv(source, 0), wait(&[0])]);
    }
    let done = run_on(&network, &[0, 1, 2, 3], &program(ranks), &bare()).unwrap();
    close(done.makespan_s, ALPHA_S + 100_000.0 * 4.0 * BYTE_S);
}

#[test]
fn a_rendezvous_takes_another_round_trip() {
    let model = Model {
        eager_bytes: 1000,
        ..bare()
    };
    let done = run(ping_pong(1, 100_000), &model).unwrap();
    close(done.makespan_s, 2.0 * (3.0 * ALPHA_S + 100_000.0 * BYTE_S));
}

#[test]
fn a_rendezvous_waits_until_the_receiver_is_inside_mpi() {
    let model = Model {
        eager_bytes: 1000,
        ..bare()
    };
    let ranks = vec![
        vec![isend(1, 100_000, 0), wait(&[0])],
        vec![irecv(0, 0), compute(1.0), wait(&[0])],
    ];
    let done = run(ranks, &model).unwrap();
    // The permit leaves after one second, and then come the bytes that did not travel with the announcement.
    close(done.makespan_s, 1.0 + 2.0 * ALPHA_S + 99_000.0 * BYTE_S);
    close(done.critical.compute_s, 1.0);
}

#[test]
fn a_send_ends_when_its_last_bytes_are_in_the_socket() {
    let model = Model {
        eager_bytes: 1000,
        socket_bytes: 10_000,
        ..bare()
    };
    let ranks = vec![vec![isend(1, 101_000, 0), wait(&[0])], vec![irecv(0, 0), wait(&[0])]];
    let done = run(ranks, &model).unwrap();
    close(done.makespan_s, 3.0 * ALPHA_S + 101_000.0 * BYTE_S);
    close(done.finish_s[0], 2.0 * ALPHA_S + 91_000.0 * BYTE_S);
}

#[test]
fn what_no_socket_has_taken_waits_for_a_call_of_the_sender() {
    let model = Model {
        eager_bytes: 1000,
        socket_bytes: 10_000,
        ..bare()
    };
    let leaves_s = 2.0 * ALPHA_S + 35_000.0 * BYTE_S;
    let ranks = vec![
        vec![isend(1, 101_000, 0), irecv(2, 1), wait(&[1]), compute(1.0), wait(&[0])],
        vec![irecv(0, 0), wait(&[0])],
        vec![compute(leaves_s - ALPHA_S - 8.0 * BYTE_S), isend(0, 8, 0), wait(&[0])],
    ];
    let done = run(ranks, &model).unwrap();
    // The announcement has taken 1,000 bytes. The fourth piece of the rest is in the socket when rank 0 leaves.
    close(done.makespan_s, leaves_s + 1.0 + 60_000.0 * BYTE_S + ALPHA_S);
}

#[test]
fn an_eager_sender_does_not_wait() {
    let ranks = vec![
        vec![isend(1, 60_000, 0), wait(&[0]), compute(0.5)],
        vec![compute(1.0), irecv(0, 0), wait(&[0])],
    ];
    let done = run(ranks, &bare()).unwrap();
    close(done.finish_s[0], 0.5);
    close(done.makespan_s, 1.0);
    close(done.wait_s[1], 0.0);
}

#[test]
fn a_synchronous_send_waits_for_the_receive() {
    let send = Op::Isend {
        peer: 1,
        bytes: 8,
        tag: 7,
        communicator: 0,
        request: 0,
        synchronous: true,
    };
    let ranks = vec![vec![send, wait(&[0])], vec![compute(1.0), irecv(0, 0), wait(&[0])]];
    let done = run(ranks, &bare()).unwrap();
    assert!(done.finish_s[0] >= 1.0 + ALPHA_S, "{}", done.finish_s[0]);
}

#[test]
fn two_flows_share_an_uplink() {
    // Ranks 0 and 1 are in one rack, 2 and 3 in another, behind uplinks of one host's rate.
    let bytes = 50_000;
    let ranks = vec![
        vec![isend(2, bytes, 0), wait(&[0])],
        vec![isend(3, bytes, 0), wait(&[0])],
        vec![irecv(0, 0), wait(&[0])],
        vec![irecv(1, 0), wait(&[0])],
    ];
    let done = run_on(
        &network(4, 2, RATE_BPS),
        &[0, 1, 2, 3],
        &program(ranks.clone()),
        &bare(),
    )
    .unwrap();
    close(done.makespan_s, ALPHA_S + 2.0 * f64::from(bytes as u32) * BYTE_S);
    let apart = run_on(&network(4, 2, RATE_BPS), &[0, 2, 1, 3], &program(ranks), &bare()).unwrap();
    close(apart.makespan_s, ALPHA_S + f64::from(bytes as u32) * BYTE_S);
}

#[test]
fn messages_of_two_ranks_follow_each_other() {
    let ranks = vec![
        vec![isend(1, 50_000, 0), isend(1, 50_000, 1), wait(&[0, 1])],
        vec![irecv(0, 0), irecv(0, 1), wait(&[0]), compute(0.0), wait(&[1])],
    ];
    let done = run(ranks, &bare()).unwrap();
    close(done.makespan_s, ALPHA_S + 100_000.0 * BYTE_S);
}

#[test]
fn long_loops_cost_little_and_are_exact() {
    let body = |peer: u32| {
        vec![
            compute(1e-3),
            irecv(peer, 0),
            isend(peer, 10_000, 1),
            wait(&[0, 1]),
            collective(Kind::Barrier, 0),
        ]
    };
    let ranks = |count| vec![vec![repeat(count, body(1))], vec![repeat(count, body(0))]];
    let short = run(ranks(1_000), &bare()).unwrap();
    let long = run(ranks(1_000_000), &bare()).unwrap();
    let pass_s = 1e-3 + ALPHA_S + 10_000.0 * BYTE_S + ALPHA_S;
    close(short.makespan_s, 1e3 * pass_s);
    assert!(
        (long.makespan_s / (1e6 * pass_s) - 1.0).abs() < 1e-6,
        "{}",
        long.makespan_s
    );
    assert!(long.extrapolated_s > 0.99 * long.makespan_s);
    assert!(long.events < 2_000, "{}", long.events);
    assert!((long.critical.total_s() / long.makespan_s - 1.0).abs() < 1e-6);
    assert!((long.critical.compute_s / 1e3 - 1.0).abs() < 1e-6);
    assert!((long.compute_s[0] / 1e3 - 1.0).abs() < 1e-6);
}

#[test]
fn ranks_that_drift_apart_are_not_extrapolated() {
    // The two pairs do not depend on each other, and one is slower.
    let body = |peer: u32, mean_s: f64| {
        vec![repeat(
            400,
            vec![compute(mean_s), irecv(peer, 0), isend(peer, 8, 1), wait(&[0, 1])],
        )]
    };
    let done = run(
        vec![body(1, 1e-3), body(0, 1e-3), body(3, 2e-3), body(2, 2e-3)],
        &bare(),
    )
    .unwrap();
    close(done.finish_s[0], 400.0 * (1e-3 + ALPHA_S + 8.0 * BYTE_S));
    close(done.finish_s[2], 400.0 * (2e-3 + ALPHA_S + 8.0 * BYTE_S));
}

#[test]
fn varying_computing_makes_synchronised_ranks_slower() {
    let noisy = Op::Compute {
        mean_s: 1e-3,
        variance_s2: 0.25e-6,
    };
    let ranks = vec![vec![repeat(2_000, vec![noisy, collective(Kind::Barrier, 0)])]; 8];
    let (program, network) = (program(ranks), network(8, 8, 1e15));
    let hosts: Vec<u32> = (0..8).collect();
    let placed = Placed {
        platform: Some(&network),
        hosts: &hosts,
        cap_bps: None,
    };
    let mean_s = replay(&program, placed, &bare(), None).unwrap().makespan_s;
    let first = replay(&program, placed, &bare(), Some(1)).unwrap();
    assert_eq!(first, replay(&program, placed, &bare(), Some(1)).unwrap());
    assert_ne!(first, replay(&program, placed, &bare(), Some(2)).unwrap());
    // The slowest of eight lognormal times with half the mean as deviation is 1.8 times the mean.
    let factor = (first.makespan_s - 2_000.0 * 3.0 * ALPHA_S) / (mean_s - 2_000.0 * 3.0 * ALPHA_S);
    assert!((1.7..2.0).contains(&factor), "{factor}");
}

#[test]
fn a_deadlock_is_one_line() {
    let ranks = vec![
        vec![compute(0.5), irecv(1, 0), wait(&[0])],
        vec![irecv(0, 0), wait(&[0])],
    ];
    let error = run(ranks, &bare()).unwrap_err().to_string();
    assert_eq!(
        error,
        "the replay stops after 0.500000 s: rank 0 waits for a message with tag 7 from rank 1 that is never sent"
    );
    let ranks = vec![vec![isend(1, 1_000_000, 0), wait(&[0])], vec![]];
    let error = run(ranks, &bare()).unwrap_err().to_string();
    assert!(
        error.contains("rank 0 waits for a message that is never received"),
        "{error}"
    );
    let ranks = vec![vec![collective(Kind::Barrier, 0)], vec![]];
    let error = run(ranks, &bare()).unwrap_err().to_string();
    assert!(
        error.contains("rank 1 in a collective operation of communicator 0"),
        "{error}"
    );
}

#[test]
fn wrong_programs_are_refused() {
    let error = run(vec![vec![isend(5, 8, 0)]], &bare()).unwrap_err().to_string();
    assert_eq!(error, "rank 0: names rank 5 of 1 ranks");
    let short = run_on(&network(2, 2, 1e15), &[0], &program(vec![vec![], vec![]]), &bare()).unwrap_err();
    assert_eq!(short.to_string(), "1 hosts for 2 ranks; name one for each");
    let away = run_on(&network(2, 2, 1e15), &[0, 9], &program(vec![vec![], vec![]]), &bare()).unwrap_err();
    assert_eq!(away.to_string(), "there is no host 9 among 2");
    let model = Model {
        most_events: 10,
        ..bare()
    };
    assert_eq!(run(ping_pong(7, 8), &model).unwrap_err(), ReplayError::TooLong(10));
}

#[test]
fn without_a_network_messages_are_free() {
    let program = program(ping_pong(3, 10_000));
    let placed = Placed {
        platform: None,
        hosts: &[0, 1],
        cap_bps: None,
    };
    close(replay(&program, placed, &bare(), None).unwrap().makespan_s, 0.0);
}

#[test]
fn caps_bound_single_connections() {
    let network = network(2, 2, 1e15);
    let caps = [f64::INFINITY, RATE_BPS / 4.0, RATE_BPS / 4.0, f64::INFINITY];
    let program = program(vec![
        vec![isend(1, 50_000, 0), wait(&[0])],
        vec![irecv(0, 0), wait(&[0])],
    ]);
    let placed = Placed {
        platform: Some(&network),
        hosts: &[0, 1],
        cap_bps: Some(&caps),
    };
    close(
        replay(&program, placed, &bare(), None).unwrap().makespan_s,
        ALPHA_S + 4.0 * 50_000.0 * BYTE_S,
    );
}

/// Ranks that all exchange messages of random sizes with random partners, and then meet.
fn exchanges(sizes: &[u64], ranks: u32) -> Program {
    let body = |rank: u32| {
        let mut ops = Vec::new();
        for (round, &bytes) in sizes.iter().enumerate() {
            let distance = round as u32 % (ranks - 1) + 1;
            ops.push(compute(1e-4 * f64::from(rank + 1)));
            ops.push(irecv((rank + ranks - distance) % ranks, 0));
            ops.push(isend((rank + distance) % ranks, bytes, 1));
            ops.push(wait(&[0, 1]));
        }
        ops.push(collective(Kind::Allreduce, sizes[0]));
        ops
    };
    program((0..ranks).map(body).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_faster_uplink_is_never_slower_for_a_chain(sizes in prop::collection::vec(1_u64..500_000, 1..8), factor in 1.0..8.0_f64) {
        // One rank sends to one other: no order of messages can change.
        let ranks = || {
            let sender = sizes.iter().flat_map(|&bytes| [isend(1, bytes, 0), wait(&[0])]).collect();
            let receiver = sizes.iter().flat_map(|_| [irecv(0, 0), wait(&[0])]).collect();
            program(vec![sender, receiver])
        };
        let slow = run_on(&network(4, 2, 2e8), &[0, 2], &ranks(), &Model::default()).unwrap();
        let fast = run_on(&network(4, 2, 2e8 * factor), &[0, 2], &ranks(), &Model::default()).unwrap();
        prop_assert!(fast.makespan_s <= slow.makespan_s * (1.0 + 1e-9));
    }

    #[test]
    fn equal_hosts_may_be_permuted(sizes in prop::collection::vec(1_u64..500_000, 1..8), seed in 0_u32..1000) {
        let ranks = 6_u32;
        let program = exchanges(&sizes, ranks);
        let straight: Vec<u32> = (0..ranks).collect();
        let mut other = straight.clone();
        other.rotate_left(seed as usize % 6);
        other.swap(0, seed as usize % 5 + 1);
        let network = network(6, 6, 1e15);
        let first = run_on(&network, &straight, &program, &Model::default()).unwrap();
        let second = run_on(&network, &other, &program, &Model::default()).unwrap();
        prop_assert!((first.makespan_s / second.makespan_s - 1.0).abs() < 1e-6, "{} {}", first.makespan_s, second.makespan_s);
    }

    #[test]
    fn parts_add_up(sizes in prop::collection::vec(1_u64..500_000, 1..8)) {
        let program = exchanges(&sizes, 5);
        let hosts = [0, 1, 2, 3, 3];
        let done = run_on(&network(4, 2, 3e8), &hosts, &program, &Model::default()).unwrap();
        prop_assert!((done.critical.total_s() / done.makespan_s - 1.0).abs() < 1e-6);
        for rank in 0..5 {
            let sum_s = done.compute_s[rank] + done.overhead_s[rank] + done.wait_s[rank];
            prop_assert!((sum_s / done.finish_s[rank] - 1.0).abs() < 1e-6, "{sum_s} {}", done.finish_s[rank]);
        }
    }
}
