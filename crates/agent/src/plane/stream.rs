//! Bytes of a bulk TCP connection: the sender's loop, and the receiver's count with its bins.
//!
//! Both sides are async and hold no buffer of their own: the sender writes from one static block of zeros, the receiver
//! lets the kernel drop what came. Thousands of transfers then cost no memory and no threads. A receiver can also copy what
//! comes, to be compared with programs that do: on loopback dropping made 2 to 4 times their rate.

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
/// Most bytes taken off a connection in one call, so that one fast stream does not starve the others.
const GULP_BYTES: usize = 1 << 20;
/// What a receiver that copies takes at a time, as iperf3 does.
const COPY_BYTES: usize = 128 << 10;
/// Bytes that a stream without a length reserves at a time.
const STEP_BYTES: u64 = 4 << 20;
/// What a stream that ends by the clock leaves unsent in the kernel, at least: it goes on until that has left, which was half
/// a second for 400 kB at 5 Mbit/s.
const BACKLOG_BYTES: u32 = 32 << 10;
/// The same in time where that is more: a sender that is woken late must not run dry.
const BACKLOG: Duration = Duration::from_millis(5);
/// The first writes only fill the kernel.
const RAMP: Duration = Duration::from_millis(20);
/// Most bins of one stream; a report with them still fits a frame. Later bytes go to the last bin.
pub const MAX_BINS: usize = 8_192;

/// What times of a report count from.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

/// Sends exactly what `reservation` holds. What was sent is spent from it, also beside an error.
///
/// # Errors
/// When the connection fails.
pub async fn send_all(stream: &TcpStream, reservation: &mut Reservation<'_>) -> Result<(), WorkError> {
    while reservation.unspent() > 0 {
        send_some(stream, reservation).await?;
    }
    Ok(())
}

/// Sends until `until`, reserving as it goes, then closes its direction.
///
/// # Errors
/// When the budget is used up or the connection fails. `bytes_sent` counts what left even then.
pub async fn send_until(
    stream: &mut TcpStream,
    reservation: &mut Reservation<'_>,
    until: Instant,
    bytes_sent: &mut u64,
) -> Result<(), WorkError> {
    let (start, mut backlog) = (Instant::now(), BACKLOG_BYTES);
    // Without the option the end only takes longer.
    let bound = |stream: &TcpStream, backlog| {
        if let Err(error) = tcp::set_backlog(stream, backlog) {
            debug!(%error, "its backlog has no bound");
        }
    };
    bound(stream, backlog);
    let sending = async {
        loop {
            reservation.top_up(STEP_BYTES)?;
            *bytes_sent += send_some(stream, reservation).await?;
            let rate = *bytes_sent as f64 / start.elapsed().max(RAMP).as_secs_f64();
            let wanted = (rate * BACKLOG.as_secs_f64()) as u32;
            if wanted / 2 > backlog {
                backlog = wanted;
                bound(stream, backlog);
            }
        }
    };
    let result: Result<Result<(), WorkError>, _> = tokio::time::timeout_at(until.into(), sending).await;
    stream.shutdown().await.map_err(WorkError::io("end the stream"))?;
    result.unwrap_or(Ok(()))
}

/// Sends a part of what `reservation` holds, and tells how much.
///
/// # Errors
/// When the connection fails.
pub async fn send_some(stream: &TcpStream, reservation: &mut Reservation<'_>) -> Result<u64, WorkError> {
    send_at_most(stream, reservation, CHUNK_BYTES as u64).await
}

