"""Types of the contents of pages, which the JSON interface returns too."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Shown(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True)


class SnapshotRow(Shown):
    """One measurement of a network.

    Attributes:
        time_s: Unix time.
        method: how it was measured; empty = not known.
        hosts: number of hosts.
        pairs: number of directed pairs with a rate.
        rate_bps: median rate of these pairs, TCP goodput; None = there is none.
        latency_s: median latency; None = there is none.
    """

    time_s: float
    method: str
    hosts: int
    pairs: int
    rate_bps: float | None
    latency_s: float | None


class NetworkRow(Shown):
    """A network as it was measured over time.

    Attributes:
        name: its series in the store.
        hosts: number of hosts.
        snapshots: number of measurements.
        first_s: Unix time of the first one.
        last_s: Unix time of the last one.
        rate_bps: median over measurements of the median rate; None = there is none.
        latency_s: the same of latencies.
    """

    name: str
    hosts: int
    snapshots: int
    first_s: float
    last_s: float
    rate_bps: float | None
    latency_s: float | None


class NetworkDetail(NetworkRow):
    """A network with its hosts and its measurements, oldest first."""

    host_names: list[str]
    measurements: list[SnapshotRow]


class PairPoint(Shown):
    """One measurement of a pair of hosts.

    Attributes:
        time_s: Unix time.
        rate_bps: from source to target, TCP goodput; None = not measured.
        back_bps: from target to source.
        latency_s: round trip without load; None = not measured.
    """

    time_s: float
    rate_bps: float | None
    back_bps: float | None
    latency_s: float | None


class Pair(Shown):
    """A pair of hosts over time, oldest measurement first."""

    network: str
    source: str
    target: str
    measurements: list[PairPoint]


class RunRow(Shown):
    """One run of a job by `gavotte launch`.

    Attributes:
        time_s: Unix time of its start.
        wall_s: its wall time.
        predicted_s: the wall time that was predicted for it; None = it was the first run.
        low_s: lower end of the prediction's 95 % interval.
        high_s: upper end of it.
        default_predicted_s: wall time that was predicted for the launcher's own order.
        status: exit status; 0 = success.
        placed: whether its ranks were in an order of Gavotte's.
        order: host of each rank.
    """

    time_s: float
    wall_s: float
    predicted_s: float | None
    low_s: float | None
    high_s: float | None
    default_predicted_s: float | None
    status: int
    placed: bool
    order: list[str]


class JobRow(Shown):
    """A job that `gavotte launch` has run.

    Attributes:
        job: its key.
        command: its command line.
        ranks: number of ranks of its last run.
        launcher: the program that starts them.
        runs: its runs, oldest first.
        typed: the launcher's command line of its last run, as it was typed; empty = not known.
        folder: where that run was started; empty = not known.
    """

    job: str
    command: str
    ranks: int
    launcher: str
    runs: list[RunRow]
    typed: str = ""
    folder: str = ""


class FlowRow(Shown):
    """Bytes from one host to another, and how many of them have been sent."""

    source: str
    target: str
    bytes: int
    moved_bytes: int


class TransferRow(Shown):
    """A transfer of the controller's queue.

    Attributes:
        id: its number.
        kind: `shuffle` or `broadcast`.
        name: for people.
        user: its owner.
        state: `queued`, `running`, `done`, `failed` or `cancelled`.
        bytes: payload of all flows.
        moved_bytes: payload that has been sent.
        submitted_s: Unix time.
        finished_s: Unix time; None = it is not over.
        deadline_s: seconds after its submission by which it has to be done; None = no deadline.
        in_time: whether it was; None = no deadline, or not over.
        error: why it failed.
        flows: progress of each flow.
    """

    id: int
    kind: str
    name: str
    user: str
    state: str
    bytes: int
    moved_bytes: int
    submitted_s: float
    finished_s: float | None
    deadline_s: float | None
    in_time: bool | None
    error: str
    flows: list[FlowRow]


class EventRow(Shown):
    """An event of `gavotte watch`.

    Attributes:
        time_s: Unix time.
        event: `moved`, `renewed`, `false-alarm`, `came` or `gone`.
        hosts: the hosts concerned.
        pairs: number of pairs concerned.
        text: the event in words.
        advice: whether to place again; empty = no application is placed.
    """

    time_s: float
    event: str
    hosts: list[str]
    pairs: int
    text: str
    advice: str


class KindRow(Shown):
    """Measured values of one kind: a campaign, runs of placements, or another activity."""

    kind: str
    records: int
    metrics: list[str]
    first_s: float
    last_s: float


class ValuePoint(Shown):
    """One measured value at a Unix time."""

    time_s: float
    value: float


class MetricRow(Shown):
    """The newest values of one quantity, oldest first, with their median and extremes in its own unit."""

    metric: str
    median: float
    least: float
    most: float
    values: list[ValuePoint]


class KindDetail(KindRow):
    """A kind with the newest values of each of its quantities."""

    quantities: list[MetricRow]
