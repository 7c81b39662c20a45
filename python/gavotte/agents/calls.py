"""Run gRPC calls outside the main thread, and read why a call failed.

A signal raises an exception in the main thread at any instruction. Inside gRPC the exception can leave a lock held for
ever: one of 300 interrupted demos hung in this way. The main thread therefore waits only in `SimpleQueue.get`, which an
exception cannot harm.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable
from typing import TypeVar, cast

from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.quiet import grpc

DETAILS_KEY = "grpc-status-details-bin"
"""Trailing metadata with an encoded `google.rpc.Status`, as gRPC's libraries for all languages write it.

`grpcio-status` reads it as well, but each of its versions needs the newest protobuf, which users' own stacks may not
have.
"""

Result = TypeVar("Result")


def aside(work: Callable[[], Result]) -> Result:
    """Run some work in a thread of its own. Return its result, or raise its error.

    If the wait is interrupted, the work continues to its own end. It must have a deadline.
    """
    answer: queue.SimpleQueue[tuple[bool, object]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answer.put((True, work()))
        except BaseException as error:
            answer.put((False, error))

    threading.Thread(target=run, daemon=True, name="grpc").start()
    done, value = answer.get()
    if done:
        return cast("Result", value)
    assert isinstance(value, BaseException)
    raise value


def failure_of(error: grpc.RpcError) -> int:
    """Return the contract's `Failure` code with which an agent refused a call; 0 when the agent gave none."""
    return int(dict(pb.Failure.items()).get(f"FAILURE_{_info(error).reason}", 0))


def fact_s(error: grpc.RpcError, name: str) -> float:
    """Return a time in seconds that the agent reported about the conflicting hold; 0 = unknown.

    Args:
        error: the refusal.
        name: `lease_s`, its lease; or `lease_left_s`, the time until it ends unless it is renewed.
    """
    try:
        time_s = float(_info(error).metadata.get(name, "0"))
    except ValueError:
        return 0.0
    return time_s if math.isfinite(time_s) and time_s > 0 else 0.0


def _info(error: grpc.RpcError) -> error_details_pb2.ErrorInfo:
    info = error_details_pb2.ErrorInfo()
    metadata = error.trailing_metadata() if isinstance(error, grpc.Call) else None
    content = dict(metadata or ()).get(DETAILS_KEY, b"")
    try:
        status = status_pb2.Status.FromString(content)
    except DecodeError:
        return info
    # The details of another status: the call was cancelled as its answer came, or the agent is broken.
    if (status.code, status.message) != (error.code().value[0], error.details()):
        return info
    for detail in status.details:
        if detail.Unpack(info):
            break
    return info
