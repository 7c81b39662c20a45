//! Options and statistics of TCP connections.

use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use super::SocketError;
use super::raw;
use crate::mtu::Family;

/// The kernel's information about a connection (`TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpInfo {
    /// Number of retransmitted segments since the connection began.
    pub retransmits: u64,
    /// Smoothed round-trip time, in seconds.
    pub rtt_s: f64,
    /// Largest segment that the connection sends, in bytes.
    pub mss_bytes: u32,
    /// Largest IP packet that the connection sends, in bytes: a segment with its headers.
    pub mtu_bytes: u32,
    /// Congestion window, in bytes.
    pub cwnd_bytes: u64,
    /// Bytes written, but not yet sent.
    pub unsent_bytes: u64,
    /// Segments sent, but not yet acknowledged.
    pub unacknowledged: u32,
    /// Bytes that the receiver has acknowledged since the connection began.
    pub acknowledged_bytes: u64,
    /// Number of timeouts in a row after which the oldest segment was sent again.
    pub timeouts: u8,
    /// Lowest round-trip time of the last minutes, in seconds; 0 if the kernel does not report it.
    pub min_rtt_s: f64,
    /// The newest estimate of the rate at which the receiver gets data, in bit/s of TCP payload; 0 if the kernel does
    /// not report it.
    pub delivery_rate_bps: f64,
}

/// Sets the congestion control of a socket.
///
/// # Errors
/// [`SocketError::Congestion`] if the host does not have it or does not allow this user to use it.
pub fn set_congestion(socket: &impl AsFd, name: &str) -> Result<(), SocketError> {
    raw::set_option(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes()).map_err(|source| {
        SocketError::Congestion {
            name: name.to_owned(),
            source,
        }
    })
}

/// Lets the kernel choose the port at connect instead of bind, if the bind names no port. One port can then serve
/// connections to many destinations (`IP_BIND_ADDRESS_NO_PORT`).
///
/// # Errors
/// If the system does not have the option.
pub fn defer_port_choice(socket: &impl AsFd) -> Result<(), SocketError> {
    raw::set_option(
        socket.as_fd(),
        libc::IPPROTO_IP,
        libc::IP_BIND_ADDRESS_NO_PORT,
        &1i32.to_ne_bytes(),
    )
    .map_err(SocketError::system("defer the choice of a port"))
}

/// Makes a socket that is not yet connected send and accept no IP packets above `mtu_bytes` (`TCP_MAXSEG`).
///
/// # Errors
/// If the system rejects the size.
pub fn set_mtu(socket: &impl AsFd, family: Family, mtu_bytes: u32) -> Result<(), SocketError> {
    let segment_bytes = mtu_bytes.saturating_sub(family.tcp_headers_bytes());
    raw::set_option(
        socket.as_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_MAXSEG,
        &segment_bytes.to_ne_bytes(),
    )
    .map_err(SocketError::system("bound a connection's segments"))
}

/// Lets routers fragment the packets of a live connection (`IP_PMTUDISC_DONT`). The kernel has no option to shorten its
/// segments: it ignores `TCP_MAXSEG` once a connection exists.
///
/// # Errors
/// If the packets are IPv6, which routers never fragment.
pub fn let_fragment(socket: &impl AsFd) -> Result<(), SocketError> {
    if headers_bytes(socket) != Family::V4.tcp_headers_bytes() {
        let unsupported = io::ErrorKind::Unsupported.into();
        return Err(SocketError::system("fragment a connection's segments")(unsupported));
    }
    raw::set_option(
        socket.as_fd(),
        libc::IPPROTO_IP,
        libc::IP_MTU_DISCOVER,
        &libc::IP_PMTUDISC_DONT.to_ne_bytes(),
    )
    .map_err(SocketError::system("fragment a connection's segments"))
}

/// Ends both directions of a connection: reads and writes fail from then on.
///
/// # Errors
/// If the connection is over.
pub fn shut_down(socket: &impl AsFd) -> Result<(), SocketError> {
    let stream = socket.as_fd().try_clone_to_owned().map(TcpStream::from);
    stream
        .and_then(|stream| stream.shutdown(Shutdown::Both))
        .map_err(SocketError::system("end a connection"))
}

/// Returns how many of the written bytes the peer's kernel has not acknowledged, for a connection that `shut_down` has ended.
///
/// # Errors
/// If the socket is no TCP connection.
pub fn undelivered_bytes(socket: &impl AsFd) -> Result<u64, SocketError> {
    let queued = raw::queued_bytes(socket.as_fd()).map_err(SocketError::system("read a connection's queue"))?;
    // The end of the stream counts as a byte.
    Ok(queued.saturating_sub(1) as u64)
}

