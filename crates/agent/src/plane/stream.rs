//! Sends and receives the bytes of bulk TCP connections, and counts received bytes in bins.
//!
//! Both sides are async and have no buffer of their own. The sender writes from one static block of zeros; the receiver
//! lets the kernel drop what arrived. Thousands of transfers thus need no memory and no threads. A receiver can also
//! copy the bytes, for comparison with programs that do: on loopback, dropping made rates 2 to 4 times higher.

use std::io;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use gavotte_probe::sockets::tcp;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tracing::debug;

use crate::contract::data::Report;
use crate::error::WorkError;
use crate::hold::budget::Reservation;

/// Bytes offered to the kernel in one write.
const CHUNK_BYTES: usize = 256 << 10;
/// Largest number of bytes read in one call, so that one fast stream does not starve the others.
const GULP_BYTES: usize = 1 << 20;
/// Bytes that a copying receiver reads in one call, as iperf3 does.
const COPY_BYTES: usize = 128 << 10;
/// Bytes that a stream without a length reserves at a time.
const STEP_BYTES: u64 = 4 << 20;
/// Smallest number of bytes that a stream with an end time leaves unsent in the kernel. The stream continues until they
/// are sent: half a second for 400 kB at 5 Mbit/s.
const BACKLOG_BYTES: u32 = 32 << 10;
/// The same as a time, if that is more: a sender that wakes late must not run out of bytes.
const BACKLOG: Duration = Duration::from_millis(5);
/// The first writes only fill the kernel's buffer.
const RAMP: Duration = Duration::from_millis(20);
/// Largest number of bins of one stream; a report with all of them still fits in a frame. Later bytes count in the last
/// bin.
pub const MAX_BINS: usize = 8_192;

/// How long bytes that have arrived may take to be noticed after the connection has failed.
const NOTICE: Duration = Duration::from_millis(50);

/// The origin of a report's times.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

/// Waits until the kernel takes bytes of a connection. Gives other tasks a turn from time to time.
///
/// On a host with one processor, the kernel may deliver each write before it returns. The connection then always has
/// room. A loop that only waits for room would keep its thread, and no deadline would end it.
///
/// # Errors
/// If the connection fails.
pub async fn writable(stream: &TcpStream) -> Result<(), WorkError> {
    tokio::task::consume_budget().await;
    stream.writable().await.map_err(WorkError::io("send"))
}

/// Waits until bytes have arrived. Gives other tasks a turn from time to time, as [`writable`] does.
///
/// # Errors
/// If the connection fails.
pub async fn readable(stream: &TcpStream) -> Result<(), WorkError> {
    tokio::task::consume_budget().await;
    stream.readable().await.map_err(WorkError::io("receive"))
}

/// Sends all bytes of `reservation`. Sent bytes count as spent, even if an error follows.
///
/// # Errors
/// If the connection fails.
pub async fn send_all(stream: &TcpStream, reservation: &mut Reservation<'_>) -> Result<(), WorkError> {
    while reservation.unspent() > 0 {
        send_some(stream, reservation).await?;
    }
    Ok(())
}

