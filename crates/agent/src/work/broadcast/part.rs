//! A host's part in a broadcast, for as long as its controller listens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gavotte_swarm::broadcast::layout::Layout;
use gavotte_swarm::broadcast::replica::{Hash, Replica, checksum};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tonic::Status;
use tracing::{Instrument, info, warn};

use crate::contract::agents::{
    BroadcastFailed, BroadcastReply, BroadcastRequest, Feed, FeedBroken, FeedConnected, Kept, ManifestReply,
    broadcast_reply::Event,
};
use crate::error::WorkError;
use crate::hold::Hold;
use crate::hold::jobs::Job;
use crate::plane::Plane;
use crate::work::broadcast::cache::Cache;
use crate::work::broadcast::fetch::Fetcher;
use crate::work::broadcast::file::{Store, apart, cut};
use crate::work::broadcast::share::Share;
use crate::work::broadcast::subscriber::Subscriber;

/// Shortest and longest time between a host's reports, in seconds.
const REPORT_S: std::ops::RangeInclusive<f64> = 0.02..=10.0;

type Replies = mpsc::Sender<Result<BroadcastReply, Status>>;

/// A host's part before it begins.
pub struct Part {
    plane: Arc<Plane>,
    hold: Arc<Hold>,
    job: Job,
    request: BroadcastRequest,
    layout: Layout,
    hashes: Arc<[Hash]>,
    cache: Option<Cache>,
}

/// The active feeds, by parent.
struct Feeds {
    tasks: JoinSet<(String, Result<(), WorkError>)>,
    open: BTreeMap<String, (watch::Sender<Feed>, tokio::task::AbortHandle)>,
    connected: mpsc::UnboundedSender<String>,
}

impl Part {
    /// Checks a request.
    ///
    /// # Errors
    /// If the request is invalid.
    pub fn new(plane: &Arc<Plane>, hold: &Arc<Hold>, job: Job, request: BroadcastRequest) -> Result<Self, WorkError> {
        let (layout, hashes) = cut(request.manifest.as_ref().unwrap_or(&ManifestReply::default()))?;
        if !request.report_s.is_finite() {
            return Err(WorkError::Request(format!("report_s: not {}", request.report_s)));
        }
        if request.cached && (request.source || request.cache.is_empty()) {
            return Err(WorkError::Request("cached: it needs a cache, and no source".into()));
        }
        // A host that only serves its cache makes no folder for it.
        let open = if request.cached { Cache::at } else { Cache::open };
        let cache = (!request.cache.is_empty()).then(|| open(&request.cache, request.cache_bytes));
        Ok(Self {
            plane: Arc::clone(plane),
            hold: Arc::clone(hold),
            job,
            request,
            layout,
            hashes: hashes.into(),
            cache: cache.transpose()?,
        })
    }

    /// Takes part until the controller has left or the hold is over.
    pub async fn run(self, replies: Replies) {
        let hold = Arc::clone(&self.hold);
        let working = hold.during(self.work(&replies));
        let result = tokio::select! {
            result = working => result,
            () = replies.closed() => Ok(()),
        };
        if let Err(error) = result {
            info!(%error, "no longer takes part");
            let mut failed = BroadcastFailed {
                error: error.to_string(),
                ..BroadcastFailed::default()
            };
            failed.set_failure(error.failure());
            // The controller may have left.
            let _ = say(&replies, Event::Failed(failed)).await;
        }
    }