/// Makes the kernel reset a connection when it is closed, and forget its bytes (`SO_LINGER`).
///
/// # Errors
/// If the system rejects the option.
pub fn reset_when_closed(socket: &impl AsFd) -> Result<(), SocketError> {
    let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
    raw::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_LINGER, &linger)
        .map_err(SocketError::system("reset a connection"))
}

/// Closes a connection when the other side has acknowledged nothing for `patience`, even if nothing is sent
/// (`TCP_USER_TIMEOUT` and keep-alive).
///
/// # Errors
/// If the system does not have the options.
pub fn set_patience(socket: &impl AsFd, patience: Duration) -> Result<(), SocketError> {
    let patience_ms = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    for (level, option, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 1),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, patience_ms),
    ] {
        raw::set_option(socket.as_fd(), level, option, &value.to_ne_bytes())
            .map_err(SocketError::system("set a connection's deadline"))?;
    }
    Ok(())
}

/// Limits the bytes that the kernel has accepted but not yet sent to about `bytes` (`TCP_NOTSENT_LOWAT`).
///
/// # Errors
/// If the system does not have the option.
pub fn set_backlog(socket: &impl AsFd, bytes: u32) -> Result<(), SocketError> {
    raw::set_option(
        socket.as_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        &bytes.to_ne_bytes(),
    )
    .map_err(SocketError::system("keep a connection's backlog short"))
}

/// Limits sending to `pace_bps` bit/s of TCP payload (`SO_MAX_PACING_RATE`): the kernel spreads the segments over time,
/// without a queue discipline or privileges. 0 removes the limit.
///
/// # Errors
/// If the system does not have the option.
pub fn set_pace(socket: &impl AsFd, pace_bps: u64) -> Result<(), SocketError> {
    let bytes_per_s = if pace_bps == 0 { u64::MAX } else { (pace_bps / 8).max(1) };
    raw::set_option(
        socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        &bytes_per_s.to_ne_bytes(),
    )
    .map_err(SocketError::system("pace a connection"))
}

