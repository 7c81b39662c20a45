//! Headers of trains: any bytes are rejected, a written header is read back, and one changed bit is detected.
#![no_main]

use gavotte_probe::gated::wire::{Ack, DATA_BYTES, Data};
use gavotte_probe::packet::{Packet, PacketKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], u64, [u32; 3], [u64; 2], usize)| {
    let (bytes, probe_id, [batch, seq, waits], [sent_ns, ended_ns], flip) = input;
    let key = PacketKey::derive(&[1; 32]);
    assert!(Packet::read(&key, bytes).is_err());
    assert!(Ack::read(&key, bytes).is_err());
    assert!(Data::read(&key, bytes).is_err());
    let data = Data {
        probe_id,
        batch,
        seq,
        sent_ns,
        ended_ns,
        waits,
    };
    let mut buffer = [0; DATA_BYTES];
    data.write(&key, &mut buffer).unwrap();
    assert_eq!(Data::read(&key, &buffer), Ok(data));
    buffer[flip / 8 % DATA_BYTES] ^= 1 << (flip % 8);
    assert!(Data::read(&key, &buffer).is_err());
});
