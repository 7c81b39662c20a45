//! A controller's requests to an agent: each is accepted or refused, and never causes a panic.
#![no_main]

use gavotte_agent::contract::agents::{EnrolRequest, MeasureRequest};
use gavotte_agent::hold::peers::Peers;
use gavotte_agent::work::schedule::Schedule;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = MeasureRequest::decode(bytes) {
        let _ = Schedule::new(request);
    }
    if let Ok(request) = EnrolRequest::decode(bytes) {
        let _ = Peers::new("a", request.peers);
    }
});
