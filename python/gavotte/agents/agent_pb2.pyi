from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Failure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_UNSPECIFIED: _ClassVar[Failure]
    FAILURE_INVALID: _ClassVar[Failure]
    FAILURE_OVER_BUDGET: _ClassVar[Failure]
    FAILURE_OVER: _ClassVar[Failure]
    FAILURE_DROPPED: _ClassVar[Failure]
    FAILURE_UNREACHABLE: _ClassVar[Failure]
    FAILURE_VANISHED: _ClassVar[Failure]
    FAILURE_REFUSED: _ClassVar[Failure]
    FAILURE_CONGESTION: _ClassVar[Failure]
    FAILURE_LACKING: _ClassVar[Failure]
    FAILURE_NO_RATE: _ClassVar[Failure]
    FAILURE_LATE: _ClassVar[Failure]
    FAILURE_RECEIVER: _ClassVar[Failure]
    FAILURE_BROKEN: _ClassVar[Failure]
    FAILURE_HELD: _ClassVar[Failure]
    FAILURE_NOT_ENROLLED: _ClassVar[Failure]
    FAILURE_EXISTS: _ClassVar[Failure]
    FAILURE_UNKNOWN_JOB: _ClassVar[Failure]
    FAILURE_NOT_READY: _ClassVar[Failure]
    FAILURE_FULL: _ClassVar[Failure]
    FAILURE_FILE: _ClassVar[Failure]
    FAILURE_NO_UDP: _ClassVar[Failure]

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_EXCLUSIVE: _ClassVar[Mode]
    MODE_SHARED: _ClassVar[Mode]

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_CONNECTING: _ClassVar[JobState]
    JOB_STATE_READY: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]

