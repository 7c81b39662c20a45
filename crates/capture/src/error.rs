//! Errors in a capture, in words that name the record and the remedy.

use thiserror::Error;

/// Why a capture cannot be read.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum CaptureError {
    /// The first bytes are not those of a capture.
    #[error("is neither pcap nor pcapng; use a capture of `tcpdump -w` or Wireshark")]
    NotACapture,
    /// The first bytes are those of another format that is known.
    #[error("is {0}; {1}")]
    OtherFormat(&'static str, &'static str),
    /// A file without a byte.
    #[error("is empty; capture again")]
    Empty,
    /// A file that ends before its first record.
    #[error("ends within its header; copy or capture it again")]
    NoHeader,
    /// A record that violates the format.
    #[error("record {record}: {problem}; copy or capture it again")]
    Damaged {
        /// Counted from 1.
        record: u64,
        /// The problem with it.
        problem: String,
    },
    /// All packets have unsupported link types, named here.
    #[error("has packets of {0} only, which is not read; capture Ethernet, Linux cooked, PPP or raw IP")]
    UnknownLinks(String),
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
