//! Errors in a capture, in words that name the record and the remedy.

use thiserror::Error;

/// Why a capture cannot be read.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum CaptureError {
    /// The first bytes are not those of a capture.
    #[error("is neither pcap nor pcapng; use a capture of `tcpdump -w` or Wireshark")]
    NotACapture,
    /// A record that violates the format.
    #[error("record {record}: {problem}; copy or capture it again")]
    Damaged {
        /// Counted from 1.
        record: u64,
        /// The problem with it.
        problem: String,
    },
    /// Packets of an unsupported link type.
    #[error("record {record}: link type {link} is not known; capture Ethernet, Linux cooked or raw IP")]
    UnknownLink {
        /// Counted from 1.
        record: u64,
        /// The link type's number at tcpdump.org.
        link: u32,
    },
    /// Compressed data that do not unpack.
    #[error("damaged gzip; copy or capture it again")]
    Gzip,
    /// The error text of the operating system.
    #[error("cannot be read: {0}; check the path")]
    Io(String),
}

impl CaptureError {
    /// The place in the file, the problem there, and the remedy: the three parts of `Display`.
    pub fn parts(&self) -> (String, String, String) {
        let text = self.to_string();
        let (text, remedy) = text.rsplit_once("; ").unwrap_or((&text, ""));
        let split = text.split_once(": ").filter(|(place, _)| place.starts_with("record "));
        let (place, problem) = split.unwrap_or(("", text));
        (place.to_owned(), problem.to_owned(), remedy.to_owned())
    }
}
