//! Any datagram of an sFlow agent.
#![no_main]

use gavotte_capture::{Directory, Samples};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|datagram: &[u8]| {
    let mut samples = Samples::new(Directory::default(), Some(0.5));
    samples.datagram([127, 0, 0, 1].into(), datagram, Some(1.0));
    samples.datagram([127, 0, 0, 1].into(), datagram, None);
    assert!(
        samples
            .rows()
            .iter()
            .all(|row| row.low_bytes <= row.bytes && row.bytes <= row.high_bytes)
    );
});
