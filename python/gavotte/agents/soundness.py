"""Check what agents report. A broken or hostile agent must neither stop its controller nor spoil others' results.

Field names end in their unit (`_bps`, `_s`), so that one rule fits all messages of the contract.
"""

from __future__ import annotations

import math
from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

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
        rule = _RULES.get(field.full_name) or _rule(field, value)
        values = value if rule.many else (value,)
        if rule.kind == _MESSAGE:
            for each in values:
                check_message(each, deadline_s=deadline_s)
        elif rule.kind == _ENUM:
            if any(each not in rule.known for each in values):
                raise AgentError(f"it reports {field.name} = {_shown(values)}, which has no meaning")
        elif rule.is_text:
            _clean(message, field, values, many=rule.many)
        elif rule.kind != _TEXT:
            most = min(rule.most, deadline_s) if rule.is_bound_by_deadline else rule.most
            for each in values:
                # NaN is in no range.
                if not rule.least <= each <= most:
                    raise AgentError(f"it reports {field.name} = {_shown(values)}, which is impossible")


class _Rule(NamedTuple):
    """What holds for a field. Finding it takes most of a check's time, and there are 10,000 agents."""

    many: bool
    kind: int
    is_text: bool
    known: frozenset[int]
    least: float
    most: float
    is_bound_by_deadline: bool


_RULES: dict[str, _Rule] = {}


def _rule(field: FieldDescriptor, value: object) -> _Rule:
    """Return what holds for a field, given any value of it."""
    most = _most(field)
    _RULES[field.full_name] = rule = _Rule(
        # `is_repeated` and the `label` before it are each missing in some versions of protobuf.
        many=isinstance(value, MutableSequence),
        kind=field.cpp_type,
        is_text=field.type == FieldDescriptor.TYPE_STRING,
        known=frozenset(field.enum_type.values_by_number if field.enum_type else ()),
        least=-most if field.full_name in SIGNED else 0.0,
        most=most,
        is_bound_by_deadline=most == MOST and field.cpp_type == _FLOAT and field.name.endswith(("_s", "seconds")),
    )
    return rule


def _most(field: FieldDescriptor) -> float:
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
    return MOST


def _clean(message: Message, field: FieldDescriptor, values: Sequence[str], *, many: bool) -> None:
    cleaned = [printable(each[:LONGEST]) for each in values]
    if many:
        getattr(message, field.name)[:] = cleaned
    elif cleaned[0] != values[0]:
        setattr(message, field.name, cleaned[0])


def _shown(values: Sequence[object]) -> str:
    return ", ".join(str(each) for each in values[:3])
