//! A capture file: pcap or pcapng, plain or gzip.
#![no_main]

use gavotte_capture::{Directory, Packets};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let mut packets = Packets::new(Directory::default(), Some(0.5));
    if packets.read(file).is_ok() {
        assert!(
            packets
                .rows()
                .iter()
                .all(|row| row.low_bytes <= row.bytes && row.bytes == row.high_bytes)
        );
    }
});
