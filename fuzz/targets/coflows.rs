//! A coflow trace, as a table or in the public format, from a user's file.
#![no_main]

use gavotte_swarm::Trace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    if let Ok(trace) = Trace::read(text) {
        let ports = trace.ports.len() as u32;
        let flows = || trace.coflows.iter().flat_map(|coflow| &coflow.flows);
        assert!(flows().all(|flow| flow.0 < ports && flow.1 < ports && flow.2 >= 0.0));
    }
});
