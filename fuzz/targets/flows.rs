//! A table of flows from a user's file.
#![no_main]

use gavotte_fluid::FlowTable;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    if let Ok(table) = FlowTable::read(text, &["a", "b", "2"]) {
        assert!(table.flows().source.iter().all(|host| *host < 3));
    }
});