/// Sends until `until`, until `most_bytes` are sent or until the receiver answers, then closes its direction. Reserves
/// bytes on the way.
///
/// A receiver counts by its own clock and answers when it has counted. A sender with a slower clock or too little
/// processor time would still send when the receiver has closed the connection.
///
/// # Errors
/// If the budget is used up or the connection fails. `bytes_sent` counts the sent bytes even then.
pub async fn send_until(
    stream: &mut TcpStream,
    reservation: &mut Reservation<'_>,
    until: Instant,
    most_bytes: u64,
    bytes_sent: &mut u64,
) -> Result<(), WorkError> {
    let (start, mut backlog) = (Instant::now(), BACKLOG_BYTES);
    // Without the option only the end takes longer.
    let bound = |stream: &TcpStream, backlog| {
        if let Err(error) = tcp::set_backlog(stream, backlog) {
            debug!(%error, "cannot limit the backlog");
        }
    };
    bound(stream, backlog);
    let sending = async {
        while *bytes_sent < most_bytes {
            reservation.top_up(STEP_BYTES)?;
            *bytes_sent += send_at_most(stream, reservation, most_bytes - *bytes_sent).await?;
            let rate = *bytes_sent as f64 / start.elapsed().max(RAMP).as_secs_f64();
            let wanted = (rate * BACKLOG.as_secs_f64()) as u32;
            if wanted / 2 > backlog {
                backlog = wanted;
                bound(stream, backlog);
            }
        }
        Ok(())
    };
    let sent: Result<(), WorkError> = tokio::select! {
        biased;
        () = answered(stream) => Ok(()),
        sent = tokio::time::timeout_at(until.into(), sending) => sent.unwrap_or(Ok(())),
    };
    let closed = stream.shutdown().await.map_err(WorkError::io("end the stream"));
    match sent.and(closed) {
        // The connection may have failed because the receiver closed it after its answer.
        Err(WorkError::Io { .. }) if tokio::time::timeout(NOTICE, answered(stream)).await.is_ok() => Ok(()),
        ended => ended,
    }
}

/// Waits until bytes from the peer can be read. Waits for ever if the peer sends none.
async fn answered(stream: &TcpStream) {
    if !matches!(stream.peek(&mut [0]).await, Ok(1)) {
        std::future::pending::<()>().await;
    }
}

/// Sends a part of `reservation`. Returns the number of bytes sent.
///
/// # Errors
/// If the connection fails.
pub async fn send_some(stream: &TcpStream, reservation: &mut Reservation<'_>) -> Result<u64, WorkError> {
    send_at_most(stream, reservation, CHUNK_BYTES as u64).await
}

/// The same as `send_some`, but at most `most` bytes.
///
/// # Errors
/// If the connection fails.
pub async fn send_at_most(stream: &TcpStream, reservation: &mut Reservation<'_>, most: u64) -> Result<u64, WorkError> {
    loop {
        writable(stream).await?;
        let sent = send_now(stream, reservation.unspent().min(most))?;
        if sent > 0 {
            reservation.spend(sent);
            return Ok(sent);
        }
    }
}

/// Sends as many of `bytes` bytes as the kernel takes at once, and returns how many; 0 = it has no room.
///
/// # Errors
/// When the connection fails.
pub fn send_now(stream: &TcpStream, bytes: u64) -> Result<u64, WorkError> {
    let most = bytes.min(CHUNK_BYTES as u64) as usize;
    if most == 0 {
        return Ok(0);
    }
    match stream.try_write(&ZEROS[..most]) {
        Ok(count) => Ok(count as u64),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(WorkError::io("send")(error)),
    }
}

/// Counts received bytes over time. Pure code: the time of each read is an argument.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    bin_s: f64,
    skips: Duration,
    first: Option<Instant>,
    last: Option<Instant>,
    bytes: u64,
    bins: Vec<u64>,
}

impl Counter {
    /// Creates a counter with bins of `bin_s` seconds, or without bins unless that is above 0.
    pub fn new(bin_s: f64) -> Self {
        LazyLock::force(&EPOCH);
        Self {
            bin_s,
            ..Self::default()
        }
    }

    /// The same counter, which ignores what arrives within `time` of the first byte.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self { skips: time, ..self }
    }

    /// Records a read of `bytes` bytes.
    pub fn add(&mut self, now: Instant, bytes: u64) {
        let first = *self.first.get_or_insert(now + self.skips);
        if now < first {
            return;
        }
        self.last = Some(now);
        self.bytes += bytes;
        if self.bin_s > 0.0 {
            let bin = (now.duration_since(first).as_secs_f64() / self.bin_s) as usize;
            let bin = bin.min(MAX_BINS - 1);
            if self.bins.len() <= bin {
                self.bins.resize(bin + 1, 0);
            }
            self.bins[bin] += bytes;
        }
    }

    /// Number of bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Time from the first counted read to the last.
    fn span(&self) -> Duration {
        let ends = self.first.zip(self.last);
        ends.map_or(Duration::ZERO, |(first, last)| last.saturating_duration_since(first))
    }

    /// Returns the bytes, the seconds from the first to the last read, and the bins since the first read.
    pub fn report(self) -> Report {
        let span = self.span();
        let since = |first: Instant| first.saturating_duration_since(*EPOCH).as_secs_f64();
        Report {
            first_s: self.first.map_or(0.0, since),
            bytes: self.bytes,
            seconds: span.as_secs_f64(),
            bin_bytes: self.bins,
            ..Report::default()
        }
    }
}

