//! Any bytes that an unknown client sends to the data port: frames, and both sides of the handshake.
#![no_main]

use gavotte_agent::contract::data::{Hello, Report, Welcome};
use gavotte_agent::hold::secret::Secret;
use gavotte_agent::plane::{frames, handshake};
use libfuzzer_sys::fuzz_target;
use tokio::io::{join, sink};

fuzz_target!(|bytes: &[u8]| {
    let secret = Secret::new(&[1; 32]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut rest = bytes;
        while frames::read::<Report>(&mut rest).await.is_ok() {}
        let _ = frames::read::<Welcome>(&mut &bytes[..]).await;
        assert!(
            handshake::accept(&mut join(bytes, sink()), |_| Secret::new(&[1; 32]), [2; 16], 0)
                .await
                .is_err()
        );
        let hello = Hello::default();
        if let Ok(mut channel) = handshake::connect(&mut join(bytes, sink()), &secret, hello, [3; 16]).await {
            assert!(channel.welcome(&mut &bytes[..]).await.is_err(), "a forged welcome");
        }
    });
});