    async fn work(self, replies: &Replies) -> Result<(), WorkError> {
        let share = Arc::new(self.open().await?);
        let _place = self.hold.shelf.put(&self.request.broadcast_id, Arc::clone(&share));
        if self.request.source {
            self.job.ready();
        } else {
            self.job.run();
        }
        info!(path = self.request.path, bytes = self.layout.bytes(), "takes part");
        let mut opened = Some(Event::Opened(share.holding()));
        let mut kept = self.request.source || self.request.cached;
        let mut asked = share.feeds();
        let mut caching = JoinSet::new();
        let mut whole = share.whole();
        let (connected, mut connections) = mpsc::unbounded_channel();
        let mut feeds = Feeds {
            tasks: JoinSet::new(),
            open: BTreeMap::new(),
            connected,
        };
        let (refused, mut refusals) = mpsc::unbounded_channel();
        let fetcher = Fetcher::new(&self.plane, &self.hold, &share, &self.request, refused);
        let fetching = async {
            if self.request.fetches {
                // Boxed: four conversations at a time make a large future.
                Box::pin(fetcher.run()).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::pin!(fetching);
        let period = self.request.report_s.clamp(*REPORT_S.start(), *REPORT_S.end());
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(period));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Some(event) = opened.take() {
                say(replies, event).await?;
            }
            if !kept && *whole.borrow_and_update() {
                share.keep()?;
                kept = true;
                say(replies, Event::Progress(share.holding())).await?;
                info!("has the whole object");
                caching.spawn(self.cached(&share));
            }
            tokio::select! {
                () = &mut fetching => {}
                Ok(()) = asked.changed() => {
                    let wanted = asked.borrow_and_update().clone();
                    self.splice(&share, &mut feeds, wanted);
                }
                Ok(()) = whole.changed(), if !kept => {}
                Some(_) = caching.join_next() => {
                    let checksum = checksum(&self.hashes).to_vec();
                    say(replies, Event::Kept(Kept { checksum })).await?;
                }
                Some(broken) = refusals.recv() => {
                    info!(parent = broken.parent, error = broken.error, "a peer refuses to serve blocks");
                    say(replies, Event::Broken(broken)).await?;
                }
                Some(parent) = connections.recv() => say(replies, Event::Connected(FeedConnected { parent })).await?,
                Some(ended) = feeds.tasks.join_next() => {
                    if let Ok((parent, Err(error))) = ended {
                        feeds.open.remove(&parent);
                        if matches!(error, WorkError::File { .. }) {
                            return Err(error);
                        }
                        info!(parent, %error, "a parent no longer serves blocks");
                        let mut broken = FeedBroken { parent, error: error.to_string(), ..FeedBroken::default() };
                        broken.set_failure(error.failure());
                        say(replies, Event::Broken(broken)).await?;
                    }
                }
                _ = ticks.tick() => say(replies, Event::Progress(share.holding())).await?,
            }
        }
    }

    async fn open(&self) -> Result<Share, WorkError> {
        let mut replica = Replica::new(self.layout, self.hashes.to_vec())
            .ok_or_else(|| WorkError::Request("manifest: it needs one hash per block".into()))?;
        let (path, source, only_cached) = (self.request.path.clone(), self.request.source, self.request.cached);
        let (cache, hashes) = (self.cache.clone(), Arc::clone(&self.hashes));
        let manifest = self.request.manifest.clone().unwrap_or_default();
        let opening = apart(move || {
            let mut cached_bytes = 0;
            let store = match cache {
                _ if source => {
                    replica.own();
                    Store::source(&path, &manifest)?
                }
                Some(cache) if only_cached => Store::cached(&cache, &hashes, &mut replica),
                Some(cache) => {
                    let store = Store::copy(&path, &manifest, &mut replica)?;
                    cached_bytes = store.fill(&cache, &hashes, &mut replica)?;
                    store
                }
                None => Store::copy(&path, &manifest, &mut replica)?,
            };
            Ok((store, replica, cached_bytes))
        });
        let (store, replica, cached_bytes) = opening.await?;
        let mut share = Share::new(store, replica, self.request.piece_bytes, self.job.watch());
        share.cached_bytes = cached_bytes;
        share.encrypted = self.request.encrypt;
        Ok(share)
    }

    /// Adds the complete copy to the cache. The copy is right even if that fails.
    fn cached(&self, share: &Arc<Share>) -> impl Future<Output = ()> + use<> {
        let (cache, hashes, share) = (self.cache.clone(), Arc::clone(&self.hashes), Arc::clone(share));
        async move {
            let Some(cache) = cache else { return };
            if let Err(error) = apart(move || share.cache(&cache, &hashes)).await {
                warn!(%error, "could not add the copy to the cache");
            }
        }
    }

    /// Changes to other feeds. A feed from the same parent continues.
    fn splice(&self, share: &Arc<Share>, feeds: &mut Feeds, wanted: Vec<Feed>) {
        let mut wanted: BTreeMap<String, Feed> = wanted.into_iter().map(|feed| (feed.parent.clone(), feed)).collect();
        feeds.open.retain(|parent, (current, task)| {
            let Some(feed) = wanted.remove(parent) else {
                task.abort();
                return false;
            };
            current.send_if_modified(|current| {
                let changed = *current != feed;
                *current = feed;
                changed
            });
            true
        });
        for (parent, feed) in wanted {
            let subscriber = Subscriber {
                plane: Arc::clone(&self.plane),
                hold: Arc::clone(&self.hold),
                share: Arc::clone(share),
                broadcast_id: self.request.broadcast_id.clone(),
                congestion: self.request.congestion.clone(),
                parent: parent.clone(),
                connected: feeds.connected.clone(),
            };
            let (current, feed) = watch::channel(feed);
            let name = parent.clone();
            let work = async move { (name, subscriber.run(feed).await) };
            let task = feeds.tasks.spawn(work.in_current_span());
            feeds.open.insert(parent, (current, task));
        }
    }
}

async fn say(replies: &Replies, event: Event) -> Result<(), WorkError> {
    let sent = replies.send(Ok(BroadcastReply { event: Some(event) })).await;
    sent.map_err(|_| WorkError::Over)
}