/// Counts the bytes that arrive within `time` of the first byte by the receiver's own clock, or until the sender stops.
/// Later bytes would distort the rate: those that wait in a queue, or are lost and sent again, can take seconds more.
/// With `copy`, the bytes are copied into the program's memory. Bytes that arrive within `skips` of the first do not count,
/// and the time begins after them. If the sender stops before half of that time has been counted, because it may send no
/// more bytes, all bytes count.
///
/// # Errors
/// If the connection fails.
pub async fn receive_for(
    stream: &TcpStream,
    (skips, time): (Duration, Duration),
    bin_s: f64,
    copy: bool,
) -> Result<Counter, WorkError> {
    let mut counter = Counter::new(bin_s).after(skips);
    let mut whole = Counter::new(bin_s);
    let mut copied = vec![0; if copy { COPY_BYTES } else { 0 }];
    loop {
        let reading = receive_some(stream, GULP_BYTES, &mut copied);
        let came = match counter.first {
            None => reading.await?,
            Some(first) => match tokio::time::timeout_at((first + time).into(), reading).await {
                Ok(came) => came?,
                Err(_) => return Ok(counter),
            },
        };
        if came == 0 {
            let enough = counter.span() >= skips.min(time) / 2;
            return Ok(if enough { counter } else { whole });
        }
        let now = Instant::now();
        counter.add(now, came);
        whole.add(now, came);
    }
}

/// Receives `bytes` bytes and counts them.
///
/// # Errors
/// If the connection fails, or closes before all bytes have arrived.
pub async fn receive(stream: &TcpStream, bytes: u64, bin_s: f64) -> Result<Counter, WorkError> {
    let mut counter = Counter::new(bin_s);
    receive_each(stream, bytes, |now, count| counter.add(now, count)).await?;
    Ok(counter)
}

/// Receives `bytes` bytes, and passes the time and size of each read to `add`.
///
/// # Errors
/// If the connection fails, or closes before all bytes have arrived.
pub async fn receive_each(
    stream: &TcpStream,
    bytes: u64,
    mut add: impl FnMut(Instant, u64) + Send,
) -> Result<(), WorkError> {
    let mut came = 0;
    while came < bytes {
        let most = (bytes - came).min(GULP_BYTES as u64) as usize;
        let count = receive_some(stream, most, &mut []).await?;
        if count == 0 {
            let text = format!("the sender stopped at {came} of {bytes} bytes");
            return Err(WorkError::Request(text));
        }
        add(Instant::now(), count);
        came += count;
    }
    Ok(())
}

/// Counts what comes until the sender stops, and at most `bytes` bytes: one connection of several that share them.
///
/// # Errors
/// When the connection fails.
pub async fn receive_share(stream: &TcpStream, bytes: u64) -> Result<Counter, WorkError> {
    let mut counter = Counter::new(0.0);
    while counter.bytes() < bytes {
        let most = (bytes - counter.bytes()).min(GULP_BYTES as u64) as usize;
        match receive_some(stream, most, &mut []).await? {
            0 => break,
            count => counter.add(Instant::now(), count),
        }
    }
    Ok(counter)
}

/// Reads without counting until the sender has closed or reset the connection, or has sent nothing for `silence`.
pub async fn drain(stream: &TcpStream, silence: Duration) {
    while tokio::time::timeout(silence, receive_some(stream, GULP_BYTES, &mut []))
        .await
        .is_ok_and(|read| read.is_ok_and(|count| count > 0))
    {}
}

