//! What can be wrong with a capture, in words that name the record and the remedy.

use thiserror::Error;

/// Why a capture cannot be read.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum CaptureError {
    /// The first bytes are those of no capture.
    #[error("is neither pcap nor pcapng; use a capture of `tcpdump -w` or Wireshark")]
    NotACapture,
    /// A record that is not as the format demands.
    #[error("record {record}: {problem}; copy or capture it again")]
    Damaged {
        /// Counted from 1.
        record: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// Packets of a kind of link that is not known here.
    #[error("record {record}: link type {link} is not known; capture Ethernet, Linux cooked or raw IP")]
    UnknownLink {
        /// Counted from 1.
        record: u64,
        /// Its number at tcpdump.org.
        link: u32,
    },
    /// Compressed data that do not unpack.
    #[error("damaged gzip; copy or capture it again")]
    Gzip,
    /// The system's own words.
    #[error("cannot be read: {0}; check the path")]
    Io(String),
}

impl CaptureError {
    /// Where in the file, what is wrong there, and what to do: `Display` in its three parts.
    pub fn parts(&self) -> (String, String, String) {
        let text = self.to_string();
        let (text, remedy) = text.rsplit_once("; ").unwrap_or((&text, ""));
        let split = text.split_once(": ").filter(|(place, _)| place.starts_with("record "));
        let (place, problem) = split.unwrap_or(("", text));
        (place.to_owned(), problem.to_owned(), remedy.to_owned())
    }
}
