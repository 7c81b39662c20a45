//! Reads the control messages of a received packet. It is pure code and accepts any bytes.

/// The kernel's information about one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    /// Receive timestamp in nanoseconds since 1970.
    pub(super) stamp_ns: Option<u64>,
    /// Remaining time to live, or hop limit.
    pub(super) ttl: Option<u8>,
    /// Number of packets that the socket has dropped so far (`SO_RXQ_OVFL`).
    pub(super) overflow: Option<u32>,
}

const WORD: usize = size_of::<usize>();
const HEADER: usize = align(WORD + 8);

const fn align(length: usize) -> usize {
    length.div_ceil(WORD) * WORD
}

impl Control {
    /// Reads `bytes` as a sequence of `cmsghdr`, up to the first invalid one.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let mut control = Self::default();
        for (level, kind, data) in messages(bytes) {
            control.take(level, kind, data);
        }
        control
    }

    fn take(&mut self, level: i32, kind: i32, data: &[u8]) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) if size_of::<libc::c_long>() == 4 => {
                let half = |at: usize| array::<4>(data, at).map(|b| i64::from(i32::from_ne_bytes(b)));
                self.stamp_ns = stamp(half(0), half(4));
            }
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS | libc::SO_TIMESTAMPNS_NEW) => {
                let half = |at: usize| array::<8>(data, at).map(i64::from_ne_bytes);
                self.stamp_ns = stamp(half(0), half(8));
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => self.overflow = array(data, 0).map(u32::from_ne_bytes),
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                self.ttl = array(data, 0).and_then(|b| u8::try_from(i32::from_ne_bytes(b)).ok());
            }
            _ => {}
        }
    }
}

/// Level, kind and data of each `cmsghdr`, up to the first invalid one.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    std::iter::from_fn(move || {
        let (length, level, kind) = header(bytes)?;
        let data = bytes.get(HEADER..length)?;
        bytes = bytes.get(align(length)..).unwrap_or_default();
        Some((level, kind, data))
    })
}

fn header(bytes: &[u8]) -> Option<(usize, i32, i32)> {
    let length = usize::from_ne_bytes(array(bytes, 0)?);
    let level = i32::from_ne_bytes(array(bytes, WORD)?);
    let kind = i32::from_ne_bytes(array(bytes, WORD + 4)?);
    // A length below the header's would never advance.
    (length >= HEADER && length <= bytes.len()).then_some((length, level, kind))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn stamp(seconds: Option<i64>, nanoseconds: Option<i64>) -> Option<u64> {
    let seconds = u64::try_from(seconds?).ok()?;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(u64::try_from(nanoseconds?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(data);
        bytes.resize(align(bytes.len()), 0);
        bytes
    }

    #[test]
    fn reads_all_that_a_packet_brings() {
        let mut time = 17i64.to_ne_bytes().to_vec();
        time.extend(5i64.to_ne_bytes());
        let mut bytes = message(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS_NEW, &time);
        bytes.extend(message(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &3u32.to_ne_bytes()));
        bytes.extend(message(libc::IPPROTO_IP, libc::IP_TTL, &61i32.to_ne_bytes()));
        let expected = Control {
            stamp_ns: Some(17_000_000_005),
            ttl: Some(61),
            overflow: Some(3),
        };
        assert_eq!(Control::parse(&bytes), expected);
    }

    #[test]
    fn a_length_of_zero_ends_the_walk() {
        assert_eq!(Control::parse(&[0; 64]), Control::default());
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Control::parse(&bytes);
        }

        #[test]
        fn any_lengths_are_safe(length: usize, cut in 0usize..80) {
            let mut bytes = message(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &[7; 16]);
            bytes[..WORD].copy_from_slice(&length.to_ne_bytes());
            let _ = Control::parse(&bytes[..cut.min(bytes.len())]);
            let _ = Control::parse(&bytes);
        }
    }
}
