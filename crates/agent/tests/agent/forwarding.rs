//! Calls that one agent forwards to others.

use std::time::Duration;

use gavotte_agent::contract::agents::{
    Answer, AttendRequest, Call, DropRequest, Expect, Failure, ForwardReply, ForwardRequest, HealthReply,
    IntroduceRequest, Letter, MeasureRequest, Peer, ProbeReply, RenewRequest, ResumeRequest, StatusReply,
    StatusRequest,
};
use gavotte_letters::Keys;
use prost::Message;
use ring::digest::{SHA256, digest};
use tonic::{Code, Streaming};

use crate::support::{Agent, Part, RUN, enrolment, measure, three, train};

/// The key of an agent, by its name's first letter.
fn key(name: &str) -> [u8; 32] {
    [name.as_bytes()[0]; 32]
}

fn keys(name: &str) -> Keys {
    Keys::new(&key(name)).unwrap()
}

async fn enrolled() -> [Agent; 3] {
    let agents = three().await;
    for agent in &agents {
        let mut request = enrolment(agent, &agents);
        request.letter_key = key(&agent.name).to_vec();
        agent.enrol(request).await.unwrap();
    }
    agents
}

fn call(method: &str, request: &impl Message) -> Call {
    Call {
        method: method.into(),
        request: request.encode_to_vec(),
        common_hash: Vec::new(),
    }
}

fn letter(peer: &str, number: u64, call: &Call) -> Letter {
    Letter {
        peer: peer.into(),
        sealed: keys(peer).seal_call(number, &call.encode_to_vec()),
    }
}

async fn forward(by: &Agent, letters: Vec<Letter>, common: Vec<u8>) -> Streaming<ForwardReply> {
    let request = ForwardRequest {
        run_id: RUN.into(),
        letters,
        common,
        gather_s: 0.02,
    };
    by.client.clone().forward(request).await.unwrap().into_inner()
}

/// What came of one letter: its answers, and why they ended, if not by the last one.
#[derive(Debug, Default)]
struct Came {
    answers: Vec<Answer>,
    error: String,
    failure: i32,
    over: bool,
}

async fn all(mut stream: Streaming<ForwardReply>, names: &[(&str, u64)]) -> Vec<Came> {
    let mut came: Vec<Came> = names.iter().map(|_| Came::default()).collect();
    while let Some(reply) = stream.message().await.unwrap() {
        for delivery in reply.deliveries {
            let (name, number) = names[delivery.letter as usize];
            let came = &mut came[delivery.letter as usize];
            assert!(!came.over);
            if delivery.over {
                (came.error, came.failure, came.over) = (delivery.error, delivery.failure, true);
            } else {
                let index = came.answers.len() as u32;
                let opened = keys(name).open_answer(number, index, &delivery.sealed).unwrap();
                came.answers.push(Answer::decode(opened.as_slice()).unwrap());
            }
        }
    }
    assert!(came.iter().all(|came| came.over));
    came
}

fn status() -> StatusRequest {
    StatusRequest { run_id: RUN.into() }
}

fn renewal() -> RenewRequest {
    RenewRequest { run_id: RUN.into() }
}

#[tokio::test]
async fn answers_come_back_as_if_the_controller_had_called() {
    let [a, _b, _c] = enrolled().await;
    let unknown = RenewRequest { run_id: "other".into() };
    let letters = vec![
        letter("b", 1, &call("Status", &status())),
        letter("c", 1, &call("Health", &RenewRequest::default())),
        letter("c", 2, &call("Renew", &unknown)),
        letter("b", 2, &call("Enrol", &status())),
    ];
    let came = all(
        forward(&a, letters, Vec::new()).await,
        &[("b", 1), ("c", 1), ("c", 2), ("b", 2)],
    )
    .await;
    let [reply, last] = came[0].answers.as_slice() else {
        panic!("{came:?}")
    };
    let holds = StatusReply::decode(reply.reply.as_slice()).unwrap().holds;
    assert_eq!((holds[0].run_id.as_str(), last.last, last.code), (RUN, true, 0));
    let health = HealthReply::decode(came[1].answers[0].reply.as_slice()).unwrap();
    assert!(health.data_port > 0);
    // A refusal has its code and details, as in a call of the controller itself.
    let [refusal] = came[2].answers.as_slice() else {
        panic!("{came:?}")
    };
    assert_eq!(refusal.code, i32::from(Code::FailedPrecondition));
    assert!(!refusal.details.is_empty() && refusal.message.contains("`other`"));
    assert_eq!(came[3].answers[0].code, i32::from(Code::Unimplemented));
    assert!(came.iter().all(|came| came.error.is_empty()));
}

