"""Keeps gRPC out of the main thread, and reads why a call failed.

A signal raises an exception in the main thread at any instruction. Inside gRPC that can leave a lock held for ever: of
300 interrupted demos, one hung so. What waits here is only `SimpleQueue.get`, which an exception cannot harm.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable
from typing import TypeVar, cast

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from gavotte.agents import agent_pb2 as pb

Result = TypeVar("Result")


def aside(work: Callable[[], Result]) -> Result:
    """Does some work in a thread of its own and gives its result, or raises its error.

    When the wait is interrupted, the work goes on to its own end; it must have a deadline.
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
    """Tells by which of the contract's `Failure` codes an agent refused a call; 0 when the agent did not say."""
    return int(dict(pb.Failure.items()).get(f"FAILURE_{_info(error).reason}", 0))


def lease_left_s(error: grpc.RpcError) -> float:
    """When the hold that was in the way ends unless it is renewed, as the agent said; 0 when it did not."""
    try:
        told_s = float(_info(error).metadata.get("lease_left_s", "0"))
    except ValueError:
        return 0.0
    return told_s if math.isfinite(told_s) and told_s > 0 else 0.0


def _info(error: grpc.RpcError) -> error_details_pb2.ErrorInfo:
    info = error_details_pb2.ErrorInfo()
    try:
        status = rpc_status.from_call(error) if isinstance(error, grpc.Call) else None
    except ValueError:
        # The details are another status's: the call was cancelled as its answer came, or the agent is broken.
        return info
    for detail in status.details if status else ():
        if detail.Unpack(info):
            break
    return info
