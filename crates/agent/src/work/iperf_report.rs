//! Reads the report that `iperf3 -J` prints at the end of a TCP test.

use serde_json::Value;

use crate::contract::agents::{BulkResult, FlowResult};

/// Largest number of streams that are read.
const MAX_STREAMS: usize = 1000;

/// The result of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct TestReport {
    /// Rates and flows as the receiver counted them.
    pub result: BulkResult,
    /// Bytes that the sender sent.
    pub sent_bytes: u64,
    /// Share of one core that the sender's iperf3 used, in user and system mode together.
    pub sender_cpu: Option<f64>,
    /// The same for the receiver's.
    pub receiver_cpu: Option<f64>,
}

/// Reads a report.
///
/// # Errors
/// iperf3's own error, or what the report lacks.
pub fn read(text: &str) -> Result<TestReport, String> {
    let report: Value = match serde_json::from_str(text) {
        Ok(report) => report,
        Err(_) if text.trim().is_empty() => return Err("no report; too old? (3.1 is needed)".into()),
        Err(error) => return Err(format!("the report is not JSON ({error}); is iperf3 too old?")),
    };
    if let Some(error) = report.get("error").and_then(Value::as_str) {
        return Err(error.trim_start_matches("error - ").to_owned());
    }
    let end = report.get("end").ok_or("the report has no end")?;
    let goodput_bps = number(end, "/sum_received/bits_per_second").ok_or("the report has no sum_received")?;
    let congestion = end
        .get("sender_tcp_congestion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let streams = end
        .get("streams")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    // The client has written the report; with -R, it is the receiver.
    let (sender, receiver) = match count(&report, "/start/test_start/reverse") {
        0 => ("host", "remote"),
        _ => ("remote", "host"),
    };
    let cpu = |side: &str| number(end, &format!("/cpu_utilization_percent/{side}_total")).map(share);
    Ok(TestReport {
        result: BulkResult {
            goodput_bps,
            flows: streams
                .iter()
                .take(MAX_STREAMS)
                .map(|stream| flow(stream, congestion))
                .collect(),
        },
        sent_bytes: count(end, "/sum_sent/bytes"),
        sender_cpu: cpu(sender),
        receiver_cpu: cpu(receiver),
    })
}

fn flow(stream: &Value, congestion: &str) -> FlowResult {
    let seconds_of_us = |pointer| number(stream, pointer).unwrap_or(0.0) * 1e-6;
    FlowResult {
        bytes: count(stream, "/receiver/bytes"),
        seconds: number(stream, "/receiver/seconds").unwrap_or(0.0),
        retransmits: count(stream, "/sender/retransmits"),
        rtt_s: seconds_of_us("/sender/mean_rtt"),
        min_rtt_s: seconds_of_us("/sender/min_rtt"),
        cwnd_bytes: count(stream, "/sender/max_snd_cwnd"),
        congestion: congestion.to_owned(),
        ..FlowResult::default()
    }
}

fn number(value: &Value, pointer: &str) -> Option<f64> {
    let number = value.pointer(pointer)?.as_f64()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// The number as an integer, limited to the type's range; 0 if it is missing or negative.
fn count(value: &Value, pointer: &str) -> u64 {
    number(value, pointer).unwrap_or(0.0) as u64
}

fn share(percent: f64) -> f64 {
    (percent / 100.0).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPORT: &str = r#"{"start": {"version": "iperf 3.12"}, "end": {
        "streams": [{"sender": {"bytes": 1300000, "retransmits": 3, "max_snd_cwnd": 86880, "min_rtt": 250,
                                "mean_rtt": 4000},
                     "receiver": {"bytes": 1200000, "seconds": 0.1}}],
        "sum_sent": {"bytes": 1300000, "retransmits": 3},
        "sum_received": {"bytes": 1200000, "bits_per_second": 96000000.5},
        "cpu_utilization_percent": {"host_total": 12.5, "remote_total": 250},
        "sender_tcp_congestion": "cubic"}}"#;

    #[test]
    fn a_report_is_read() {
        let report = read(REPORT).unwrap();
        assert!((report.result.goodput_bps - 96_000_000.5).abs() < 1e-6);
        assert_eq!(
            (report.sent_bytes, report.sender_cpu, report.receiver_cpu),
            (1_300_000, Some(0.125), Some(1.0))
        );
        let flow = &report.result.flows[0];
        assert_eq!((flow.bytes, flow.retransmits, flow.cwnd_bytes), (1_200_000, 3, 86_880));
        assert_eq!(flow.congestion, "cubic");
        assert!((flow.min_rtt_s - 0.000_25).abs() < 1e-12 && (flow.rtt_s - 0.004).abs() < 1e-12);
    }

    #[test]
    fn a_client_that_received_reports_both_processors() {
        let reverse = r#"{"version": "iperf 3.12", "test_start": {"reverse": 1}}"#;
        let report = read(&REPORT.replace(r#"{"version": "iperf 3.12"}"#, reverse)).unwrap();
        assert_eq!((report.sender_cpu, report.receiver_cpu), (Some(1.0), Some(0.125)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = r#"{"start": {}, "error": "error - unable to connect to server: Connection refused"}"#;
        assert_eq!(
            read(error).unwrap_err(),
            "unable to connect to server: Connection refused"
        );
        assert!(read("").unwrap_err().contains("too old"));
        assert!(read("iperf3: option -J").unwrap_err().contains("not JSON"));
        assert!(read("{}").unwrap_err().contains("end"));
        assert!(read(r#"{"end": {}}"#).unwrap_err().contains("sum_received"));
    }

    proptest! {
        #[test]
        fn any_text_is_safe(text in "\\PC{0,200}") {
            let _ = read(&text);
        }

        #[test]
        fn a_damaged_report_is_safe(at in 0..REPORT.len(), byte in any::<u8>(), cut in any::<bool>()) {
            let mut bytes = REPORT.as_bytes().to_vec();
            bytes[at] = byte;
            if cut {
                bytes.truncate(at);
            }
            if let Ok(report) = read(&String::from_utf8_lossy(&bytes)) {
                prop_assert!(report.result.goodput_bps.is_finite() && report.result.goodput_bps >= 0.0);
            }
        }

        #[test]
        fn any_numbers_are_safe(number in any::<f64>(), whole in any::<i64>()) {
            let text = REPORT.replace("1200000", &whole.to_string()).replace("96000000.5", &number.to_string());
            let _ = read(&text);
        }
    }
}