class BulkEngine(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BULK_ENGINE_OWN: _ClassVar[BulkEngine]
    BULK_ENGINE_IPERF3: _ClassVar[BulkEngine]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_PATH_LIMITED: _ClassVar[Verdict]
    VERDICT_HOST_LIMITED: _ClassVar[Verdict]
    VERDICT_BUCKET_NOT_EXHAUSTED: _ClassVar[Verdict]

class GatedRefusal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GATED_REFUSAL_UNSPECIFIED: _ClassVar[GatedRefusal]
    GATED_REFUSAL_SILENT: _ClassVar[GatedRefusal]
    GATED_REFUSAL_CLOCK_STEPPED: _ClassVar[GatedRefusal]
    GATED_REFUSAL_TOO_SHORT: _ClassVar[GatedRefusal]
    GATED_REFUSAL_UNSTEADY: _ClassVar[GatedRefusal]

class Reception(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECEPTION_UNSPECIFIED: _ClassVar[Reception]
    RECEPTION_ANSWERED: _ClassVar[Reception]
    RECEPTION_REFUSED: _ClassVar[Reception]
    RECEPTION_SILENT: _ClassVar[Reception]
    RECEPTION_UNREACHABLE: _ClassVar[Reception]
    RECEPTION_FORBIDDEN: _ClassVar[Reception]
    RECEPTION_TURNED_AWAY: _ClassVar[Reception]

class GuardMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GUARD_MODE_ECN: _ClassVar[GuardMode]
    GUARD_MODE_LOSS: _ClassVar[GuardMode]
    GUARD_MODE_AUTO: _ClassVar[GuardMode]

class GuardRemains(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GUARD_REMAINS_NOTHING: _ClassVar[GuardRemains]
    GUARD_REMAINS_STATIC: _ClassVar[GuardRemains]
FAILURE_UNSPECIFIED: Failure
FAILURE_INVALID: Failure
FAILURE_OVER_BUDGET: Failure
FAILURE_OVER: Failure
FAILURE_DROPPED: Failure
FAILURE_UNREACHABLE: Failure
FAILURE_VANISHED: Failure
FAILURE_REFUSED: Failure
FAILURE_CONGESTION: Failure
FAILURE_LACKING: Failure
FAILURE_NO_RATE: Failure
FAILURE_LATE: Failure
FAILURE_RECEIVER: Failure
FAILURE_BROKEN: Failure
FAILURE_HELD: Failure
FAILURE_NOT_ENROLLED: Failure
FAILURE_EXISTS: Failure
FAILURE_UNKNOWN_JOB: Failure
FAILURE_NOT_READY: Failure
FAILURE_FULL: Failure
FAILURE_FILE: Failure
FAILURE_NO_UDP: Failure
MODE_EXCLUSIVE: Mode
MODE_SHARED: Mode
JOB_STATE_CONNECTING: JobState
JOB_STATE_READY: JobState
JOB_STATE_RUNNING: JobState
BULK_ENGINE_OWN: BulkEngine
BULK_ENGINE_IPERF3: BulkEngine
VERDICT_UNSPECIFIED: Verdict
VERDICT_PATH_LIMITED: Verdict
VERDICT_HOST_LIMITED: Verdict
VERDICT_BUCKET_NOT_EXHAUSTED: Verdict
GATED_REFUSAL_UNSPECIFIED: GatedRefusal
GATED_REFUSAL_SILENT: GatedRefusal
GATED_REFUSAL_CLOCK_STEPPED: GatedRefusal
GATED_REFUSAL_TOO_SHORT: GatedRefusal
GATED_REFUSAL_UNSTEADY: GatedRefusal
RECEPTION_UNSPECIFIED: Reception
RECEPTION_ANSWERED: Reception
RECEPTION_REFUSED: Reception
RECEPTION_SILENT: Reception
RECEPTION_UNREACHABLE: Reception
RECEPTION_FORBIDDEN: Reception
RECEPTION_TURNED_AWAY: Reception
GUARD_MODE_ECN: GuardMode
GUARD_MODE_LOSS: GuardMode
GUARD_MODE_AUTO: GuardMode
GUARD_REMAINS_NOTHING: GuardRemains
GUARD_REMAINS_STATIC: GuardRemains

class HealthRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HealthReply(_message.Message):
    __slots__ = ("version", "protocol", "hostname", "kernel", "cpus", "memory_bytes", "congestion", "congestion_available", "data_port", "unix_time_ns", "run_id", "load_1min", "lacking", "cpu_quota", "stolen")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    DATA_PORT_FIELD_NUMBER: _ClassVar[int]
    UNIX_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    LOAD_1MIN_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    CPU_QUOTA_FIELD_NUMBER: _ClassVar[int]
    STOLEN_FIELD_NUMBER: _ClassVar[int]
    version: str
    protocol: int
    hostname: str
    kernel: str
    cpus: float
    memory_bytes: int
    congestion: str
    congestion_available: _containers.RepeatedScalarFieldContainer[str]
    data_port: int
    unix_time_ns: int
    run_id: str
    load_1min: float
    lacking: _containers.RepeatedScalarFieldContainer[str]
    cpu_quota: float
    stolen: float
    def __init__(self, version: _Optional[str] = ..., protocol: _Optional[int] = ..., hostname: _Optional[str] = ..., kernel: _Optional[str] = ..., cpus: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., congestion: _Optional[str] = ..., congestion_available: _Optional[_Iterable[str]] = ..., data_port: _Optional[int] = ..., unix_time_ns: _Optional[int] = ..., run_id: _Optional[str] = ..., load_1min: _Optional[float] = ..., lacking: _Optional[_Iterable[str]] = ..., cpu_quota: _Optional[float] = ..., stolen: _Optional[float] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: int
    def __init__(self, entries: _Optional[int] = ...) -> None: ...

class LogsReply(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, entries: _Optional[_Iterable[str]] = ...) -> None: ...

class Peer(_message.Message):
    __slots__ = ("name", "address", "data_port", "origins")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DATA_PORT_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    data_port: int
    origins: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., data_port: _Optional[int] = ..., origins: _Optional[_Iterable[str]] = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("max_bytes", "max_seconds")
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_SECONDS_FIELD_NUMBER: _ClassVar[int]
    max_bytes: int
    max_seconds: float
    def __init__(self, max_bytes: _Optional[int] = ..., max_seconds: _Optional[float] = ...) -> None: ...

class EnrolRequest(_message.Message):
    __slots__ = ("run_id", "secret", "self", "peers", "budget", "mode", "purpose", "user", "lease_s", "take_over", "letter_key")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    SELF_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    TAKE_OVER_FIELD_NUMBER: _ClassVar[int]
    LETTER_KEY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    secret: bytes
    self: str
    peers: _containers.RepeatedCompositeFieldContainer[Peer]
    budget: Budget
    mode: Mode
    purpose: str
    user: str
    lease_s: float
    take_over: bool
    letter_key: bytes
    def __init__(self_, run_id: _Optional[str] = ..., secret: _Optional[bytes] = ..., self: _Optional[str] = ..., peers: _Optional[_Iterable[_Union[Peer, _Mapping]]] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., mode: _Optional[_Union[Mode, str]] = ..., purpose: _Optional[str] = ..., user: _Optional[str] = ..., lease_s: _Optional[float] = ..., take_over: bool = ..., letter_key: _Optional[bytes] = ...) -> None: ...

class EnrolReply(_message.Message):
    __slots__ = ("budget",)
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    budget: Budget
    def __init__(self, budget: _Optional[_Union[Budget, _Mapping]] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class RenewReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AttendRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class AttendReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("holds", "beside")
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    BESIDE_FIELD_NUMBER: _ClassVar[int]
    holds: _containers.RepeatedCompositeFieldContainer[HoldStatus]
    beside: _containers.RepeatedCompositeFieldContainer[Neighbour]
    def __init__(self, holds: _Optional[_Iterable[_Union[HoldStatus, _Mapping]]] = ..., beside: _Optional[_Iterable[_Union[Neighbour, _Mapping]]] = ...) -> None: ...

class HoldStatus(_message.Message):
    __slots__ = ("run_id", "user", "purpose", "mode", "age_s", "left_s", "bytes_sent", "jobs", "lease_left_s")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    LEFT_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    LEASE_LEFT_S_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    user: str
    purpose: str
    mode: Mode
    age_s: float
    left_s: float
    bytes_sent: int
    jobs: _containers.RepeatedCompositeFieldContainer[JobStatus]
    lease_left_s: float
    def __init__(self, run_id: _Optional[str] = ..., user: _Optional[str] = ..., purpose: _Optional[str] = ..., mode: _Optional[_Union[Mode, str]] = ..., age_s: _Optional[float] = ..., left_s: _Optional[float] = ..., bytes_sent: _Optional[int] = ..., jobs: _Optional[_Iterable[_Union[JobStatus, _Mapping]]] = ..., lease_left_s: _Optional[float] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("id", "kind", "state")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    state: JobState
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ...) -> None: ...

class Neighbour(_message.Message):
    __slots__ = ("run_id", "user", "purpose", "kind")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    user: str
    purpose: str
    kind: str
    def __init__(self, run_id: _Optional[str] = ..., user: _Optional[str] = ..., purpose: _Optional[str] = ..., kind: _Optional[str] = ...) -> None: ...

class BurstTrain(_message.Message):
    __slots__ = ("bursts", "packets", "payload_bytes", "gap_s")
    BURSTS_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    GAP_S_FIELD_NUMBER: _ClassVar[int]
    bursts: int
    packets: int
    payload_bytes: int
    gap_s: float
    def __init__(self, bursts: _Optional[int] = ..., packets: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., gap_s: _Optional[float] = ...) -> None: ...

class Bulk(_message.Message):
    __slots__ = ("seconds", "flows", "congestion", "bin_s", "engine", "copy", "max_bytes", "settled", "mtu_bytes")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_FIELD_NUMBER: _ClassVar[int]
    BIN_S_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    COPY_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    MTU_BYTES_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    flows: int
    congestion: str
    bin_s: float
    engine: BulkEngine
    copy: bool
    max_bytes: int
    settled: bool
    mtu_bytes: int
    def __init__(self, seconds: _Optional[float] = ..., flows: _Optional[int] = ..., congestion: _Optional[str] = ..., bin_s: _Optional[float] = ..., engine: _Optional[_Union[BulkEngine, str]] = ..., copy: bool = ..., max_bytes: _Optional[int] = ..., settled: bool = ..., mtu_bytes: _Optional[int] = ...) -> None: ...

class GatedTrain(_message.Message):
    __slots__ = ("payload_bytes", "max_bytes", "max_seconds", "hold_s", "keep_trace", "pause_s")
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_SECONDS_FIELD_NUMBER: _ClassVar[int]
    HOLD_S_FIELD_NUMBER: _ClassVar[int]
    KEEP_TRACE_FIELD_NUMBER: _ClassVar[int]
    PAUSE_S_FIELD_NUMBER: _ClassVar[int]
    payload_bytes: int
    max_bytes: int
    max_seconds: float
    hold_s: float
    keep_trace: bool
    pause_s: float
    def __init__(self, payload_bytes: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_seconds: _Optional[float] = ..., hold_s: _Optional[float] = ..., keep_trace: bool = ..., pause_s: _Optional[float] = ...) -> None: ...

class PingPong(_message.Message):
    __slots__ = ("bytes", "repetitions", "congestion")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    REPETITIONS_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_FIELD_NUMBER: _ClassVar[int]
    bytes: _containers.RepeatedScalarFieldContainer[int]
    repetitions: int
    congestion: str
    def __init__(self, bytes: _Optional[_Iterable[int]] = ..., repetitions: _Optional[int] = ..., congestion: _Optional[str] = ...) -> None: ...

class Traceroute(_message.Message):
    __slots__ = ("max_hops", "tries", "timeout_s")
    MAX_HOPS_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    max_hops: int
    tries: int
    timeout_s: float
    def __init__(self, max_hops: _Optional[int] = ..., tries: _Optional[int] = ..., timeout_s: _Optional[float] = ...) -> None: ...

class Datagrams(_message.Message):
    __slots__ = ("seconds", "rate_bps", "payload_bytes", "bin_s")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    BIN_S_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    rate_bps: float
    payload_bytes: int
    bin_s: float
    def __init__(self, seconds: _Optional[float] = ..., rate_bps: _Optional[float] = ..., payload_bytes: _Optional[int] = ..., bin_s: _Optional[float] = ...) -> None: ...

class Echo(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...

class Probe(_message.Message):
    __slots__ = ("round", "peer", "burst_train", "bulk", "gated_train", "ping_pong", "traceroute", "echo", "datagrams")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    BURST_TRAIN_FIELD_NUMBER: _ClassVar[int]
    BULK_FIELD_NUMBER: _ClassVar[int]
    GATED_TRAIN_FIELD_NUMBER: _ClassVar[int]
    PING_PONG_FIELD_NUMBER: _ClassVar[int]
    TRACEROUTE_FIELD_NUMBER: _ClassVar[int]
    ECHO_FIELD_NUMBER: _ClassVar[int]
    DATAGRAMS_FIELD_NUMBER: _ClassVar[int]
    round: int
    peer: str
    burst_train: BurstTrain
    bulk: Bulk
    gated_train: GatedTrain
    ping_pong: PingPong
    traceroute: Traceroute
    echo: Echo
    datagrams: Datagrams
    def __init__(self, round: _Optional[int] = ..., peer: _Optional[str] = ..., burst_train: _Optional[_Union[BurstTrain, _Mapping]] = ..., bulk: _Optional[_Union[Bulk, _Mapping]] = ..., gated_train: _Optional[_Union[GatedTrain, _Mapping]] = ..., ping_pong: _Optional[_Union[PingPong, _Mapping]] = ..., traceroute: _Optional[_Union[Traceroute, _Mapping]] = ..., echo: _Optional[_Union[Echo, _Mapping]] = ..., datagrams: _Optional[_Union[Datagrams, _Mapping]] = ...) -> None: ...

class MeasureRequest(_message.Message):
    __slots__ = ("run_id", "probes", "receives", "wait_s", "rounds")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PROBES_FIELD_NUMBER: _ClassVar[int]
    RECEIVES_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    probes: _containers.RepeatedCompositeFieldContainer[Probe]
    receives: _containers.RepeatedCompositeFieldContainer[Expect]
    wait_s: float
    rounds: int
    def __init__(self, run_id: _Optional[str] = ..., probes: _Optional[_Iterable[_Union[Probe, _Mapping]]] = ..., receives: _Optional[_Iterable[_Union[Expect, _Mapping]]] = ..., wait_s: _Optional[float] = ..., rounds: _Optional[int] = ...) -> None: ...

class Expect(_message.Message):
    __slots__ = ("round", "peer")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    round: int
    peer: str
    def __init__(self, round: _Optional[int] = ..., peer: _Optional[str] = ...) -> None: ...

class Burst(_message.Message):
    __slots__ = ("received", "first_seq", "last_seq", "span_s")
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    SPAN_S_FIELD_NUMBER: _ClassVar[int]
    received: int
    first_seq: int
    last_seq: int
    span_s: float
    def __init__(self, received: _Optional[int] = ..., first_seq: _Optional[int] = ..., last_seq: _Optional[int] = ..., span_s: _Optional[float] = ...) -> None: ...

class BurstTrainResult(_message.Message):
    __slots__ = ("sent", "received", "bursts", "rate_bps", "mathis_bps", "overflow", "payload_bytes", "wire_bytes")
    SENT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    BURSTS_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    MATHIS_BPS_FIELD_NUMBER: _ClassVar[int]
    OVERFLOW_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    WIRE_BYTES_FIELD_NUMBER: _ClassVar[int]
    sent: int
    received: int
    bursts: _containers.RepeatedCompositeFieldContainer[Burst]
    rate_bps: float
    mathis_bps: float
    overflow: int
    payload_bytes: int
    wire_bytes: int
    def __init__(self, sent: _Optional[int] = ..., received: _Optional[int] = ..., bursts: _Optional[_Iterable[_Union[Burst, _Mapping]]] = ..., rate_bps: _Optional[float] = ..., mathis_bps: _Optional[float] = ..., overflow: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., wire_bytes: _Optional[int] = ...) -> None: ...

class GatedTrainResult(_message.Message):
    __slots__ = ("verdict", "refusal", "rate_bps", "low_bps", "high_bps", "peak_bps", "peak_saturated", "bucket_bytes", "loss", "blocks", "saturated_s", "wire_bytes", "payload_bytes", "sent", "received", "overflow", "seconds", "segments", "first_unix_ns", "bin_s", "bin_bytes", "trace", "refused", "policed", "unqueued", "unqueued_lost")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    LOW_BPS_FIELD_NUMBER: _ClassVar[int]
    HIGH_BPS_FIELD_NUMBER: _ClassVar[int]
    PEAK_BPS_FIELD_NUMBER: _ClassVar[int]
    PEAK_SATURATED_FIELD_NUMBER: _ClassVar[int]
    BUCKET_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    SATURATED_S_FIELD_NUMBER: _ClassVar[int]
    WIRE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    OVERFLOW_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    FIRST_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    BIN_S_FIELD_NUMBER: _ClassVar[int]
    BIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    POLICED_FIELD_NUMBER: _ClassVar[int]
    UNQUEUED_FIELD_NUMBER: _ClassVar[int]
    UNQUEUED_LOST_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    refusal: str
    rate_bps: float
    low_bps: float
    high_bps: float
    peak_bps: float
    peak_saturated: bool
    bucket_bytes: float
    loss: float
    blocks: int
    saturated_s: float
    wire_bytes: int
    payload_bytes: int
    sent: int
    received: int
    overflow: int
    seconds: float
    segments: int
    first_unix_ns: int
    bin_s: float
    bin_bytes: _containers.RepeatedScalarFieldContainer[int]
    trace: bytes
    refused: GatedRefusal
    policed: bool
    unqueued: int
    unqueued_lost: int
    def __init__(self, verdict: _Optional[_Union[Verdict, str]] = ..., refusal: _Optional[str] = ..., rate_bps: _Optional[float] = ..., low_bps: _Optional[float] = ..., high_bps: _Optional[float] = ..., peak_bps: _Optional[float] = ..., peak_saturated: bool = ..., bucket_bytes: _Optional[float] = ..., loss: _Optional[float] = ..., blocks: _Optional[int] = ..., saturated_s: _Optional[float] = ..., wire_bytes: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., sent: _Optional[int] = ..., received: _Optional[int] = ..., overflow: _Optional[int] = ..., seconds: _Optional[float] = ..., segments: _Optional[int] = ..., first_unix_ns: _Optional[int] = ..., bin_s: _Optional[float] = ..., bin_bytes: _Optional[_Iterable[int]] = ..., trace: _Optional[bytes] = ..., refused: _Optional[_Union[GatedRefusal, str]] = ..., policed: bool = ..., unqueued: _Optional[int] = ..., unqueued_lost: _Optional[int] = ...) -> None: ...

class SizeTimes(_message.Message):
    __slots__ = ("bytes", "seconds")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    seconds: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, bytes: _Optional[int] = ..., seconds: _Optional[_Iterable[float]] = ...) -> None: ...

class PingPongResult(_message.Message):
    __slots__ = ("sizes", "congestion", "retransmits")
    SIZES_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_FIELD_NUMBER: _ClassVar[int]
    RETRANSMITS_FIELD_NUMBER: _ClassVar[int]
    sizes: _containers.RepeatedCompositeFieldContainer[SizeTimes]
    congestion: str
    retransmits: int
    def __init__(self, sizes: _Optional[_Iterable[_Union[SizeTimes, _Mapping]]] = ..., congestion: _Optional[str] = ..., retransmits: _Optional[int] = ...) -> None: ...

class Hop(_message.Message):
    __slots__ = ("address", "rtt_s")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RTT_S_FIELD_NUMBER: _ClassVar[int]
    address: str
    rtt_s: float
    def __init__(self, address: _Optional[str] = ..., rtt_s: _Optional[float] = ...) -> None: ...

class TracerouteResult(_message.Message):
    __slots__ = ("hops", "reached")
    HOPS_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    hops: _containers.RepeatedCompositeFieldContainer[Hop]
    reached: bool
    def __init__(self, hops: _Optional[_Iterable[_Union[Hop, _Mapping]]] = ..., reached: bool = ...) -> None: ...

class EchoResult(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    def __init__(self, seconds: _Optional[float] = ...) -> None: ...

class DatagramsResult(_message.Message):
    __slots__ = ("sent", "received", "repeated", "late", "overflow", "payload_bytes", "seconds", "jitter_s", "least_delay_s", "median_delay_s", "high_delay_s", "most_delay_s", "clock_ahead_s", "clock_error_s", "bin_bytes")
    SENT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    OVERFLOW_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    JITTER_S_FIELD_NUMBER: _ClassVar[int]
    LEAST_DELAY_S_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_DELAY_S_FIELD_NUMBER: _ClassVar[int]
    HIGH_DELAY_S_FIELD_NUMBER: _ClassVar[int]
    MOST_DELAY_S_FIELD_NUMBER: _ClassVar[int]
    CLOCK_AHEAD_S_FIELD_NUMBER: _ClassVar[int]
    CLOCK_ERROR_S_FIELD_NUMBER: _ClassVar[int]
    BIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    sent: int
    received: int
    repeated: int
    late: int
    overflow: int
    payload_bytes: int
    seconds: float
    jitter_s: float
    least_delay_s: float
    median_delay_s: float
    high_delay_s: float
    most_delay_s: float
    clock_ahead_s: float
    clock_error_s: float
    bin_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, sent: _Optional[int] = ..., received: _Optional[int] = ..., repeated: _Optional[int] = ..., late: _Optional[int] = ..., overflow: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., seconds: _Optional[float] = ..., jitter_s: _Optional[float] = ..., least_delay_s: _Optional[float] = ..., median_delay_s: _Optional[float] = ..., high_delay_s: _Optional[float] = ..., most_delay_s: _Optional[float] = ..., clock_ahead_s: _Optional[float] = ..., clock_error_s: _Optional[float] = ..., bin_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class FlowResult(_message.Message):
    __slots__ = ("bytes", "seconds", "bin_bytes", "retransmits", "rtt_s", "congestion", "cwnd_bytes", "min_rtt_s", "delivery_rate_bps", "started_s", "segment_bytes")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    RETRANSMITS_FIELD_NUMBER: _ClassVar[int]
    RTT_S_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_FIELD_NUMBER: _ClassVar[int]
    CWND_BYTES_FIELD_NUMBER: _ClassVar[int]
    MIN_RTT_S_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    STARTED_S_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    seconds: float
    bin_bytes: _containers.RepeatedScalarFieldContainer[int]
    retransmits: int
    rtt_s: float
    congestion: str
    cwnd_bytes: int
    min_rtt_s: float
    delivery_rate_bps: float
    started_s: float
    segment_bytes: int
    def __init__(self, bytes: _Optional[int] = ..., seconds: _Optional[float] = ..., bin_bytes: _Optional[_Iterable[int]] = ..., retransmits: _Optional[int] = ..., rtt_s: _Optional[float] = ..., congestion: _Optional[str] = ..., cwnd_bytes: _Optional[int] = ..., min_rtt_s: _Optional[float] = ..., delivery_rate_bps: _Optional[float] = ..., started_s: _Optional[float] = ..., segment_bytes: _Optional[int] = ...) -> None: ...

class BulkResult(_message.Message):
    __slots__ = ("goodput_bps", "flows")
    GOODPUT_BPS_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    goodput_bps: float
    flows: _containers.RepeatedCompositeFieldContainer[FlowResult]
    def __init__(self, goodput_bps: _Optional[float] = ..., flows: _Optional[_Iterable[_Union[FlowResult, _Mapping]]] = ...) -> None: ...

class Withheld(_message.Message):
    __slots__ = ("seconds", "throttled_s", "quota_cpus", "stolen_s", "waited_s")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_S_FIELD_NUMBER: _ClassVar[int]
    QUOTA_CPUS_FIELD_NUMBER: _ClassVar[int]
    STOLEN_S_FIELD_NUMBER: _ClassVar[int]
    WAITED_S_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    throttled_s: float
    quota_cpus: float
    stolen_s: float
    waited_s: float
    def __init__(self, seconds: _Optional[float] = ..., throttled_s: _Optional[float] = ..., quota_cpus: _Optional[float] = ..., stolen_s: _Optional[float] = ..., waited_s: _Optional[float] = ...) -> None: ...

class ProbeReply(_message.Message):
    __slots__ = ("round", "peer", "rtt_s", "hops", "started_s", "seconds", "bytes_sent", "error", "burst_train", "bulk", "gated_train", "ping_pong", "traceroute", "echo", "datagrams", "sender_cpu", "receiver_cpu", "failure", "mtu_bytes", "mtu_confirmed", "awaited", "sender_withheld", "receiver_withheld")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    RTT_S_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    STARTED_S_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BURST_TRAIN_FIELD_NUMBER: _ClassVar[int]
    BULK_FIELD_NUMBER: _ClassVar[int]
    GATED_TRAIN_FIELD_NUMBER: _ClassVar[int]
    PING_PONG_FIELD_NUMBER: _ClassVar[int]
    TRACEROUTE_FIELD_NUMBER: _ClassVar[int]
    ECHO_FIELD_NUMBER: _ClassVar[int]
    DATAGRAMS_FIELD_NUMBER: _ClassVar[int]
    SENDER_CPU_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_CPU_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    MTU_BYTES_FIELD_NUMBER: _ClassVar[int]
    MTU_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    AWAITED_FIELD_NUMBER: _ClassVar[int]
    SENDER_WITHHELD_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_WITHHELD_FIELD_NUMBER: _ClassVar[int]
    round: int
    peer: str
    rtt_s: float
    hops: int
    started_s: float
    seconds: float
    bytes_sent: int
    error: str
    burst_train: BurstTrainResult
    bulk: BulkResult
    gated_train: GatedTrainResult
    ping_pong: PingPongResult
    traceroute: TracerouteResult
    echo: EchoResult
    datagrams: DatagramsResult
    sender_cpu: float
    receiver_cpu: float
    failure: Failure
    mtu_bytes: int
    mtu_confirmed: bool
    awaited: bool
    sender_withheld: Withheld
    receiver_withheld: Withheld
    def __init__(self, round: _Optional[int] = ..., peer: _Optional[str] = ..., rtt_s: _Optional[float] = ..., hops: _Optional[int] = ..., started_s: _Optional[float] = ..., seconds: _Optional[float] = ..., bytes_sent: _Optional[int] = ..., error: _Optional[str] = ..., burst_train: _Optional[_Union[BurstTrainResult, _Mapping]] = ..., bulk: _Optional[_Union[BulkResult, _Mapping]] = ..., gated_train: _Optional[_Union[GatedTrainResult, _Mapping]] = ..., ping_pong: _Optional[_Union[PingPongResult, _Mapping]] = ..., traceroute: _Optional[_Union[TracerouteResult, _Mapping]] = ..., echo: _Optional[_Union[EchoResult, _Mapping]] = ..., datagrams: _Optional[_Union[DatagramsResult, _Mapping]] = ..., sender_cpu: _Optional[float] = ..., receiver_cpu: _Optional[float] = ..., failure: _Optional[_Union[Failure, str]] = ..., mtu_bytes: _Optional[int] = ..., mtu_confirmed: bool = ..., awaited: bool = ..., sender_withheld: _Optional[_Union[Withheld, _Mapping]] = ..., receiver_withheld: _Optional[_Union[Withheld, _Mapping]] = ...) -> None: ...

class Transfer(_message.Message):
    __slots__ = ("id", "target", "bytes", "pace_bps", "bin_s", "spread", "round_trip_s", "count_id", "encrypt")
    ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PACE_BPS_FIELD_NUMBER: _ClassVar[int]
    BIN_S_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    ROUND_TRIP_S_FIELD_NUMBER: _ClassVar[int]
    COUNT_ID_FIELD_NUMBER: _ClassVar[int]
    ENCRYPT_FIELD_NUMBER: _ClassVar[int]
    id: int
    target: str
    bytes: int
    pace_bps: int
    bin_s: float
    spread: bool
    round_trip_s: float
    count_id: int
    encrypt: bool
    def __init__(self, id: _Optional[int] = ..., target: _Optional[str] = ..., bytes: _Optional[int] = ..., pace_bps: _Optional[int] = ..., bin_s: _Optional[float] = ..., spread: bool = ..., round_trip_s: _Optional[float] = ..., count_id: _Optional[int] = ..., encrypt: bool = ...) -> None: ...

class ReplayRequest(_message.Message):
    __slots__ = ("run_id", "replay_id", "transfers", "congestion", "max_seconds", "report_s")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REPLAY_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_FIELD_NUMBER: _ClassVar[int]
    MAX_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REPORT_S_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    replay_id: str
    transfers: _containers.RepeatedCompositeFieldContainer[Transfer]
    congestion: str
    max_seconds: float
    report_s: float
    def __init__(self, run_id: _Optional[str] = ..., replay_id: _Optional[str] = ..., transfers: _Optional[_Iterable[_Union[Transfer, _Mapping]]] = ..., congestion: _Optional[str] = ..., max_seconds: _Optional[float] = ..., report_s: _Optional[float] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ("connected",)
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    connected: int
    def __init__(self, connected: _Optional[int] = ...) -> None: ...

class TransferDone(_message.Message):
    __slots__ = ("id", "start_s", "finish_s", "bytes", "retransmits", "error", "failure", "bin_bytes")
    ID_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    FINISH_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    RETRANSMITS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    BIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    id: int
    start_s: float
    finish_s: float
    bytes: int
    retransmits: int
    error: str
    failure: Failure
    bin_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, id: _Optional[int] = ..., start_s: _Optional[float] = ..., finish_s: _Optional[float] = ..., bytes: _Optional[int] = ..., retransmits: _Optional[int] = ..., error: _Optional[str] = ..., failure: _Optional[_Union[Failure, str]] = ..., bin_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class Moved(_message.Message):
    __slots__ = ("time_s", "ids", "bytes")
    TIME_S_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    time_s: float
    ids: _containers.RepeatedScalarFieldContainer[int]
    bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, time_s: _Optional[float] = ..., ids: _Optional[_Iterable[int]] = ..., bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class ReplayReply(_message.Message):
    __slots__ = ("ready", "done", "moved")
    READY_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    ready: Ready
    done: TransferDone
    moved: Moved
    def __init__(self, ready: _Optional[_Union[Ready, _Mapping]] = ..., done: _Optional[_Union[TransferDone, _Mapping]] = ..., moved: _Optional[_Union[Moved, _Mapping]] = ...) -> None: ...

class StartRequest(_message.Message):
    __slots__ = ("run_id", "replay_id")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REPLAY_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    replay_id: str
    def __init__(self, run_id: _Optional[str] = ..., replay_id: _Optional[str] = ...) -> None: ...

class StartReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PaceRequest(_message.Message):
    __slots__ = ("run_id", "replay_id", "ids", "paces_bps")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REPLAY_ID_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    PACES_BPS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    replay_id: str
    ids: _containers.RepeatedScalarFieldContainer[int]
    paces_bps: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, run_id: _Optional[str] = ..., replay_id: _Optional[str] = ..., ids: _Optional[_Iterable[int]] = ..., paces_bps: _Optional[_Iterable[int]] = ...) -> None: ...

class PaceReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DropRequest(_message.Message):
    __slots__ = ("run_id", "peer", "reason")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    peer: str
    reason: str
    def __init__(self, run_id: _Optional[str] = ..., peer: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DropReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExcuseRequest(_message.Message):
    __slots__ = ("run_id", "round", "peer")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    round: int
    peer: str
    def __init__(self, run_id: _Optional[str] = ..., round: _Optional[int] = ..., peer: _Optional[str] = ...) -> None: ...

class ExcuseReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LookRequest(_message.Message):
    __slots__ = ("run_id", "peers")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    peers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run_id: _Optional[str] = ..., peers: _Optional[_Iterable[str]] = ...) -> None: ...

class LookReply(_message.Message):
    __slots__ = ("taken",)
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    taken: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, taken: _Optional[_Iterable[str]] = ...) -> None: ...

class ListenRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class ListenReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GreetRequest(_message.Message):
    __slots__ = ("run_id", "peers", "limit_s", "tcp_only")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    TCP_ONLY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    peers: _containers.RepeatedScalarFieldContainer[str]
    limit_s: float
    tcp_only: bool
    def __init__(self, run_id: _Optional[str] = ..., peers: _Optional[_Iterable[str]] = ..., limit_s: _Optional[float] = ..., tcp_only: bool = ...) -> None: ...

class Greeting(_message.Message):
    __slots__ = ("peer", "tcp", "tcp_error", "udp", "udp_error", "mtu_bytes")
    PEER_FIELD_NUMBER: _ClassVar[int]
    TCP_FIELD_NUMBER: _ClassVar[int]
    TCP_ERROR_FIELD_NUMBER: _ClassVar[int]
    UDP_FIELD_NUMBER: _ClassVar[int]
    UDP_ERROR_FIELD_NUMBER: _ClassVar[int]
    MTU_BYTES_FIELD_NUMBER: _ClassVar[int]
    peer: str
    tcp: Reception
    tcp_error: str
    udp: Reception
    udp_error: str
    mtu_bytes: int
    def __init__(self, peer: _Optional[str] = ..., tcp: _Optional[_Union[Reception, str]] = ..., tcp_error: _Optional[str] = ..., udp: _Optional[_Union[Reception, str]] = ..., udp_error: _Optional[str] = ..., mtu_bytes: _Optional[int] = ...) -> None: ...

class GreetReply(_message.Message):
    __slots__ = ("greetings",)
    GREETINGS_FIELD_NUMBER: _ClassVar[int]
    greetings: _containers.RepeatedCompositeFieldContainer[Greeting]
    def __init__(self, greetings: _Optional[_Iterable[_Union[Greeting, _Mapping]]] = ...) -> None: ...

class CallBackRequest(_message.Message):
    __slots__ = ("run_id", "peers")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    peers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run_id: _Optional[str] = ..., peers: _Optional[_Iterable[str]] = ...) -> None: ...

class CallBackReply(_message.Message):
    __slots__ = ("connected",)
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    connected: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, connected: _Optional[_Iterable[str]] = ...) -> None: ...

class HeardRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class HeardReply(_message.Message):
    __slots__ = ("addresses",)
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class ReadmitRequest(_message.Message):
    __slots__ = ("run_id", "peer")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    peer: Peer
    def __init__(self, run_id: _Optional[str] = ..., peer: _Optional[_Union[Peer, _Mapping]] = ...) -> None: ...

class ReadmitReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IntroduceRequest(_message.Message):
    __slots__ = ("run_id", "peers")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    peers: _containers.RepeatedCompositeFieldContainer[Peer]
    def __init__(self, run_id: _Optional[str] = ..., peers: _Optional[_Iterable[_Union[Peer, _Mapping]]] = ...) -> None: ...

class IntroduceReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ForwardRequest(_message.Message):
    __slots__ = ("run_id", "letters", "common", "gather_s")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    COMMON_FIELD_NUMBER: _ClassVar[int]
    GATHER_S_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    letters: _containers.RepeatedCompositeFieldContainer[Letter]
    common: bytes
    gather_s: float
    def __init__(self, run_id: _Optional[str] = ..., letters: _Optional[_Iterable[_Union[Letter, _Mapping]]] = ..., common: _Optional[bytes] = ..., gather_s: _Optional[float] = ...) -> None: ...

class Letter(_message.Message):
    __slots__ = ("peer", "sealed")
    PEER_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    peer: str
    sealed: bytes
    def __init__(self, peer: _Optional[str] = ..., sealed: _Optional[bytes] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("method", "request", "common_hash")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    COMMON_HASH_FIELD_NUMBER: _ClassVar[int]
    method: str
    request: bytes
    common_hash: bytes
    def __init__(self, method: _Optional[str] = ..., request: _Optional[bytes] = ..., common_hash: _Optional[bytes] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("call", "next")
    CALL_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    call: int
    next: int
    def __init__(self, call: _Optional[int] = ..., next: _Optional[int] = ...) -> None: ...

class ForwardReply(_message.Message):
    __slots__ = ("deliveries",)
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    deliveries: _containers.RepeatedCompositeFieldContainer[Delivery]
    def __init__(self, deliveries: _Optional[_Iterable[_Union[Delivery, _Mapping]]] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("letter", "sealed", "over", "error", "failure")
    LETTER_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    letter: int
    sealed: bytes
    over: bool
    error: str
    failure: Failure
    def __init__(self, letter: _Optional[int] = ..., sealed: _Optional[bytes] = ..., over: bool = ..., error: _Optional[str] = ..., failure: _Optional[_Union[Failure, str]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("reply", "last", "code", "message", "details")
    REPLY_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    reply: bytes
    last: bool
    code: int
    message: str
    details: bytes
    def __init__(self, reply: _Optional[bytes] = ..., last: bool = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., details: _Optional[bytes] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class ReleaseReply(_message.Message):
    __slots__ = ("bytes_sent",)
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    bytes_sent: int
    def __init__(self, bytes_sent: _Optional[int] = ...) -> None: ...

class SpaceRequest(_message.Message):
    __slots__ = ("run_id", "path", "source")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    path: str
    source: bool
    def __init__(self, run_id: _Optional[str] = ..., path: _Optional[str] = ..., source: bool = ...) -> None: ...

class SpaceReply(_message.Message):
    __slots__ = ("bytes", "folder", "free_bytes", "stored_bytes")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    folder: bool
    free_bytes: int
    stored_bytes: int
    def __init__(self, bytes: _Optional[int] = ..., folder: bool = ..., free_bytes: _Optional[int] = ..., stored_bytes: _Optional[int] = ...) -> None: ...

class ManifestRequest(_message.Message):
    __slots__ = ("run_id", "path", "block_bytes", "most_block_bytes")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    MOST_BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    path: str
    block_bytes: int
    most_block_bytes: int
    def __init__(self, run_id: _Optional[str] = ..., path: _Optional[str] = ..., block_bytes: _Optional[int] = ..., most_block_bytes: _Optional[int] = ...) -> None: ...

class ManifestReply(_message.Message):
    __slots__ = ("bytes", "block_bytes", "hashes", "mode", "folder", "entries")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    block_bytes: int
    hashes: bytes
    mode: int
    folder: bool
    entries: _containers.RepeatedCompositeFieldContainer[FolderEntry]
    def __init__(self, bytes: _Optional[int] = ..., block_bytes: _Optional[int] = ..., hashes: _Optional[bytes] = ..., mode: _Optional[int] = ..., folder: bool = ..., entries: _Optional[_Iterable[_Union[FolderEntry, _Mapping]]] = ...) -> None: ...

class DiscardRequest(_message.Message):
    __slots__ = ("run_id", "path")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    path: str
    def __init__(self, run_id: _Optional[str] = ..., path: _Optional[str] = ...) -> None: ...

class DiscardReply(_message.Message):
    __slots__ = ("removed",)
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    removed: bool
    def __init__(self, removed: bool = ...) -> None: ...

class FolderEntry(_message.Message):
    __slots__ = ("path", "bytes", "mode", "folder", "link")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    path: str
    bytes: int
    mode: int
    folder: bool
    link: str
    def __init__(self, path: _Optional[str] = ..., bytes: _Optional[int] = ..., mode: _Optional[int] = ..., folder: bool = ..., link: _Optional[str] = ...) -> None: ...

class BroadcastRequest(_message.Message):
    __slots__ = ("run_id", "broadcast_id", "path", "source", "manifest", "piece_bytes", "report_s", "congestion", "fetches", "seed", "cache", "cache_bytes", "cached", "encrypt")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    PIECE_BYTES_FIELD_NUMBER: _ClassVar[int]
    REPORT_S_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_FIELD_NUMBER: _ClassVar[int]
    FETCHES_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    CACHE_FIELD_NUMBER: _ClassVar[int]
    CACHE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    ENCRYPT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    broadcast_id: str
    path: str
    source: bool
    manifest: ManifestReply
    piece_bytes: int
    report_s: float
    congestion: str
    fetches: bool
    seed: int
    cache: str
    cache_bytes: int
    cached: bool
    encrypt: bool
    def __init__(self, run_id: _Optional[str] = ..., broadcast_id: _Optional[str] = ..., path: _Optional[str] = ..., source: bool = ..., manifest: _Optional[_Union[ManifestReply, _Mapping]] = ..., piece_bytes: _Optional[int] = ..., report_s: _Optional[float] = ..., congestion: _Optional[str] = ..., fetches: bool = ..., seed: _Optional[int] = ..., cache: _Optional[str] = ..., cache_bytes: _Optional[int] = ..., cached: bool = ..., encrypt: bool = ...) -> None: ...

class Feed(_message.Message):
    __slots__ = ("parent", "blocks", "pace_bps", "round_trip_s")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    PACE_BPS_FIELD_NUMBER: _ClassVar[int]
    ROUND_TRIP_S_FIELD_NUMBER: _ClassVar[int]
    parent: str
    blocks: bytes
    pace_bps: int
    round_trip_s: float
    def __init__(self, parent: _Optional[str] = ..., blocks: _Optional[bytes] = ..., pace_bps: _Optional[int] = ..., round_trip_s: _Optional[float] = ...) -> None: ...

class SpliceRequest(_message.Message):
    __slots__ = ("run_id", "broadcast_id", "feeds", "peers")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_ID_FIELD_NUMBER: _ClassVar[int]
    FEEDS_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    broadcast_id: str
    feeds: _containers.RepeatedCompositeFieldContainer[Feed]
    peers: _containers.RepeatedCompositeFieldContainer[SwarmPeer]
    def __init__(self, run_id: _Optional[str] = ..., broadcast_id: _Optional[str] = ..., feeds: _Optional[_Iterable[_Union[Feed, _Mapping]]] = ..., peers: _Optional[_Iterable[_Union[SwarmPeer, _Mapping]]] = ...) -> None: ...

class SwarmPeer(_message.Message):
    __slots__ = ("name", "have")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HAVE_FIELD_NUMBER: _ClassVar[int]
    name: str
    have: bytes
    def __init__(self, name: _Optional[str] = ..., have: _Optional[bytes] = ...) -> None: ...

class Fetched(_message.Message):
    __slots__ = ("peer", "seconds")
    PEER_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    peer: str
    seconds: float
    def __init__(self, peer: _Optional[str] = ..., seconds: _Optional[float] = ...) -> None: ...

class SpliceReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Holding(_message.Message):
    __slots__ = ("have", "bytes", "sent_bytes", "bad_blocks", "fetched", "cached_bytes")
    HAVE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    BAD_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    FETCHED_FIELD_NUMBER: _ClassVar[int]
    CACHED_BYTES_FIELD_NUMBER: _ClassVar[int]
    have: bytes
    bytes: int
    sent_bytes: int
    bad_blocks: int
    fetched: _containers.RepeatedCompositeFieldContainer[Fetched]
    cached_bytes: int
    def __init__(self, have: _Optional[bytes] = ..., bytes: _Optional[int] = ..., sent_bytes: _Optional[int] = ..., bad_blocks: _Optional[int] = ..., fetched: _Optional[_Iterable[_Union[Fetched, _Mapping]]] = ..., cached_bytes: _Optional[int] = ...) -> None: ...

class FeedConnected(_message.Message):
    __slots__ = ("parent",)
    PARENT_FIELD_NUMBER: _ClassVar[int]
    parent: str
    def __init__(self, parent: _Optional[str] = ...) -> None: ...

class FeedBroken(_message.Message):
    __slots__ = ("parent", "error", "failure")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    parent: str
    error: str
    failure: Failure
    def __init__(self, parent: _Optional[str] = ..., error: _Optional[str] = ..., failure: _Optional[_Union[Failure, str]] = ...) -> None: ...

class BroadcastFailed(_message.Message):
    __slots__ = ("error", "failure")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    error: str
    failure: Failure
    def __init__(self, error: _Optional[str] = ..., failure: _Optional[_Union[Failure, str]] = ...) -> None: ...

class Kept(_message.Message):
    __slots__ = ("checksum",)
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    checksum: bytes
    def __init__(self, checksum: _Optional[bytes] = ...) -> None: ...

class BroadcastReply(_message.Message):
    __slots__ = ("opened", "progress", "broken", "kept", "failed", "connected")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    opened: Holding
    progress: Holding
    broken: FeedBroken
    kept: Kept
    failed: BroadcastFailed
    connected: FeedConnected
    def __init__(self, opened: _Optional[_Union[Holding, _Mapping]] = ..., progress: _Optional[_Union[Holding, _Mapping]] = ..., broken: _Optional[_Union[FeedBroken, _Mapping]] = ..., kept: _Optional[_Union[Kept, _Mapping]] = ..., failed: _Optional[_Union[BroadcastFailed, _Mapping]] = ..., connected: _Optional[_Union[FeedConnected, _Mapping]] = ...) -> None: ...

class GuardedHost(_message.Message):
    __slots__ = ("name", "address", "data_port", "egress_bps", "ingress_bps", "egress_limit_bps", "ingress_limit_bps", "reached", "further", "key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DATA_PORT_FIELD_NUMBER: _ClassVar[int]
    EGRESS_BPS_FIELD_NUMBER: _ClassVar[int]
    INGRESS_BPS_FIELD_NUMBER: _ClassVar[int]
    EGRESS_LIMIT_BPS_FIELD_NUMBER: _ClassVar[int]
    INGRESS_LIMIT_BPS_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    FURTHER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    data_port: int
    egress_bps: float
    ingress_bps: float
    egress_limit_bps: float
    ingress_limit_bps: float
    reached: str
    further: _containers.RepeatedScalarFieldContainer[str]
    key: bytes
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., data_port: _Optional[int] = ..., egress_bps: _Optional[float] = ..., ingress_bps: _Optional[float] = ..., egress_limit_bps: _Optional[float] = ..., ingress_limit_bps: _Optional[float] = ..., reached: _Optional[str] = ..., further: _Optional[_Iterable[str]] = ..., key: _Optional[bytes] = ...) -> None: ...

class Constant(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: float
    def __init__(self, name: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...

class GuardedInside(_message.Message):
    __slots__ = ("name", "device", "cgroup")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    CGROUP_FIELD_NUMBER: _ClassVar[int]
    name: str
    device: str
    cgroup: str
    def __init__(self, name: _Optional[str] = ..., device: _Optional[str] = ..., cgroup: _Optional[str] = ...) -> None: ...

class GuardedTenant(_message.Message):
    __slots__ = ("name", "hosts", "egress_bps", "ingress_bps")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    EGRESS_BPS_FIELD_NUMBER: _ClassVar[int]
    INGRESS_BPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    hosts: _containers.RepeatedScalarFieldContainer[str]
    egress_bps: float
    ingress_bps: float
    def __init__(self, name: _Optional[str] = ..., hosts: _Optional[_Iterable[str]] = ..., egress_bps: _Optional[float] = ..., ingress_bps: _Optional[float] = ...) -> None: ...

class GuardRequest(_message.Message):
    __slots__ = ("run_id", "key", "self", "hosts", "mode", "fixed", "user", "constants", "inside", "tenants", "remains")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SELF_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FIXED_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    CONSTANTS_FIELD_NUMBER: _ClassVar[int]
    INSIDE_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    REMAINS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    key: bytes
    self: str
    hosts: _containers.RepeatedCompositeFieldContainer[GuardedHost]
    mode: GuardMode
    fixed: bool
    user: str
    constants: _containers.RepeatedCompositeFieldContainer[Constant]
    inside: _containers.RepeatedCompositeFieldContainer[GuardedInside]
    tenants: _containers.RepeatedCompositeFieldContainer[GuardedTenant]
    remains: GuardRemains
    def __init__(self_, run_id: _Optional[str] = ..., key: _Optional[bytes] = ..., self: _Optional[str] = ..., hosts: _Optional[_Iterable[_Union[GuardedHost, _Mapping]]] = ..., mode: _Optional[_Union[GuardMode, str]] = ..., fixed: bool = ..., user: _Optional[str] = ..., constants: _Optional[_Iterable[_Union[Constant, _Mapping]]] = ..., inside: _Optional[_Iterable[_Union[GuardedInside, _Mapping]]] = ..., tenants: _Optional[_Iterable[_Union[GuardedTenant, _Mapping]]] = ..., remains: _Optional[_Union[GuardRemains, str]] = ...) -> None: ...

class GuardReply(_message.Message):
    __slots__ = ("device", "without_bpf", "unkept", "repaired")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_BPF_FIELD_NUMBER: _ClassVar[int]
    UNKEPT_FIELD_NUMBER: _ClassVar[int]
    REPAIRED_FIELD_NUMBER: _ClassVar[int]
    device: str
    without_bpf: str
    unkept: str
    repaired: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, device: _Optional[str] = ..., without_bpf: _Optional[str] = ..., unkept: _Optional[str] = ..., repaired: _Optional[_Iterable[str]] = ...) -> None: ...

class GuardedRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GuardedPair(_message.Message):
    __slots__ = ("source", "target", "guarantee_bps", "limit_bps", "rate_bps", "marks", "lost", "windows", "unmet", "why")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    GUARANTEE_BPS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BPS_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    UNMET_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    guarantee_bps: float
    limit_bps: float
    rate_bps: float
    marks: int
    lost: int
    windows: int
    unmet: int
    why: str
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., guarantee_bps: _Optional[float] = ..., limit_bps: _Optional[float] = ..., rate_bps: _Optional[float] = ..., marks: _Optional[int] = ..., lost: _Optional[int] = ..., windows: _Optional[int] = ..., unmet: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class MixedHosts(_message.Message):
    __slots__ = ("address", "hosts")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    address: str
    hosts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, address: _Optional[str] = ..., hosts: _Optional[_Iterable[str]] = ...) -> None: ...

class GuardedReply(_message.Message):
    __slots__ = ("guarded", "run_id", "user", "device", "without_bpf", "age_s", "pairs", "silent", "cpu_s", "control_bytes", "error", "self", "inside", "egress_bps", "ingress_bps", "mixed", "unlisted_bps", "repairs")
    GUARDED_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_BPF_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    CONTROL_BYTES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SELF_FIELD_NUMBER: _ClassVar[int]
    INSIDE_FIELD_NUMBER: _ClassVar[int]
    EGRESS_BPS_FIELD_NUMBER: _ClassVar[int]
    INGRESS_BPS_FIELD_NUMBER: _ClassVar[int]
    MIXED_FIELD_NUMBER: _ClassVar[int]
    UNLISTED_BPS_FIELD_NUMBER: _ClassVar[int]
    REPAIRS_FIELD_NUMBER: _ClassVar[int]
    guarded: bool
    run_id: str
    user: str
    device: str
    without_bpf: str
    age_s: float
    pairs: _containers.RepeatedCompositeFieldContainer[GuardedPair]
    silent: _containers.RepeatedScalarFieldContainer[str]
    cpu_s: float
    control_bytes: int
    error: str
    self: str
    inside: _containers.RepeatedCompositeFieldContainer[GuardedReply]
    egress_bps: float
    ingress_bps: float
    mixed: _containers.RepeatedCompositeFieldContainer[MixedHosts]
    unlisted_bps: float
    repairs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self_, guarded: bool = ..., run_id: _Optional[str] = ..., user: _Optional[str] = ..., device: _Optional[str] = ..., without_bpf: _Optional[str] = ..., age_s: _Optional[float] = ..., pairs: _Optional[_Iterable[_Union[GuardedPair, _Mapping]]] = ..., silent: _Optional[_Iterable[str]] = ..., cpu_s: _Optional[float] = ..., control_bytes: _Optional[int] = ..., error: _Optional[str] = ..., self: _Optional[str] = ..., inside: _Optional[_Iterable[_Union[GuardedReply, _Mapping]]] = ..., egress_bps: _Optional[float] = ..., ingress_bps: _Optional[float] = ..., mixed: _Optional[_Iterable[_Union[MixedHosts, _Mapping]]] = ..., unlisted_bps: _Optional[float] = ..., repairs: _Optional[_Iterable[str]] = ...) -> None: ...

class UnguardRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UnguardReply(_message.Message):
    __slots__ = ("devices",)
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    devices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, devices: _Optional[_Iterable[str]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("run_id", "look_s", "report_s")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    LOOK_S_FIELD_NUMBER: _ClassVar[int]
    REPORT_S_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    look_s: float
    report_s: float
    def __init__(self, run_id: _Optional[str] = ..., look_s: _Optional[float] = ..., report_s: _Optional[float] = ...) -> None: ...

class SocketBytes(_message.Message):
    __slots__ = ("here", "there", "datagrams", "sent_bytes", "received_bytes")
    HERE_FIELD_NUMBER: _ClassVar[int]
    THERE_FIELD_NUMBER: _ClassVar[int]
    DATAGRAMS_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    here: str
    there: str
    datagrams: bool
    sent_bytes: int
    received_bytes: int
    def __init__(self, here: _Optional[str] = ..., there: _Optional[str] = ..., datagrams: bool = ..., sent_bytes: _Optional[int] = ..., received_bytes: _Optional[int] = ...) -> None: ...

class SocketOwner(_message.Message):
    __slots__ = ("here", "pid", "name", "cgroup", "rank")
    HERE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CGROUP_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    here: str
    pid: int
    name: str
    cgroup: str
    rank: int
    def __init__(self, here: _Optional[str] = ..., pid: _Optional[int] = ..., name: _Optional[str] = ..., cgroup: _Optional[str] = ..., rank: _Optional[int] = ...) -> None: ...

class WatchReply(_message.Message):
    __slots__ = ("unix_time_ns", "moved", "owners", "looks", "connections", "closed_unseen", "tells_ends", "without_datagrams", "uncounted_datagrams", "cpu_s")
    UNIX_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    LOOKS_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_UNSEEN_FIELD_NUMBER: _ClassVar[int]
    TELLS_ENDS_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_DATAGRAMS_FIELD_NUMBER: _ClassVar[int]
    UNCOUNTED_DATAGRAMS_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    unix_time_ns: int
    moved: _containers.RepeatedCompositeFieldContainer[SocketBytes]
    owners: _containers.RepeatedCompositeFieldContainer[SocketOwner]
    looks: int
    connections: int
    closed_unseen: int
    tells_ends: bool
    without_datagrams: str
    uncounted_datagrams: int
    cpu_s: float
    def __init__(self, unix_time_ns: _Optional[int] = ..., moved: _Optional[_Iterable[_Union[SocketBytes, _Mapping]]] = ..., owners: _Optional[_Iterable[_Union[SocketOwner, _Mapping]]] = ..., looks: _Optional[int] = ..., connections: _Optional[int] = ..., closed_unseen: _Optional[int] = ..., tells_ends: bool = ..., without_datagrams: _Optional[str] = ..., uncounted_datagrams: _Optional[int] = ..., cpu_s: _Optional[float] = ...) -> None: ...
