//! The limits of a hold: its bytes, its time, and the one run that it belongs to.

use std::time::Duration;

use gavotte_agent::contract::agents::{Budget, EnrolRequest, Failure};
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{Agent, Part, bulk, enrol, enrolment, measure, replay, start, three, train, transfer};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_beyond_the_byte_budget() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, b, _] = &agents;
    let budget = Budget {
        max_bytes: 600_000,
        max_seconds: 0.0,
    };
    let granted = a.enrol(EnrolRequest {
        budget: Some(budget),
        ..enrolment(a, &agents)
    });
    assert_eq!(
        granted.await.unwrap(),
        Budget {
            max_bytes: 600_000,
            max_seconds: 120.0
        }
    );
    let replaying = replay(a, "r", vec![transfer(0, "b", 500_000), transfer(1, "b", 500_000)])
        .await
        .unwrap();
    assert_eq!(replaying.connected, 1);
    start(a, "r").await.unwrap();
    let done = replaying.done().await;
    let refused: Vec<_> = done.iter().filter(|done| done.error.contains("byte budget")).collect();
    assert_eq!((refused.len(), refused[0].bytes), (1, 0));
    assert_eq!(refused[0].failure(), Failure::OverBudget);
    let (sent, _) = tokio::join!(
        measure(
            a,
            Part {
                probes: vec![(0, "b", train()), (1, "b", bulk(30.0, 1))],
                ..Part::default()
            }
        ),
        measure(
            b,
            Part {
                receives: vec![(0, "a"), (1, "a")],
                ..Part::default()
            }
        ),
    );
    let replies = sent.unwrap();
    assert!(
        replies[0].error.contains("byte budget") && replies[0].bytes_sent == 0,
        "{:?}",
        replies[0]
    );
    assert!(replies[1].error.contains("byte budget"), "{}", replies[1].error);
    assert_eq!(replies[1].bytes_sent, 100_000);
    assert_eq!(a.release().await, 600_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_ends_with_its_time_and_its_work_with_it() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, b, _] = &agents;
    let budget = Some(Budget {
        max_bytes: 0,
        max_seconds: 0.5,
    });
    let short = EnrolRequest {
        budget,
        ..enrolment(a, &agents)
    };
    a.enrol(short).await.unwrap();
    let (sent, _) = tokio::join!(
        measure(
            a,
            Part {
                probes: vec![(0, "b", bulk(60.0, 1)), (1, "b", train())],
                ..Part::default()
            }
        ),
        measure(
            b,
            Part {
                receives: vec![(0, "a")],
                ..Part::default()
            }
        ),
    );
    let replies = sent.unwrap();
    assert!(replies.iter().all(|reply| reply.failure() == Failure::Over));
    let errors: Vec<_> = replies.into_iter().map(|reply| reply.error).collect();
    assert_eq!(errors, ["the hold is over", "the hold is over"]);
    assert_eq!(
        measure(a, Part::default()).await.unwrap_err().code(),
        Code::FailedPrecondition
    );
    let next = EnrolRequest {
        run_id: "run-2".into(),
        ..enrolment(a, &agents)
    };
    a.enrol(next).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn release_stops_what_is_running() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, b, _] = &agents;
    let waiting = replay(a, "never-started", vec![transfer(0, "b", 1000)]).await.unwrap();
    let (sent, _, _) = tokio::join!(
        measure(
            a,
            Part {
                probes: vec![(0, "b", bulk(60.0, 1))],
                ..Part::default()
            }
        ),
        measure(
            b,
            Part {
                receives: vec![(0, "a")],
                ..Part::default()
            }
        ),
        async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            a.release().await
        },
    );
    assert_eq!(sent.unwrap()[0].error, "the hold is over");
    assert_eq!(waiting.done().await[0].error, "the hold is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_belongs_to_one_run() {
    let agents = [Agent::start("a", [127, 0, 0, 1]).await];
    enrol(&agents).await;
    let [a] = &agents;
    let other = EnrolRequest {
        run_id: "run-2".into(),
        ..enrolment(a, &agents)
    };
    let refusal = a.enrol(other.clone()).await.unwrap_err();
    assert_eq!(refusal.code(), Code::FailedPrecondition);
    assert!(refusal.message().contains("run-1"), "{}", refusal.message());
    assert_eq!(refusal.get_details_error_info().unwrap().reason, "HELD");
    a.release().await;
    a.enrol(other).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn senseless_requests_are_refused() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, _, _] = &agents;
    let short = EnrolRequest {
        secret: vec![1; 16],
        ..enrolment(a, &agents)
    };
    assert_eq!(a.enrol(short).await.unwrap_err().code(), Code::InvalidArgument);
    let backwards = Part {
        receives: vec![(2, "b"), (1, "b")],
        ..Part::default()
    };
    assert_eq!(measure(a, backwards).await.unwrap_err().code(), Code::InvalidArgument);
}
