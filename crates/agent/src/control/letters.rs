//! Takes calls of the controller that other agents forward, and answers them as if the controller had made them itself.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use ring::digest::{SHA256, digest};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};
use tracing::{Instrument, debug, info_span};

use crate::contract::agents::{Answer, Call, Failure, ResumeRequest, agent_server::Agent};
use crate::contract::data::Part;
use crate::control::service::Service;
use crate::error::WorkError;
use crate::hold::Hold;
use crate::hold::letterbox::{Letterbox, Ongoing};
use crate::plane::door::Guest;
use crate::plane::parts;

/// Longest letter in bytes, and longest end that letters have in common: a schedule or the addresses of many hosts.
const MAX_LETTER_BYTES: usize = 16 << 20;

/// How long the answers to a call may take after the hold is over.
const LATE: Duration = Duration::from_secs(1);

/// The method by which a controller asks for further answers to an earlier call.
const RESUME: &str = "Resume";

type Replies = Pin<Box<dyn Stream<Item = Result<Vec<u8>, Status>> + Send>>;

/// Takes the letter that a guest brings, and sends the answers back until the last one, or until the guest leaves.
/// It goes on when this returns, since the answer to a release comes after the hold's end.
pub(super) fn receive(service: Service, guest: Guest) {
    let (hold, source) = (Arc::clone(&guest.hold), guest.source.clone());
    let taking = async move {
        let taken = take(service, guest);
        let late = async {
            hold.over().await;
            tokio::time::sleep(LATE).await;
            Err(WorkError::Over)
        };
        let ended = tokio::select! {
            ended = hold.dropped.unless(&source, taken) => ended,
            ended = late => ended,
        };
        if let Err(error) = ended {
            debug!(%error, "a letter was not answered");
        }
    };
    tokio::spawn(taking.in_current_span());
}

async fn take(service: Service, mut guest: Guest) -> Result<(), WorkError> {
    let hold = Arc::clone(&guest.hold);
    let Some(letterbox) = &hold.letterbox else {
        return guest
            .refuse("this agent takes no letters".into(), Failure::Refused)
            .await;
    };
    guest.welcome(0).await?;
    let sealed = parts::receive(&mut guest.connection, MAX_LETTER_BYTES).await?;
    let common = parts::receive(&mut guest.connection, MAX_LETTER_BYTES).await?;
    let (number, content) = letterbox.open(&sealed)?;
    let call = Call::decode(content.as_slice()).map_err(|error| WorkError::Request(format!("letter: {error}")))?;
    if call.method == RESUME {
        let asked = ResumeRequest::decode(call.request.as_slice());
        let asked = asked.map_err(|error| WorkError::Request(format!("letter: {error}")))?;
        let ongoing = letterbox.ongoing(asked.call);
        let ongoing = ongoing.ok_or_else(|| WorkError::Request("letter: the answers are not kept any more".into()))?;
        return answer(&mut guest, &ongoing, asked.next).await;
    }
    let ongoing = letterbox.begin(number);
    let work = carry_out(service, Arc::clone(&hold), (call, common), Arc::clone(&ongoing));
    tokio::spawn(work.instrument(info_span!("letter", run = hold.run_id, number)));
    answer(&mut guest, &ongoing, 0).await
}

/// Sends the answers from `next` on.
async fn answer(guest: &mut Guest, ongoing: &Arc<Ongoing>, mut next: u32) -> Result<(), WorkError> {
    let _listening = ongoing.listen();
    loop {
        let answer = tokio::select! {
            answer = ongoing.answered(next) => answer,
            cancelled = left(guest) => {
                if cancelled {
                    ongoing.cancel();
                }
                return Ok(());
            }
        };
        let Some(answer) = answer else { return Ok(()) };
        parts::send(&mut guest.connection, &answer).await?;
        ongoing.sent(next);
        next += 1;
    }
}

/// Waits until the guest leaves. Returns whether it says that more answers are unwanted; otherwise it has disappeared.
async fn left(guest: &mut Guest) -> bool {
    let connection = &mut guest.connection;
    let last = connection.channel.receive::<Part>(&mut connection.stream).await;
    debug!(cancelled = last.is_ok(), "the guest left");
    last.is_ok()
}

