from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATE_QUEUED: _ClassVar[State]
    STATE_RUNNING: _ClassVar[State]
    STATE_DONE: _ClassVar[State]
    STATE_FAILED: _ClassVar[State]
    STATE_CANCELLED: _ClassVar[State]
STATE_QUEUED: State
STATE_RUNNING: State
STATE_DONE: State
STATE_FAILED: State
STATE_CANCELLED: State

class Flow(_message.Message):
    __slots__ = ("source", "target", "bytes")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    bytes: int
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...

class Copies(_message.Message):
    __slots__ = ("path", "source", "targets", "output", "mechanism")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    path: str
    source: str
    targets: _containers.RepeatedScalarFieldContainer[str]
    output: str
    mechanism: str
    def __init__(self, path: _Optional[str] = ..., source: _Optional[str] = ..., targets: _Optional[_Iterable[str]] = ..., output: _Optional[str] = ..., mechanism: _Optional[str] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("name", "flows", "priority_class", "weight", "user", "copies", "deadline_s", "demote")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    DEMOTE_FIELD_NUMBER: _ClassVar[int]
    name: str
    flows: _containers.RepeatedCompositeFieldContainer[Flow]
    priority_class: int
    weight: float
    user: str
    copies: Copies
    deadline_s: float
    demote: bool
    def __init__(self, name: _Optional[str] = ..., flows: _Optional[_Iterable[_Union[Flow, _Mapping]]] = ..., priority_class: _Optional[int] = ..., weight: _Optional[float] = ..., user: _Optional[str] = ..., copies: _Optional[_Union[Copies, _Mapping]] = ..., deadline_s: _Optional[float] = ..., demote: bool = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("id", "name", "user", "priority_class", "weight", "state", "bytes", "moved_bytes", "submitted_s", "started_s", "finished_s", "error", "broadcast", "receivers", "deadline_s", "guaranteed", "encrypted")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    MOVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_S_FIELD_NUMBER: _ClassVar[int]
    STARTED_S_FIELD_NUMBER: _ClassVar[int]
    FINISHED_S_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    GUARANTEED_FIELD_NUMBER: _ClassVar[int]
    ENCRYPTED_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    user: str
    priority_class: int
    weight: float
    state: State
    bytes: int
    moved_bytes: int
    submitted_s: float
    started_s: float
    finished_s: float
    error: str
    broadcast: bool
    receivers: _containers.RepeatedCompositeFieldContainer[Receiver]
    deadline_s: float
    guaranteed: bool
    encrypted: bool
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., user: _Optional[str] = ..., priority_class: _Optional[int] = ..., weight: _Optional[float] = ..., state: _Optional[_Union[State, str]] = ..., bytes: _Optional[int] = ..., moved_bytes: _Optional[int] = ..., submitted_s: _Optional[float] = ..., started_s: _Optional[float] = ..., finished_s: _Optional[float] = ..., error: _Optional[str] = ..., broadcast: bool = ..., receivers: _Optional[_Iterable[_Union[Receiver, _Mapping]]] = ..., deadline_s: _Optional[float] = ..., guaranteed: bool = ..., encrypted: bool = ...) -> None: ...

class Receiver(_message.Message):
    __slots__ = ("host", "finish_s", "ok", "error", "joined_s")
    HOST_FIELD_NUMBER: _ClassVar[int]
    FINISH_S_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    JOINED_S_FIELD_NUMBER: _ClassVar[int]
    host: str
    finish_s: float
    ok: bool
    error: str
    joined_s: float
    def __init__(self, host: _Optional[str] = ..., finish_s: _Optional[float] = ..., ok: bool = ..., error: _Optional[str] = ..., joined_s: _Optional[float] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("unfinished",)
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    unfinished: bool
    def __init__(self, unfinished: bool = ...) -> None: ...

class ListReply(_message.Message):
    __slots__ = ("entries", "policy")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    policy: str
    def __init__(self, entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., policy: _Optional[str] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("id", "host", "output")
    ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    id: int
    host: str
    output: str
    def __init__(self, id: _Optional[int] = ..., host: _Optional[str] = ..., output: _Optional[str] = ...) -> None: ...

class WaitRequest(_message.Message):
    __slots__ = ("id", "seconds")
    ID_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    id: int
    seconds: float
    def __init__(self, id: _Optional[int] = ..., seconds: _Optional[float] = ...) -> None: ...
