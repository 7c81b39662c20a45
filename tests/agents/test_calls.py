"""The information in a refused call."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from google.rpc import status_pb2

from gavotte.agents.calls import fact_s, failure_of


class Refused(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """A call that was cancelled while its agent answered that it had aborted it."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.CANCELLED

    def details(self) -> str:
        return "cancelled"

    def trailing_metadata(self) -> Sequence[tuple[str, bytes]]:
        status = status_pb2.Status(code=grpc.StatusCode.ABORTED.value[0], message="aborted")
        return [("grpc-status-details-bin", status.SerializeToString())]

    def initial_metadata(self) -> None: ...
    def is_active(self) -> bool:
        return False

    def time_remaining(self) -> None: ...
    def cancel(self) -> bool:
        return False

    def add_callback(self, callback: object) -> bool:
        return False


def test_details_of_another_status_tell_nothing() -> None:
    assert failure_of(Refused()) == 0
    assert fact_s(Refused(), "lease_left_s") == 0.0
