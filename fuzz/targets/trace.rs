//! A recorded train from a file.
#![no_main]

use gavotte_probe::gated::{estimate, parse_trace, write_trace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(train) = parse_trace(text) {
        let _ = estimate(&train);
        let _ = parse_trace(&write_trace(&train));
    }
});