/// Carries out a call until it ends, the hold is over, or its answers are unwanted.
async fn carry_out(service: Service, hold: Arc<Hold>, (call, common): (Call, Vec<u8>), ongoing: Arc<Ongoing>) {
    let Some(letterbox) = &hold.letterbox else { return };
    let answering = async {
        let status = match begin(&service, call, common).await {
            Ok(replies) => relay(replies, letterbox, &ongoing).await,
            Err(status) => status,
        };
        let last = Answer {
            last: true,
            code: status.code().into(),
            message: status.message().into(),
            details: status.details().to_vec(),
            ..Answer::default()
        };
        letterbox.answer(&ongoing, &last.encode_to_vec()).await;
    };
    let late = async {
        hold.over().await;
        tokio::time::sleep(LATE).await;
    };
    tokio::select! {
        () = answering => {}
        () = late => {}
        () = ongoing.forsaken() => debug!("more answers are unwanted"),
    }
    letterbox.end(&ongoing).await;
}

/// Answers with the replies of a call. Returns its status.
async fn relay(mut replies: Replies, letterbox: &Letterbox, ongoing: &Ongoing) -> Status {
    while let Some(reply) = replies.next().await {
        match reply {
            Ok(reply) => {
                let answer = Answer {
                    reply,
                    ..Answer::default()
                };
                letterbox.answer(ongoing, &answer.encode_to_vec()).await;
            }
            Err(status) => return status,
        }
    }
    Status::ok("")
}

/// Begins a call.
async fn begin(service: &Service, call: Call, common: Vec<u8>) -> Result<Replies, Status> {
    let hash = (!common.is_empty()).then(|| digest(&SHA256, &common));
    if hash.as_ref().map_or(&[][..], AsRef::as_ref) != call.common_hash.as_slice() {
        return Err(Status::invalid_argument(
            "letter: not what its request has in common with others",
        ));
    }
    let mut request = call.request;
    request.extend(common);
    dispatched(service, &call.method, &request).await
}

fn decoded<M: Message + Default>(request: &[u8]) -> Result<Request<M>, Status> {
    let message = M::decode(request).map_err(|error| Status::invalid_argument(format!("letter: {error}")))?;
    Ok(Request::new(message))
}

fn one<M: Message>(reply: Response<M>) -> Replies {
    Box::pin(tokio_stream::once(Ok(reply.into_inner().encode_to_vec())))
}

fn many<M: Message + 'static>(replies: Response<impl Stream<Item = Result<M, Status>> + Send + 'static>) -> Replies {
    let encoded = |reply: Result<M, Status>| reply.map(|reply| reply.encode_to_vec());
    Box::pin(replies.into_inner().map(encoded))
}

/// Calls a method by its name.
async fn dispatched(service: &Service, method: &str, request: &[u8]) -> Result<Replies, Status> {
    Ok(match method {
        "Attend" => many(service.attend(decoded(request)?).await?),
        "Broadcast" => many(service.broadcast(decoded(request)?).await?),
        "CallBack" => one(service.call_back(decoded(request)?).await?),
        "Discard" => one(service.discard(decoded(request)?).await?),
        "Drop" => one(service.drop(decoded(request)?).await?),
        "Excuse" => one(service.excuse(decoded(request)?).await?),
        "Greet" => one(service.greet(decoded(request)?).await?),
        "Guard" => one(service.guard(decoded(request)?).await?),
        "Guarded" => one(service.guarded(decoded(request)?).await?),
        "Health" => one(service.health(decoded(request)?).await?),
        "Heard" => one(service.heard(decoded(request)?).await?),
        "Introduce" => one(service.introduce(decoded(request)?).await?),
        "Listen" => one(service.listen(decoded(request)?).await?),
        "Logs" => one(service.logs(decoded(request)?).await?),
        "Look" => one(service.look(decoded(request)?).await?),
        "Manifest" => one(service.manifest(decoded(request)?).await?),
        "Measure" => many(service.measure(decoded(request)?).await?),
        "Pace" => one(service.pace(decoded(request)?).await?),
        "Readmit" => one(service.readmit(decoded(request)?).await?),
        "Release" => one(service.release(decoded(request)?).await?),
        "Renew" => one(service.renew(decoded(request)?).await?),
        "Replay" => many(service.replay(decoded(request)?).await?),
        "Space" => one(service.space(decoded(request)?).await?),
        "Splice" => one(service.splice(decoded(request)?).await?),
        "Start" => one(service.start(decoded(request)?).await?),
        "Status" => one(service.status(decoded(request)?).await?),
        "Unguard" => one(service.unguard(decoded(request)?).await?),
        "Watch" => many(service.watch(decoded(request)?).await?),
        _ => return Err(Status::unimplemented(format!("letter: no method `{method}`"))),
    })
}