/// Reads what has arrived, at most `most` bytes, into `copied`, or discards it if `copied` is empty. Returns 0 if the
/// sender has stopped.
async fn receive_some(stream: &TcpStream, most: usize, copied: &mut [u8]) -> Result<u64, WorkError> {
    loop {
        readable(stream).await?;
        let taken = if copied.is_empty() {
            stream.try_io(Interest::READABLE, || tcp::discard(stream, most))
        } else {
            stream.try_read(copied)
        };
        match taken {
            Ok(count) => return Ok(count as u64),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(WorkError::io("receive")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::budget::Allowance;
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (near, listener.accept().await.unwrap().0)
    }

    #[test]
    fn bins_start_at_the_first_read_and_end_at_the_last() {
        let start = Instant::now();
        let mut counter = Counter::new(0.01);
        for (ms, bytes) in [(0, 5), (9, 6), (10, 7), (35, 8)] {
            counter.add(start + Duration::from_millis(ms), bytes);
        }
        counter.add(start + Duration::from_secs(86_400), 1);
        let report = counter.report();
        assert_eq!((report.bytes, report.bin_bytes.len()), (27, MAX_BINS));
        assert_eq!(report.bin_bytes[..4], [11, 7, 0, 8]);
        assert!((report.seconds - 86_400.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_skipped_does_not_count() {
        let start = Instant::now();
        let mut counter = Counter::new(0.01).after(Duration::from_millis(100));
        for (ms, bytes) in [(0, 5), (99, 6), (100, 7), (125, 8)] {
            counter.add(start + Duration::from_millis(ms), bytes);
        }
        let report = counter.report();
        assert_eq!((report.bytes, report.bin_bytes), (15, vec![7, 0, 8]));
        assert!((report.seconds - 0.025).abs() < 1e-9);
    }

    #[test]
    fn nothing_received_reports_nothing() {
        assert_eq!(Counter::new(0.01).report(), Report::default());
    }

    #[tokio::test]
    async fn a_known_length_is_counted_and_nothing_beyond_it_is_read() {
        let (mut near, far) = pair().await;
        let allowance = Allowance::new(3_000_000);
        let mut reservation = allowance.reserve(2_500_000).unwrap();
        let (sent, received) = tokio::join!(
            async {
                send_all(&near, &mut reservation).await.unwrap();
                near.write_all(b"next").await
            },
            receive(&far, 2_500_000, 0.0)
        );
        sent.unwrap();
        assert_eq!(received.unwrap().bytes(), 2_500_000);
        drop(reservation);
        assert_eq!(allowance.taken(), 2_500_000);
        let mut rest = [0; 4];
        tokio::io::AsyncReadExt::read_exact(&mut { far }, &mut rest)
            .await
            .unwrap();
        assert_eq!(&rest, b"next");
    }

    #[tokio::test]
    async fn a_connection_that_always_has_room_gives_deadlines_a_turn() {
        let (near, _far) = pair().await;
        let allowance = Allowance::new(u64::MAX);
        let mut reservation = allowance.reserve(20_000).unwrap();
        let sending = async {
            while reservation.unspent() > 0 {
                // The kernel has room for all of these bytes.
                send_at_most(&near, &mut reservation, 1).await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_micros(1), sending)
            .await
            .unwrap_err();
    }

    #[tokio::test]
    async fn a_stream_ends_when_its_budget_does() {
        let (mut near, far) = pair().await;
        let allowance = Allowance::new(1_000_000);
        let mut reservation = allowance.reserve(0).unwrap();
        let mut sent = 0;
        let until = Instant::now() + Duration::from_secs(60);
        let (result, received) = tokio::join!(
            send_until(&mut near, &mut reservation, until, u64::MAX, &mut sent),
            receive_for(&far, (Duration::ZERO, Duration::from_secs(60)), 0.01, true)
        );
        assert!(matches!(result, Err(WorkError::Budget(_))));
        assert_eq!((sent, received.unwrap().bytes()), (1_000_000, 1_000_000));
    }

    #[tokio::test]
    async fn a_stream_ends_at_its_byte_limit() {
        let (mut near, far) = pair().await;
        let allowance = Allowance::new(10_000_000);
        let mut reservation = allowance.reserve(0).unwrap();
        let mut sent = 0;
        let until = Instant::now() + Duration::from_secs(60);
        let (result, received) = tokio::join!(
            send_until(&mut near, &mut reservation, until, 1_000_001, &mut sent),
            receive_for(&far, (Duration::ZERO, Duration::from_secs(60)), 0.01, false)
        );
        result.unwrap();
        assert_eq!((sent, received.unwrap().bytes()), (1_000_001, 1_000_001));
    }

    #[tokio::test]
    async fn a_stream_that_ends_while_it_starts_counts_as_a_whole() {
        let minute = Duration::from_secs(60);
        let (near, far) = pair().await;
        near.try_write(&[0; 10]).unwrap();
        drop(near);
        let counter = receive_for(&far, (minute, minute), 0.0, false).await.unwrap();
        assert_eq!(counter.bytes(), 10);
    }

    #[tokio::test]
    async fn the_start_of_a_stream_does_not_count_if_enough_follows() {
        let skips = Duration::from_millis(50);
        let (near, far) = pair().await;
        let sending = async move {
            near.try_write(&[0; 10]).unwrap();
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(10)).await;
                near.try_write(&[0; 1]).unwrap();
            }
        };
        let receiving = receive_for(&far, (skips, Duration::from_secs(60)), 0.0, false);
        let ((), counter) = tokio::join!(sending, receiving);
        let bytes = counter.unwrap().bytes();
        assert!((1..20).contains(&bytes), "{bytes}");
    }

    #[tokio::test]
    async fn a_stream_that_ends_by_the_clock_leaves_little_behind() {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        // No program reads at the other end.
        let _far = listener.accept().await.unwrap().0;
        let allowance = Allowance::new(100_000_000);
        let mut reservation = allowance.reserve(0).unwrap();
        let mut sent = 0;
        let until = Instant::now() + Duration::from_millis(300);
        send_until(&mut near, &mut reservation, until, u64::MAX, &mut sent)
            .await
            .unwrap();
        // The receiver's buffer is 128 kB at most; then the backlog, and what one write may add.
        assert!(sent <= (128 << 10) + u64::from(BACKLOG_BYTES) + (64 << 10), "{sent}");
    }

    #[tokio::test]
    async fn a_sender_with_a_slow_clock_stops_when_the_receiver_answers() {
        for closes in [false, true] {
            let (mut near, mut far) = pair().await;
            let allowance = Allowance::new(u64::MAX);
            let mut reservation = allowance.reserve(0).unwrap();
            let mut sent = 0;
            let until = Instant::now() + Duration::from_secs(3600);
            let receiving = async move {
                receive_for(&far, (Duration::ZERO, Duration::from_millis(50)), 0.0, false)
                    .await
                    .unwrap();
                far.write_all(b"counted").await.unwrap();
                (!closes).then_some(far)
            };
            let sending = send_until(&mut near, &mut reservation, until, u64::MAX, &mut sent);
            let (ended, _far) = tokio::join!(tokio::time::timeout(Duration::from_secs(60), sending), receiving);
            ended.unwrap().unwrap();
            let mut answer = [0; 7];
            tokio::io::AsyncReadExt::read_exact(&mut near, &mut answer)
                .await
                .unwrap();
            assert_eq!(&answer, b"counted");
        }
    }

    #[tokio::test]
    async fn a_receiver_stops_by_its_own_clock() {
        let (near, far) = pair().await;
        near.try_write(&[0; 10]).unwrap();
        // The sender stays connected, so no end arrives.
        let time = (Duration::ZERO, Duration::from_millis(50));
        let counter = receive_for(&far, time, 0.0, false).await.unwrap();
        assert_eq!(counter.bytes(), 10);
        drop(near);
        drain(&far, Duration::from_secs(60)).await;
    }

    #[tokio::test]
    async fn a_sender_that_stops_early_is_told_from_one_that_ends() {
        let (near, far) = pair().await;
        near.try_write(&[0; 10]).unwrap();
        drop(near);
        assert!(matches!(receive(&far, 11, 0.0).await, Err(WorkError::Request(_))));
    }
}
