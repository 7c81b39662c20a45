//! Coflow traces as files: both formats, and one test line for each error.

#![allow(clippy::float_cmp, reason = "exact by construction")]

use gavotte_swarm::{Trace, TraceError};
use proptest::prelude::*;

fn read(text: &str) -> Result<Trace, TraceError> {
    Trace::read(text.as_bytes())
}

fn refused(text: &str) -> String {
    read(text).expect_err("a mistake").to_string()
}

#[test]
fn a_table_in_any_order_of_columns() {
    let trace = read("bytes,source,target,coflow,arrival_s,class,weight\n5,a,b,one,1.5,2,4\n 2 , b,a,two,0,,\n3,a,b,one,1.5,2,4\n1,b,b,one,1.5,2,4\n").expect("sound");
    assert_eq!(trace.ports, ["a", "b"]);
    let [one, two] = &trace.coflows[..] else {
        panic!("two coflows")
    };
    assert_eq!(
        (one.name.as_str(), one.arrival_s, one.class, one.weight),
        ("one", 1.5, 2, 4.0)
    );
    assert_eq!(one.flows, [(0, 1, 8.0), (1, 1, 1.0)]);
    assert_eq!((two.class, two.weight, &two.flows[..]), (0, 1.0, &[(1, 0, 2.0)][..]));
    assert_eq!((trace.flow_count(), trace.bytes()), (3, 11.0));
}

#[test]
fn sizes_with_a_unit() {
    let bytes = |size: &str| {
        let trace = read(&format!("coflow,arrival_s,source,target,bytes\nc,0,a,b,{size}\n"));
        trace.map(|trace| trace.bytes()).map_err(|error| error.to_string())
    };
    for (size, number) in [
        ("5MB", 5e6),
        ("1.5 kB", 1500.0),
        ("0gb", 0.0),
        ("2tb", 2e12),
        ("1e6", 1e6),
    ] {
        assert_eq!(bytes(size), Ok(number), "{size}");
    }
    for size in [
        "5MiB",
        "MB",
        "-1MB",
        "1e3MB",
        "nanMB",
        "5  MB",
        "9999999TB",
        "5\u{e9}B",
        "\u{20ac}",
    ] {
        let wanted = "does not fit; write a number of bytes from 0 on, or a size such as 5MB";
        assert_eq!(bytes(size), Err(format!("line 2: bytes: `{size}` {wanted}")));
    }
}

#[test]
fn a_public_trace() {
    let trace = read("4 2\n1 500 2 0 3 1 2:10.0\n7 1000 1 1 2 0:1.0 1:3.0\n").expect("sound");
    assert_eq!(trace.ports.len(), 4);
    assert_eq!(trace.coflows[0].flows, [(0, 2, 5e6), (3, 2, 5e6)]);
    assert_eq!((trace.coflows[0].arrival_s, trace.coflows[1].name.as_str()), (0.5, "7"));
    assert_eq!(trace.coflows[1].flows, [(1, 0, 1e6), (1, 1, 3e6)]);
    // Two mappers on one port become one flow of twice the bytes.
    let twice = read("4 1\n1 0 3 0 0 3 1 2:9\n").expect("sound");
    assert_eq!(twice.coflows[0].flows, [(0, 2, 6e6), (3, 2, 3e6)]);
}

#[test]
fn mistakes_in_a_table_are_named() {
    const FIRST: &str = "coflow,arrival_s,source,target,bytes,class,weight\n";
    let line = |line: &str| refused(&format!("{FIRST}{line}\n"));
    assert_eq!(
        refused(""),
        "the trace is empty; its first line must be `coflow,arrival_s,source,target,bytes`"
    );
    assert!(refused("coflow,size\n").starts_with("line 1: `size`: there is no such column; use coflow, arrival_s"));
    assert_eq!(
        refused("coflow,source\n"),
        "line 1: arrival_s: is missing; add this column"
    );
    assert_eq!(refused("coflow,coflow\n"), "line 1: coflow: appears twice; remove one");
    assert_eq!(line("c,0,a,,1,0,1"), "line 2: target: is missing; fill it in");
    assert_eq!(line("c,0,a"), "line 2: target: is missing; fill it in");
    assert_eq!(
        line("c,-1,a,b,1,0,1"),
        "line 2: arrival_s: `-1` does not fit; write seconds from 0 on"
    );
    assert_eq!(
        line("c,0,a,b,nan,0,1"),
        "line 2: bytes: `nan` does not fit; write a number of bytes from 0 on, or a size such as 5MB"
    );
    assert!(line("c,0,a,b,1,1.5,1").starts_with("line 2: class: `1.5` does not fit; write a whole number"));
    assert!(line("c,0,a,b,1,0,0").starts_with("line 2: weight: `0` does not fit; write a number from 0.001 to 1000"));
    let twice = "line 3: arrival_s: an earlier line of coflow `c` says 0; say the same on all";
    assert_eq!(line("c,0,a,b,1,0,1\nc,1,a,b,1,0,1"), twice);
    assert!(line("c,0,a,b,1,0,1\nc,0,a,b,1,1,1").starts_with("line 3: class: an earlier line"));
    let unreadable = Trace::read(&b"coflow,\xff\n"[..]).expect_err("no text").to_string();
    assert!(
        unreadable.starts_with("the trace is not readable text in UTF-8"),
        "{unreadable}"
    );
}

#[test]
fn mistakes_in_a_public_trace_are_named() {
    assert_eq!(refused("4\n"), "line 1: coflows: is missing; the line ends before it");
    assert_eq!(
        refused("0 1\n"),
        "line 1: ports: `0` does not fit; write a number from 1 to 1000000"
    );
    assert_eq!(
        refused("4 2 1\n"),
        "line 1: end of line: `1` is not expected here; remove it"
    );
    assert_eq!(
        refused("4 2\n1 0 1 0 1 2:1\n"),
        "line 1: coflows: is 2, but 1 lines follow; correct it"
    );
    assert_eq!(
        refused("4 1\n1 0 2 0\n"),
        "line 2: mapper: is missing; the line ends before it"
    );
    assert_eq!(
        refused("4 1\n1 0 1 4 1 2:1\n"),
        "line 2: mapper: `4` does not fit; write a port below 4"
    );
    let wrong = "line 2: reducer: `2` does not fit; write a port below 4, a colon and megabytes";
    assert_eq!(refused("4 1\n1 0 1 0 1 2\n"), wrong);
    assert_eq!(
        refused("4 1\n1 0 1 0 1 2:1 3:1\n"),
        "line 2: end of line: `3:1` is not expected here; remove it"
    );
    let twice = "line 3: id: `1` names two coflows; give each its own";
    assert_eq!(refused("4 2\n1 0 1 0 1 2:1\n1 0 1 0 1 2:1\n"), twice);
    let ports: Vec<String> = (0..8000).map(|port| port.to_string()).collect();
    let all = format!("8000 1\n1 0 8000 {} 8000 {}:1\n", ports.join(" "), ports.join(":1 "));
    assert!(refused(&all).contains("makes more than 50000000 flows"));
}

proptest! {
    #[test]
    fn whatever_is_in_it_is_read_or_refused(text in "(coflow,arrival_s,source,target,bytes\n|2 1\n)?([a-z0-9:. ,\n-]|\\PC){0,80}") {
        if let Ok(trace) = read(&text) {
            let ports = trace.ports.len() as u32;
            prop_assert!(trace.coflows.iter().flat_map(|coflow| &coflow.flows).all(|flow| flow.0 < ports && flow.1 < ports && flow.2 >= 0.0));
        }
    }
}
