//! Any datagrams of a NetFlow or IPFIX meter; the first byte gives the length of the first one.
#![no_main]

use gavotte_capture::{Directory, Flows, Kind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((size, bytes)) = bytes.split_first() else {
        return;
    };
    let (first, second) = bytes.split_at(bytes.len().min(8 * usize::from(*size)));
    for kind in [Kind::NetFlow, Kind::Ipfix] {
        let mut flows = Flows::new(kind, Directory::default(), Some(0.5));
        for datagram in [first, second, first] {
            flows.datagram(([127, 0, 0, 1], 9).into(), datagram);
        }
        assert!(
            flows
                .rows()
                .iter()
                .all(|row| row.low_bytes <= row.bytes && row.bytes <= row.high_bytes)
        );
    }
});