/// The name of a socket's congestion control.
///
/// # Errors
/// If the system cannot report it.
pub fn congestion(socket: &impl AsFd) -> Result<String, SocketError> {
    let mut name = [0; 16];
    let length = raw::get_option(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)
        .map_err(SocketError::system("read the congestion control"))?;
    let name: Vec<u8> = name[..length].iter().copied().take_while(|byte| *byte != 0).collect();
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Reads `TCP_INFO`. Fields that an old kernel lacks are 0.
///
/// # Errors
/// If the system cannot report it.
pub fn info(socket: &impl AsFd) -> Result<TcpInfo, SocketError> {
    // Offsets in struct tcp_info (linux/tcp.h), which only ever grows at its end.
    const BACKOFF: usize = 4;
    const TIMESTAMPS: u8 = 1;
    const TIMESTAMP_BYTES: u32 = 12;
    const OPTIONS: usize = 5;
    const SND_MSS: usize = 16;
    const UNACKED: usize = 24;
    const RTT_US: usize = 68;
    const SND_CWND: usize = 80;
    const TOTAL_RETRANS: usize = 100;
    const BYTES_ACKED: usize = 120;
    const NOTSENT_BYTES: usize = 144;
    const MIN_RTT_US: usize = 148;
    const DELIVERY_RATE: usize = 160;
    let mut bytes = [0; 168];
    raw::get_option(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)
        .map_err(SocketError::system("read TCP_INFO"))?;
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| {
        let mut long = [0; 8];
        long.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(long)
    };
    Ok(TcpInfo {
        retransmits: u64::from(word(TOTAL_RETRANS)),
        rtt_s: f64::from(word(RTT_US)) * 1e-6,
        mss_bytes: word(SND_MSS),
        mtu_bytes: word(SND_MSS)
            + headers_bytes(socket)
            + if bytes[OPTIONS] & TIMESTAMPS == 0 {
                0
            } else {
                TIMESTAMP_BYTES
            },
        cwnd_bytes: u64::from(word(SND_CWND)) * u64::from(word(SND_MSS)),
        unsent_bytes: u64::from(word(NOTSENT_BYTES)),
        unacknowledged: word(UNACKED),
        acknowledged_bytes: long(BYTES_ACKED),
        timeouts: bytes[BACKOFF],
        // The kernel writes the largest number if it has no sample.
        min_rtt_s: Some(word(MIN_RTT_US))
            .filter(|us| *us != u32::MAX)
            .map_or(0.0, |us| f64::from(us) * 1e-6),
        delivery_rate_bps: 8.0 * long(DELIVERY_RATE) as f64,
    })
}

/// Size of the IP and TCP headers without options, in bytes.
///
/// IPv4 on a socket for both families has IPv4's headers. The peer's address decides, since such a socket answers
/// `IP_MTU` over IPv6 too.
fn headers_bytes(socket: &impl AsFd) -> u32 {
    let peer = socket
        .as_fd()
        .try_clone_to_owned()
        .map(TcpStream::from)
        .and_then(|it| it.peer_addr());
    match peer.map(|peer| peer.ip().to_canonical()) {
        Ok(IpAddr::V6(_)) => Family::V6.tcp_headers_bytes(),
        _ => Family::V4.tcp_headers_bytes(),
    }
}

/// Reads up to `most` bytes from a connection without copying them and without waiting. A receiver that only counts
/// must not use the processor time that a sender on the same machine needs. 0 means that the other side has closed.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if no bytes are available, or the connection's error.
pub fn discard(socket: &impl AsFd, most: usize) -> io::Result<usize> {
    raw::discard(socket.as_fd(), most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn congestion_control_is_pinned_and_read_back() {
        let (near, _far) = pair();
        set_congestion(&near, "reno").unwrap();
        assert_eq!(congestion(&near).unwrap(), "reno");
        let error = set_congestion(&near, "none-such").unwrap_err();
        assert!(error.to_string().contains("`none-such`"), "{error}");
    }

    #[test]
    fn headers_are_those_of_the_family_that_carries_the_packets() {
        for (listen, connect, expected) in [
            ("127.0.0.1:0", "127.0.0.1", 40),
            ("[::]:0", "127.0.0.1", 40),
            ("[::]:0", "::1", 60),
        ] {
            let Ok(listener) = TcpListener::bind(listen) else {
                continue; // a machine without IPv6
            };
            let port = listener.local_addr().unwrap().port();
            let Ok(near) = TcpStream::connect((connect, port)) else {
                continue;
            };
            let far = listener.accept().unwrap().0;
            assert_eq!((headers_bytes(&near), headers_bytes(&far)), (expected, expected));
        }
    }

    #[test]
    fn packets_of_live_ipv4_connections_may_be_fragmented() {
        let Ok(listener) = TcpListener::bind("[::]:0") else {
            return; // a machine without IPv6
        };
        let port = listener.local_addr().unwrap().port();
        for (address, may) in [("127.0.0.1", true), ("::1", false)] {
            let Ok(near) = TcpStream::connect((address, port)) else {
                continue;
            };
            // The accepted socket is one of IPv6, also if it carries IPv4.
            for side in [&near, &listener.accept().unwrap().0] {
                assert_eq!(let_fragment(side).is_ok(), may, "{address}");
                if may {
                    let mut value = [0; 4];
                    raw::get_option(side.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &mut value).unwrap();
                    assert_eq!(i32::from_ne_bytes(value), libc::IP_PMTUDISC_DONT);
                }
            }
        }
    }

    #[test]
    fn a_closed_connection_knows_what_was_not_delivered() {
        for full in [false, true] {
            let (mut near, mut far) = pair();
            near.set_nonblocking(true).unwrap();
            let mut written = near.write(&[1; 1000]).unwrap();
            if full {
                let block = vec![1; 1 << 16];
                while let Ok(count) = near.write(&block) {
                    written += count;
                }
            }
            // The first bytes arrive at the peer's kernel, although no program reads them.
            far.peek(&mut [0]).unwrap();
            while !full && info(&near).unwrap().unacknowledged > 0 {
                std::thread::yield_now();
            }
            shut_down(&near).unwrap();
            reset_when_closed(&near).unwrap();
            let lost = undelivered_bytes(&near).unwrap();
            assert_eq!(lost > 0, full);
            assert!(lost < written as u64);
            drop(near);
            // An end that has arrived cannot be taken back.
            let end = far.read_to_end(&mut Vec::new());
            assert_eq!(
                end.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset),
                full
            );
        }
    }

    #[test]
    fn info_tells_of_a_live_connection() {
        let (near, _far) = pair();
        let info = info(&near).unwrap();
        assert!(info.mss_bytes >= 500, "{info:?}");
        assert!(info.mtu_bytes >= info.mss_bytes + 40, "{info:?}");
        assert_eq!(info.retransmits, 0);
    }

    #[test]
    fn discarded_bytes_are_counted() {
        let (mut near, far) = pair();
        near.write_all(&[1; 1000]).unwrap();
        let mut count = 0;
        while count < 1000 {
            match discard(&far, 600) {
                Ok(bytes) => count += bytes,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!(count, 1000);
        assert_eq!(discard(&far, 600).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(near);
        while discard(&far, 600).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {}
        assert_eq!(discard(&far, 600).unwrap(), 0);
    }
}
