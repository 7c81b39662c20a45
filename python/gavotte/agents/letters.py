"""Letters: calls that are sealed for one agent, so that others can forward them, and what comes of them."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from gavotte._core import Letters
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.calls import DETAILS_KEY
from gavotte.agents.quiet import grpc


class ForwardedError(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """A forwarded call failed.

    Attributes:
        delivered: whether the agent may have got the call.
    """

    def __init__(self, code: grpc.StatusCode, details: str, *, trailer: bytes = b"", delivered: bool = True) -> None:
        super().__init__(details)
        self._code, self._details, self._trailer = code, details, trailer
        self.delivered = delivered

    def code(self) -> grpc.StatusCode:
        """Return the kind of failure."""
        return self._code

    def details(self) -> str:
        """Return the cause in one line."""
        return self._details

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        """Return the agent's own details, as gRPC does."""
        return ((DETAILS_KEY, self._trailer),) if self._trailer else ()

    def initial_metadata(self) -> tuple[tuple[str, bytes], ...]:
        """Return nothing."""
        return ()

    def is_active(self) -> bool:
        """Return that the call has ended."""
        return False

    def time_remaining(self) -> float | None:
        """Return nothing: the call has ended."""
        return None

    def cancel(self) -> bool:
        """Do nothing: the call has ended."""
        return False

    def add_callback(self, callback: Callable[[], None]) -> bool:  # noqa: ARG002 - gRPC's interface
        """Do nothing: the call has ended."""
        return False


class Correspondent:
    """The key of one agent, and the numbers of the calls that were sealed with it.

    Attributes:
        key: 32 random bytes, which only the agent and this controller have.
    """

    def __init__(self) -> None:
        self.key = secrets.token_bytes(32)
        self._letters = Letters(self.key)
        self._lock = threading.Lock()
        self._numbers = 0

    def seal(self, call: pb.Call) -> tuple[int, bytes]:
        """Seal a call. Return its number and the sealed bytes."""
        with self._lock:
            self._numbers += 1
            number = self._numbers
        return number, self._letters.seal_call(number, call.SerializeToString())

    def open(self, call: int, number: int, sealed: bytes) -> pb.Answer:
        """Open the answer of this number to a call.

        Raises:
            ForwardedError: when something else was delivered.
        """
        try:
            return pb.Answer.FromString(self._letters.open_answer(call, number, sealed))
        except (ValueError, DecodeError):
            text = "the answer that another agent delivered is not its own"
            raise ForwardedError(grpc.StatusCode.DATA_LOSS, text) from None


@dataclass
class Part:
    """A call to one agent of several that one forwarder gets.

    Attributes:
        name: the agent.
        letter: the sealed call.
        call: the number under which its answers are sealed.
        next: the number of the next answer.
        is_over: whether the last answer has come, or more answers are unwanted.
    """

    name: str
    letter: bytes
    call: int
    next: int = 0
    is_over: bool = False


Came = tuple[Part, Any]
"""What came of a letter: a reply, a `ForwardedError`, or None = no more."""
