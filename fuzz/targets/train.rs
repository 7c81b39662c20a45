//! A sender that knows the run's secret and sends anything: the receiver records it and answers.
#![no_main]

use gavotte_probe::gated::recorder::Recorder;
use gavotte_probe::gated::wire::Data;
use gavotte_probe::gated::{Limit, enough, estimate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: Vec<([u32; 3], [u64; 3], u32)>| {
    let mut recorder = Recorder::new(1472, 1514, 1000);
    for ([batch, seq, waits], [sent_ns, ended_ns, received_ns], overflow) in steps {
        let data = Data {
            probe_id: 1,
            batch,
            seq,
            sent_ns,
            ended_ns,
            waits,
        };
        recorder.take(&data, received_ns, overflow);
        recorder.ended(batch, ended_ns);
    }
    let train = recorder.into_train(Limit::Time);
    if let Ok(answer) = estimate(&train) {
        enough(&train, &answer);
    }
});