/// As `send_some`, but no more than `most` bytes.
///
/// # Errors
/// When the connection fails.
pub async fn send_at_most(stream: &TcpStream, reservation: &mut Reservation<'_>, most: u64) -> Result<u64, WorkError> {
    let most = reservation.unspent().min(most).min(CHUNK_BYTES as u64) as usize;
    loop {
        stream.writable().await.map_err(WorkError::io("send"))?;
        match stream.try_write(&ZEROS[..most]) {
            Ok(count) => {
                reservation.spend(count as u64);
                return Ok(count as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(WorkError::io("send")(error)),
        }
    }
}

/// Counts received bytes over time. Pure: the time of each read comes in as an argument.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    bin_s: f64,
    first: Option<Instant>,
    last: Option<Instant>,
    bytes: u64,
    bins: Vec<u64>,
}

impl Counter {
    /// Counts with bins of `bin_s` seconds, or without bins if that is not above 0.
    pub fn new(bin_s: f64) -> Self {
        LazyLock::force(&EPOCH);
        Self {
            bin_s,
            ..Self::default()
        }
    }

    /// Takes a read of `bytes` bytes.
    pub fn add(&mut self, now: Instant, bytes: u64) {
        let first = *self.first.get_or_insert(now);
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

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes, seconds from the first to the last read, and bins from the first read on.
    pub fn report(self) -> Report {
        let span = self
            .first
            .zip(self.last)
            .map(|(first, last)| last.duration_since(first));
        let since = |first: Instant| first.saturating_duration_since(*EPOCH).as_secs_f64();
        Report {
            first_s: self.first.map_or(0.0, since),
            bytes: self.bytes,
            seconds: span.unwrap_or_default().as_secs_f64(),
            bin_bytes: self.bins,
            ..Report::default()
        }
    }
}

/// Counts what comes within `time` of the first byte, by the receiver's own clock, or until the sender stops, if that is
/// sooner: what waits in a queue then, or is lost and sent again, can take seconds more. `copy` has it come as far as a
/// program's memory.
///
/// # Errors
/// When the connection fails.
pub async fn receive_for(stream: &TcpStream, time: Duration, bin_s: f64, copy: bool) -> Result<Counter, WorkError> {
    let mut counter = Counter::new(bin_s);
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
            return Ok(counter);
        }
        counter.add(Instant::now(), came);
    }
}

/// Receives `bytes` bytes and counts them.
///
/// # Errors
/// When the connection fails, or closes before all have come.
pub async fn receive(stream: &TcpStream, bytes: u64, bin_s: f64) -> Result<Counter, WorkError> {
    let mut counter = Counter::new(bin_s);
    while counter.bytes() < bytes {
        let most = (bytes - counter.bytes()).min(GULP_BYTES as u64) as usize;
        match receive_some(stream, most, &mut []).await? {
            0 => {
                let came = counter.bytes();
                return Err(WorkError::Request(format!(
                    "the sender stopped at {came} of {bytes} bytes"
                )));
            }
            count => counter.add(Instant::now(), count),
        }
    }
    Ok(counter)
}

/// Reads on, uncounted, until the sender has closed or reset the connection.
pub async fn drain(stream: &TcpStream) {
    while receive_some(stream, GULP_BYTES, &mut [])
        .await
        .is_ok_and(|count| count > 0)
    {}
}

/// Takes off what has come, at most `most` bytes, into `copied` or, where that has no room, to nowhere; 0 = the sender has
/// stopped.
async fn receive_some(stream: &TcpStream, most: usize, copied: &mut [u8]) -> Result<u64, WorkError> {
    loop {
        stream.readable().await.map_err(WorkError::io("receive"))?;
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
    async fn a_stream_ends_when_its_budget_does() {
        let (mut near, far) = pair().await;
        let allowance = Allowance::new(1_000_000);
        let mut reservation = allowance.reserve(0).unwrap();
        let mut sent = 0;
        let until = Instant::now() + Duration::from_secs(60);
        let (result, received) = tokio::join!(
            send_until(&mut near, &mut reservation, until, &mut sent),
            receive_for(&far, Duration::from_secs(60), 0.01, true)
        );
        assert!(matches!(result, Err(WorkError::Budget(_))));
        assert_eq!((sent, received.unwrap().bytes()), (1_000_000, 1_000_000));
    }

    #[tokio::test]
    async fn a_stream_that_ends_by_the_clock_leaves_little_behind() {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        // Nobody reads at the other end.
        let _far = listener.accept().await.unwrap().0;
        let allowance = Allowance::new(100_000_000);
        let mut reservation = allowance.reserve(0).unwrap();
        let mut sent = 0;
        let until = Instant::now() + Duration::from_millis(300);
        send_until(&mut near, &mut reservation, until, &mut sent).await.unwrap();
        // The receiver's buffer is 128 kB at most; then the backlog, and what one write may add.
        assert!(sent <= (128 << 10) + u64::from(BACKLOG_BYTES) + (64 << 10), "{sent}");
    }

    #[tokio::test]
    async fn a_receiver_stops_by_its_own_clock() {
        let (near, far) = pair().await;
        near.try_write(&[0; 10]).unwrap();
        // The sender stays, and no end comes.
        let counter = receive_for(&far, Duration::from_millis(50), 0.0, false).await.unwrap();
        assert_eq!(counter.bytes(), 10);
        drop(near);
        drain(&far).await;
    }

    #[tokio::test]
    async fn a_sender_that_stops_early_is_told_from_one_that_ends() {
        let (near, far) = pair().await;
        near.try_write(&[0; 10]).unwrap();
        drop(near);
        assert!(matches!(receive(&far, 11, 0.0).await, Err(WorkError::Request(_))));
    }
}
