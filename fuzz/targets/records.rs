//! Any bytes in the place of a connection's encrypted records.
#![no_main]

use gavotte_agent::contract::data::{Challenge, Hello};
use gavotte_agent::hold::secret::Secret;
use gavotte_agent::plane::records::Ends;
use gavotte_agent::plane::{frames, handshake};
use libfuzzer_sys::fuzz_target;
use tokio::io::{join, sink};

fuzz_target!(|bytes: &[u8]| {
    let secret = Secret::new(&[1; 32]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let channel = runtime.block_on(async {
        let (nonce, mut challenge) = (vec![2; 16], Vec::new());
        let sent = Challenge {
            nonce,
            ..Challenge::default()
        };
        frames::write(&mut challenge, &sent).await.unwrap();
        let mut stream = join(challenge.as_slice(), sink());
        handshake::connect(&mut stream, &secret, Hello::default(), [3; 16])
            .await
            .unwrap()
    });
    let mut opener = channel.opener(Ends {
        connector: "a",
        acceptor: "b",
    });
    for some in bytes.chunks(97) {
        opener.space()[..some.len()].copy_from_slice(some);
        opener.filled(some.len());
        match opener.open() {
            Ok(None) => {}
            Ok(Some(_)) => panic!("a forged record"),
            Err(_) => return,
        }
    }
});
