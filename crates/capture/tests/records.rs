//! Blocks of pcapng that few tools write.

use gavotte_capture::{CaptureError, read_records};

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let size = (12 + body.len() as u32).to_be_bytes();
    [&kind.to_be_bytes(), &size[..], body, &size].concat()
}

#[test]
fn the_old_packet_block_is_read_in_big_endian_order() {
    let section = block(
        0x0a0d_0d0a,
        &[&0x1a2b_3c4d_u32.to_be_bytes()[..], &[0, 1, 0, 0], &[0xff; 8]].concat(),
    );
    // Ethernet, with a resolution of 2^-10 s.
    let interface = block(1, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0x8a, 0, 0, 0, 0, 0, 0, 0]);
    let words = [0, 0, 2048, 3, 77_u32].map(u32::to_be_bytes).concat();
    let packet = block(2, &[&words[..], b"abc\0"].concat());
    let mut records = Vec::new();
    let ending = read_records([section, interface, packet].concat().as_slice(), |record| {
        records.push((record.link, record.time_s, record.wire_bytes, record.data.to_vec()));
        Ok(())
    });
    assert_eq!(records, [(1, Some(2.0), 77, b"abc".to_vec())]);
    assert!(ending.is_ok_and(|ending| ending.records == 1 && !ending.truncated));
}

/// A fuzzer's finding: the crate subtracts 12 from the length of process information, whatever it is.
#[test]
fn a_block_shorter_than_its_frame_is_damage() {
    let file: &[u8] = include_bytes!("../../../fuzz/corpus/captures/short-process-information");
    let read = read_records(file, |_| Ok(()));
    assert!(matches!(read, Err(CaptureError::Damaged { record: 1, .. })), "{read:?}");
}
