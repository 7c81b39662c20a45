//! Replays of collectives whose times are known: by the libraries' own algorithms, and by those that users set.

mod jobs;

use std::sync::Arc;

use gavotte_replay::{Collective, Kind, Library, Model, Op, Setting};

use jobs::{ALPHA_S, BYTE_S, bare, close, collective, compute, irecv, isend, run, wait};

#[test]
fn a_ring_allreduce_takes_twice_the_vector() {
    // Open MPI takes a ring for three ranks and 32 kB.
    let bytes = 30_000_u64;
    let ranks = vec![vec![collective(Kind::Allreduce, bytes)]; 3];
    let done = run(ranks, &bare()).unwrap();
    close(done.makespan_s, 4.0 * (ALPHA_S + 10_000.0 * BYTE_S));
}

#[test]
fn recursive_doubling_takes_log2_steps() {
    let ranks = vec![vec![collective(Kind::Allreduce, 4_000)]; 16];
    let done = run(ranks, &bare()).unwrap();
    close(done.makespan_s, 4.0 * (ALPHA_S + 4_000.0 * BYTE_S));
    let ranks = vec![vec![collective(Kind::Barrier, 0)]; 16];
    close(run(ranks, &bare()).unwrap().makespan_s, 4.0 * ALPHA_S);
}

#[test]
fn rabenseifner_halves() {
    // Eight ranks and 16 kB: 8 + 4 + 2 kB there, and the same back.
    let ranks = vec![vec![collective(Kind::Allreduce, 16_384)]; 8];
    let done = run(ranks, &bare()).unwrap();
    close(done.makespan_s, 6.0 * ALPHA_S + 2.0 * 14_336.0 * BYTE_S);
}

#[test]
fn all_kinds_end_for_both_libraries_and_all_sizes() {
    let kinds = [
        Kind::Barrier,
        Kind::Bcast,
        Kind::Reduce,
        Kind::Allreduce,
        Kind::Scan,
        Kind::Exscan,
        Kind::ReduceScatter,
        Kind::ReduceScatterBlock,
        Kind::Scatter,
        Kind::Scatterv,
        Kind::Gather,
        Kind::Gatherv,
        Kind::Allgather,
        Kind::Allgatherv,
        Kind::Alltoall,
        Kind::Alltoallv,
    ];
    for library in [Library::OpenMpi, Library::Mpich] {
        for size in 1..20_usize {
            for bytes in [0, 7, 100, 5_000, 40_000, 300_000, 2_000_000] {
                let calls = kinds.map(|kind| {
                    Op::Collective(Arc::new(Collective {
                        kind,
                        communicator: 0,
                        root: size as u32 / 2,
                        bytes,
                        counts: vec![bytes; size],
                        sources: Vec::new(),
                        targets: Vec::new(),
                        request: None,
                    }))
                });
                let done = run(
                    vec![calls.to_vec(); size],
                    &Model {
                        library,
                        ..Model::default()
                    },
                );
                assert!(done.is_ok(), "{library:?}, {size} ranks, {bytes} bytes: {done:?}");
            }
        }
    }
}

#[test]
fn a_nonblocking_collective_goes_on_while_its_rank_computes() {
    let call = |request| {
        Op::Collective(Arc::new(Collective {
            kind: Kind::Allreduce,
            communicator: 0,
            root: 0,
            bytes: 1_000,
            counts: Vec::new(),
            sources: Vec::new(),
            targets: Vec::new(),
            request: Some(request),
        }))
    };
    // Two at once, and a message between them that would never come if the first call waited.
    let ranks = vec![
        vec![call(3), call(4), irecv(1, 0), wait(&[0]), compute(0.1), wait(&[3, 4])],
        vec![
            call(3),
            call(4),
            compute(0.1),
            isend(0, 8, 0),
            wait(&[0]),
            wait(&[4]),
            wait(&[3]),
        ],
    ];
    let done = run(ranks, &bare()).unwrap();
    close(done.makespan_s, 0.2 + ALPHA_S + 8.0 * BYTE_S);
}

