//! Flows that wait for other flows.

use gavotte_fluid::{Flows, FluidError, Order, Workload, simulate};

use crate::support::{Columns, small};

const MB: u64 = 1_000_000;

#[test]
fn a_chain_runs_one_after_the_other() {
    let columns = Columns::of(&[(2, 0, MB, 0.0), (0, 1, MB, 0.0), (1, 2, MB, 5.0)]);
    let order = Order::edges(3, &[(1, 2), (0, 1)]).expect("no circle");
    let workload = Workload {
        order: Some(&order),
        ..Workload::new(columns.flows())
    };
    let outcome = simulate(&small(80.0), &workload).expect("sound");
    assert_eq!(outcome.start_s, [0.0, 1.0, 5.0]);
    assert_eq!(outcome.finish_s, [1.0, 2.0, 6.0]);
}

#[test]
fn a_phase_waits_for_all_of_the_one_before() {
    let columns = Columns::of(&[(0, 1, MB, 0.0), (2, 3, 3 * MB, 0.0), (1, 0, MB, 0.0), (3, 2, MB, 0.0)]);
    let order = Order::phases(&[7, 7, 9, 9]);
    let workload = Workload {
        order: Some(&order),
        ..Workload::new(columns.flows())
    };
    let outcome = simulate(&small(80.0), &workload).expect("sound");
    assert_eq!(outcome.finish_s, [1.0, 3.0, 4.0, 4.0]);
    assert!((outcome.end_s - 4.0).abs() < 1e-12);
}

#[test]
fn start_up_time_comes_after_the_wait() {
    let columns = Columns::of(&[(0, 1, MB, 0.0), (1, 0, 0, 0.0), (0, 0, MB, 0.0)]);
    let order = Order::edges(3, &[(0, 1), (1, 2)]).expect("no circle");
    let flows = Flows {
        startup_s: Some(&[0.25, 0.5, 0.125]),
        ..columns.flows()
    };
    let outcome = simulate(
        &small(80.0),
        &Workload {
            order: Some(&order),
            ..Workload::new(flows)
        },
    )
    .expect("sound");
    assert_eq!(outcome.start_s, [0.0, 1.25, 1.75]);
    assert_eq!(outcome.finish_s, [1.25, 1.75, 1.875]);
}

#[test]
fn a_circle_is_named() {
    let order = Order::edges(4, &[(0, 1), (1, 2), (2, 1), (2, 3)]);
    assert!(matches!(order, Err(FluidError::OrderCircle(1 | 2))), "{order:?}");
    let error = Order::edges(2, &[(0, 2)]).expect_err("no flow 2").to_string();
    assert_eq!(error, "a flow of dependency 0 is 2, but there are only 2");
}

#[test]
fn many_phases_of_no_bytes_end_at_once() {
    let phases: Vec<u32> = (0..50_000).collect();
    let zeros = vec![0_u32; phases.len()];
    let (bytes, start_s) = (vec![0; phases.len()], vec![0.0; phases.len()]);
    let order = Order::phases(&phases);
    let flows = Flows {
        source: &zeros,
        target: &zeros,
        bytes: &bytes,
        start_s: &start_s,
        ..Flows::default()
    };
    let outcome = simulate(
        &small(80.0),
        &Workload {
            order: Some(&order),
            ..Workload::new(flows)
        },
    )
    .expect("sound");
    assert!(outcome.finish_s.iter().all(|&finish_s| finish_s < 1e-12));
}