#[tokio::test]
async fn a_schedule_is_forwarded_and_its_results_come_back() {
    let [a, b, c] = enrolled().await;
    let request = |probes: Vec<_>, receives: Vec<_>| MeasureRequest {
        run_id: RUN.into(),
        probes,
        receives,
        wait_s: 20.0,
        rounds: 1,
    };
    let probe = gavotte_agent::contract::agents::Probe {
        round: 0,
        peer: "c".into(),
        kind: Some(train()),
    };
    let expect = Expect {
        round: 0,
        peer: "b".into(),
    };
    let letters = vec![
        letter("b", 1, &call("Measure", &request(vec![probe], vec![]))),
        letter("c", 1, &call("Measure", &request(vec![], vec![expect]))),
    ];
    let came = all(forward(&a, letters, Vec::new()).await, &[("b", 1), ("c", 1)]).await;
    let reply = ProbeReply::decode(came[0].answers[0].reply.as_slice()).unwrap();
    assert_eq!((reply.peer.as_str(), reply.error.as_str()), ("c", ""));
    drop((b, c));
}

#[tokio::test]
async fn letters_of_others_and_old_letters_are_refused() {
    let [a, _b, _c] = enrolled().await;
    let renew = letter("b", 1, &call("Renew", &renewal()));
    let came = all(forward(&a, vec![renew.clone()], Vec::new()).await, &[("b", 1)]).await;
    assert_eq!(came[0].answers.len(), 2);
    let mut changed = letter("b", 3, &call("Renew", &renewal()));
    *changed.sealed.last_mut().unwrap() ^= 1;
    let other = Letter {
        peer: "b".into(),
        ..letter("c", 4, &call("Renew", &renewal()))
    };
    for refused in [renew, changed, other] {
        let came = all(forward(&a, vec![refused], Vec::new()).await, &[("b", 1)]).await;
        assert!(came[0].answers.is_empty(), "{came:?}");
    }
    let unknown = all(
        forward(&a, vec![letter("x", 1, &call("Renew", &renewal()))], Vec::new()).await,
        &[("x", 1)],
    )
    .await;
    assert_eq!(unknown[0].failure, i32::from(Failure::Invalid));
    let many = ForwardRequest {
        run_id: RUN.into(),
        letters: vec![Letter::default(); 1025],
        ..ForwardRequest::default()
    };
    assert_eq!(
        a.client.clone().forward(many).await.unwrap_err().code(),
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn an_agent_without_a_key_takes_no_letters() {
    let agents = three().await;
    for agent in &agents {
        agent.enrol(enrolment(agent, &agents)).await.unwrap();
    }
    let came = all(
        forward(&agents[0], vec![letter("b", 1, &call("Renew", &renewal()))], Vec::new()).await,
        &[("b", 1)],
    )
    .await;
    assert!(
        came[0].answers.is_empty() && came[0].error.contains("no letters"),
        "{came:?}"
    );
}

#[tokio::test]
async fn requests_may_end_with_what_they_have_in_common() {
    let agents = three().await;
    let [a, b, c] = &agents;
    for agent in &agents {
        // Only the forwarding agent is known at first.
        let mut request = enrolment(agent, &agents);
        request
            .peers
            .retain(|peer| agent.name == "a" || ["a", agent.name.as_str()].contains(&peer.name.as_str()));
        request.letter_key = key(&agent.name).to_vec();
        agent.enrol(request).await.unwrap();
    }
    let common = IntroduceRequest {
        run_id: String::new(),
        peers: agents.iter().map(Agent::peer).collect(),
    }
    .encode_to_vec();
    let own = IntroduceRequest {
        run_id: RUN.into(),
        peers: Vec::new(),
    };
    let mut introduction = call("Introduce", &own);
    introduction.common_hash = digest(&SHA256, &common).as_ref().to_vec();
    let letters = vec![letter("b", 1, &introduction), letter("c", 1, &introduction)];
    let came = all(forward(a, letters, common.clone()).await, &[("b", 1), ("c", 1)]).await;
    assert!(
        came.iter()
            .all(|came| came.answers.len() == 2 && came.answers[1].code == 0),
        "{came:?}"
    );
    let sends = Part {
        probes: vec![(0, "c", train())],
        ..Part::default()
    };
    let receives = Part {
        receives: vec![(0, "b")],
        ..Part::default()
    };
    let (sent, _) = tokio::join!(measure(b, sends), measure(c, receives));
    assert_eq!(sent.unwrap()[0].error, "");
    // Other bytes are refused, and so is a letter whose bytes are missing.
    let other = IntroduceRequest {
        run_id: String::new(),
        peers: vec![Peer {
            name: "d".into(),
            address: "127.0.0.4".into(),
            data_port: 1,
            origins: Vec::new(),
        }],
    };
    for common in [other.encode_to_vec(), Vec::new()] {
        let letters = vec![letter("b", 2 + common.len() as u64, &introduction)];
        let number = 2 + common.len() as u64;
        let came = all(forward(a, letters, common).await, &[("b", number)]).await;
        assert_eq!(came[0].answers[0].code, i32::from(Code::InvalidArgument));
    }
}

#[tokio::test]
async fn work_ends_when_the_controller_leaves_or_the_peer_is_dropped() {
    let [a, b, c] = enrolled().await;
    let attend = AttendRequest { run_id: RUN.into() };
    let letters = |number| {
        ["b", "c"]
            .map(|name| letter(name, number, &call("Attend", &attend)))
            .to_vec()
    };
    // The forwarding agent goes on with the other letter.
    let stream = forward(&a, letters(1), Vec::new()).await;
    let dropping = DropRequest {
        run_id: RUN.into(),
        peer: "b".into(),
        reason: "it is slow".into(),
    };
    let waiting = tokio::spawn(all(stream, &[("b", 1), ("c", 1)]));
    tokio::time::sleep(Duration::from_millis(200)).await;
    a.client.clone().drop(dropping).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    // When its agent ends, a letter is over.
    c.stop().await;
    let came = tokio::time::timeout(Duration::from_secs(5), waiting)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(came[0].failure, i32::from(Failure::Dropped));
    drop(b);
}

#[tokio::test]
async fn another_agent_continues_for_one_that_is_gone() {
    let [a, b, _c] = enrolled().await;
    let schedule = MeasureRequest {
        run_id: RUN.into(),
        probes: vec![],
        receives: vec![Expect {
            round: 0,
            peer: "b".into(),
        }],
        wait_s: 2.0,
        rounds: 1,
    };
    // The probe is never sent, so that the schedule takes two seconds.
    let mut stream = forward(&a, vec![letter("c", 1, &call("Measure", &schedule))], Vec::new()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    a.stop().await;
    while let Ok(Some(_)) = stream.message().await {}
    let resume = |next| call("Resume", &ResumeRequest { call: 1, next });
    let came = all(
        forward(&b, vec![letter("c", 2, &resume(0))], Vec::new()).await,
        &[("c", 1)],
    )
    .await;
    let answers = &came[0].answers;
    assert!(answers.last().unwrap().last, "{came:?}");
    // The last answers are kept for a while.
    let again = all(
        forward(&b, vec![letter("c", 3, &resume(0))], Vec::new()).await,
        &[("c", 1)],
    )
    .await;
    assert_eq!(&again[0].answers, answers);
    let unknown = ResumeRequest { call: 9, next: 0 };
    let letters = vec![letter("c", 4, &call("Resume", &unknown))];
    let none = all(forward(&b, letters, Vec::new()).await, &[("c", 9)]).await;
    assert!(none[0].answers.is_empty());
}

#[tokio::test]
async fn work_stops_at_once_when_the_controller_leaves() {
    let [a, _b, c] = enrolled().await;
    let schedule = MeasureRequest {
        run_id: RUN.into(),
        probes: vec![],
        receives: vec![Expect {
            round: 0,
            peer: "b".into(),
        }],
        wait_s: 60.0,
        rounds: 1,
    };
    let stream = forward(&a, vec![letter("c", 1, &call("Measure", &schedule))], Vec::new()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let jobs = || async {
        let reply = c.client.clone().status(status()).await.unwrap().into_inner();
        reply.holds[0].jobs.len()
    };
    assert_eq!(jobs().await, 1);
    drop(stream);
    let mut left = 30;
    while jobs().await > 0 && left > 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        left -= 1;
    }
    assert!(left > 0);
}