/// A model with one setting for communicators of four.
fn set(kind: Kind, from_bytes: u64, algorithm: u8, segment_bytes: u64) -> Model {
    let setting = Setting {
        kind,
        members: 4,
        from_bytes,
        algorithm,
        segment_bytes,
    };
    Model {
        settings: [setting].into(),
        ..bare()
    }
}

fn all_four(op: &Op) -> Vec<Vec<Op>> {
    vec![vec![op.clone()]; 4]
}

#[test]
fn a_chain_passes_pieces_on_while_the_next_ones_arrive() {
    let (pieces, piece) = (4, 25_000);
    let ranks = all_four(&collective(Kind::Bcast, pieces * piece));
    let whole = run(ranks.clone(), &set(Kind::Bcast, 0, 3, 0)).unwrap();
    let cut = run(ranks, &set(Kind::Bcast, 0, 3, piece)).unwrap();
    let each_s = piece as f64 * BYTE_S;
    close(cut.makespan_s, 3.0 * (ALPHA_S + each_s) + (pieces - 1) as f64 * each_s);
    // The whole message is announced, permitted and sent at each of three hops.
    assert!(whole.makespan_s > 3.0 * (pieces as f64 * each_s));
}

#[test]
fn a_reduction_in_pieces_combines_each_byte_as_often_as_a_whole_one() {
    let bytes = 100_000;
    let ranks = all_four(&collective(Kind::Reduce, bytes));
    for algorithm in [3, 4, 5] {
        let combining = |segment_bytes| Model {
            combine_s: 1e-9,
            ..set(Kind::Reduce, 0, algorithm, segment_bytes)
        };
        let whole = run(ranks.clone(), &combining(0)).unwrap();
        let cut = run(ranks.clone(), &combining(16_384)).unwrap();
        close(cut.overhead_s.iter().sum(), whole.overhead_s.iter().sum());
        close(whole.overhead_s.iter().sum(), 3.0 * bytes as f64 * 1e-9);
    }
}

#[test]
fn a_setting_counts_from_its_bytes_on_and_not_for_nonblocking_calls() {
    let linear = |bytes| {
        run(
            all_four(&collective(Kind::Bcast, bytes)),
            &set(Kind::Bcast, 50_000, 1, 0),
        )
    };
    let default = |bytes| run(all_four(&collective(Kind::Bcast, bytes)), &bare());
    let chain = |bytes| {
        run(
            all_four(&collective(Kind::Bcast, bytes)),
            &set(Kind::Bcast, 50_000, 3, 0),
        )
    };
    assert_eq!(linear(49_999), default(49_999));
    assert_eq!(chain(49_999), default(49_999));
    assert_ne!(linear(50_000), chain(50_000));
    let nonblocking = |model: &Model| {
        let Op::Collective(call) = collective(Kind::Bcast, 50_000) else {
            unreachable!()
        };
        let call = Op::Collective(Arc::new(Collective {
            request: Some(5),
            ..(*call).clone()
        }));
        run(vec![vec![call, wait(&[5])]; 4], model).unwrap()
    };
    assert_eq!(
        nonblocking(&set(Kind::Bcast, 0, 3, 0)),
        nonblocking(&set(Kind::Bcast, 0, 1, 0))
    );
}

#[test]
fn an_allgather_is_set_by_the_bytes_of_all_blocks() {
    let time = |from_bytes| {
        let model = set(Kind::Allgather, from_bytes, 4, 0);
        run(all_four(&collective(Kind::Allgather, 10_000)), &model).unwrap()
    };
    assert_eq!(time(40_000), time(0));
    assert_ne!(time(40_001), time(0));
}

#[test]
fn mpich_takes_the_algorithm_that_is_set() {
    let mpich = |settings| Model {
        library: Library::Mpich,
        ..settings
    };
    let time = |model: &Model| run(all_four(&collective(Kind::Allreduce, 400_000)), model).unwrap();
    let default = time(&mpich(bare()));
    assert_eq!(time(&mpich(set(Kind::Allreduce, 0, 2, 0))), default);
    assert_ne!(time(&mpich(set(Kind::Allreduce, 0, 1, 0))), default);
    // There is no algorithm of this number.
    assert_eq!(time(&mpich(set(Kind::Allreduce, 0, 99, 0))), default);
}
