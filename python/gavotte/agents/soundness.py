"""Check what agents report. A broken or hostile agent must neither stop its controller nor spoil others' results.

Field names end in their unit (`_bps`, `_s`), so that one rule fits all messages of the contract.
"""

from __future__ import annotations

import math
from collections.abc import MutableSequence

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from gavotte.errors import AgentError, printable

MOST_BPS = 1e15
"""Ten times the fastest rate that any file may state."""

MOST_S = 1e9
"""30 years. Times of probes are also compared with their deadline."""

MOST = float(2**63 - 1)
MOST_SHARE = {"loss", "sender_cpu", "receiver_cpu", "stolen"}
MOST_HOPS = 255
MOST_MTU_BYTES = 65_536
"""MTU of loopback, the largest of all."""

LONGEST = 2000
"""Most characters of one text."""

UNBOUNDED = {"gavotte.agents.GatedTrainResult.high_bps"}
"""Fields that are infinite where the rate is only a lower bound."""

SIGNED = {
    f"gavotte.agents.DatagramsResult.{field}"
    for field in ("clock_ahead_s", "least_delay_s", "median_delay_s", "high_delay_s", "most_delay_s")
}
"""Fields that compare two hosts' clocks: negative where the receiver's is behind, whatever a probe may take."""

_TEXT, _FLOAT, _ENUM, _MESSAGE = (
    FieldDescriptor.CPPTYPE_STRING,
    FieldDescriptor.CPPTYPE_DOUBLE,
    FieldDescriptor.CPPTYPE_ENUM,
    FieldDescriptor.CPPTYPE_MESSAGE,
)


def check_message(message: Message, *, deadline_s: float = MOST_S) -> None:
    """Check every number of a message, and make each of its texts one printable line.

    Args:
        message: from an agent; its texts are changed in place.
        deadline_s: no time may be longer.

    Raises:
        AgentError: for a number that is not finite, negative, beyond its unit's bound, or without meaning.
    """
    for field, value in message.ListFields():
        # `is_repeated` and the `label` before it are each missing in some versions of protobuf.
        many = isinstance(value, MutableSequence)
        values = value if many else (value,)
        if field.cpp_type == _MESSAGE:
            for each in values:
                check_message(each, deadline_s=deadline_s)
        elif field.cpp_type == _ENUM:
            known = field.enum_type.values_by_number if field.enum_type else {}
            if any(each not in known for each in values):
                raise AgentError(f"it reports {field.name} = {_shown(values)}, which has no meaning")
        elif field.type == FieldDescriptor.TYPE_STRING:
            _clean(message, field, values, many=many)
        elif field.cpp_type != _TEXT:
            most = _most(field, deadline_s)
            # NaN is in no range.
            least = -most if field.full_name in SIGNED else 0
            if not all(least <= each <= most for each in values):
                raise AgentError(f"it reports {field.name} = {_shown(values)}, which is impossible")


def _most(field: FieldDescriptor, deadline_s: float) -> float:
    if field.full_name in UNBOUNDED:
        return math.inf
    if field.full_name in SIGNED:
        return MOST_S
    if field.name == "hops":
        return MOST_HOPS
    if field.name == "mtu_bytes":
        return MOST_MTU_BYTES
    if field.name in MOST_SHARE:
        return 1.0
    if field.cpp_type != _FLOAT:
        return MOST
    if field.name.endswith("_bps"):
        return MOST_BPS
    return deadline_s if field.name.endswith(("_s", "seconds")) else MOST


def _clean(message: Message, field: FieldDescriptor, values: tuple[str, ...], *, many: bool) -> None:
    cleaned = [printable(each[:LONGEST]) for each in values]
    if many:
        getattr(message, field.name)[:] = cleaned
    else:
        setattr(message, field.name, cleaned[0])


def _shown(values: tuple[object, ...]) -> str:
    return ", ".join(str(each) for each in values[:3])
