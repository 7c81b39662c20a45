//! The output of a host's own iperf3.
#![no_main]

use gavotte_agent::work::iperf_report::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = read(text);
});
