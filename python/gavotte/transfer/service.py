"""Serve the controller of transfers over gRPC at a Unix socket, and call it as a client."""

from __future__ import annotations

import math
import os
import socket as sockets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from gavotte.agents.calls import aside
from gavotte.agents.quiet import grpc
from gavotte.agents.runtime import runtime_dir
from gavotte.errors import GavotteError
from gavotte.formats.parts.byte_matrix import HostBytes, merged
from gavotte.formats.parts.transfer import STATES, Copied, Copies, Transfer, TransferOptions, checked
from gavotte.transfer import queue_pb2 as pb
from gavotte.transfer.queue_pb2_grpc import TransfersServicer, TransfersStub, add_TransfersServicer_to_server

if TYPE_CHECKING:
    from typing_extensions import Self

    from gavotte.transfer.control import Controller

WAIT_S = 60.0
"""Longest wait of one call. A caller that wants to wait longer calls again."""

CALL_S = 10.0
"""Deadline of a call that only exchanges a few bytes."""

FLOWS_PER_S = 10_000.0
"""Flows that a controller accepts in a second even if its machine is busy: the deadline of a large transfer."""

MOST_BYTES = 64 << 20
"""Most bytes of one message: a shuffle of a million flows has 40 MB."""

OPTIONS = [("grpc.max_receive_message_length", MOST_BYTES), ("grpc.max_send_message_length", MOST_BYTES)]


def default_socket() -> Path:
    """Return the default path of the socket of this user's controller."""
    return runtime_dir() / "transfers.sock"


@contextmanager
def serving(controller: Controller, path: Path) -> Iterator[None]:
    """Answer calls at a Unix socket, in threads of its own.

    Raises:
        GavotteError: when another controller listens at that path, or the socket cannot be made.
    """
    if path.exists():
        if _answers(path):
            raise GavotteError(f"a controller of transfers listens at {path}", hint="end it, or use another --socket")
        path.unlink()
    server = grpc.server(ThreadPoolExecutor(64), options=OPTIONS)
    add_TransfersServicer_to_server(_Service(controller), server)  # type: ignore[no-untyped-call]
    before = os.umask(0o077)
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError:
        raise GavotteError(f"cannot listen at {path}", hint="use another --socket, with a short path") from None
    finally:
        os.umask(before)
    aside(server.start)
    try:
        yield
    finally:
        aside(lambda: server.stop(1.0).wait())
        with suppress(OSError):
            path.unlink()


def _answers(path: Path) -> bool:
    with sockets.socket(sockets.AF_UNIX) as tried:
        tried.settimeout(1.0)
        try:
            tried.connect(str(path))
        except OSError:
            return False
    return True


class _Service(TransfersServicer):
    """gRPC service in which each call is one of the controller's."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def Submit(self, request: Any, context: Any) -> Any:  # noqa: N802 - the contract's name
        return self._submit(request, context, encrypt=False)

    def SubmitEncrypted(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._submit(request, context, encrypt=True)

    def _submit(self, request: Any, context: Any, *, encrypt: bool) -> Any:
        flows = [HostBytes(flow.source, flow.target, flow.bytes) for flow in request.flows]
        copies = None
        if request.HasField("copies"):
            asked = request.copies
            copies = Copies(asked.path, asked.source, asked.output, asked.mechanism or "auto")
            flows = [HostBytes(asked.source, target, 0) for target in asked.targets]
        try:
            queued = self._controller.submit(
                flows,
                copies=copies,
                name=request.name[:200],
                options=TransferOptions(request.user[:200], encrypt),
                priority_class=request.priority_class,
                weight=request.weight or 1.0,
                deadline_s=request.deadline_s if request.HasField("deadline_s") else None,
                demote=request.demote,
            )
        except GavotteError as error:
            _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, error)
        return _entry(queued)

    def List(self, request: Any, _: Any) -> Any:  # noqa: N802
        entries = [each for each in self._controller.list() if not (request.unfinished and each.over)]
        return pb.ListReply(entries=map(_entry, entries), policy=self._controller.policy)

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            return _entry(self._controller.cancel(request.id))
        except GavotteError as error:
            _refuse(context, grpc.StatusCode.NOT_FOUND, error)

    def Join(self, request: Any, context: Any) -> Any:  # noqa: N802
        code = grpc.StatusCode.NOT_FOUND
        try:
            self._controller.get(request.id)
            code = grpc.StatusCode.FAILED_PRECONDITION
            return _entry(self._controller.join(request.id, request.host, request.output))
        except GavotteError as error:
            _refuse(context, code, error)

    def Wait(self, request: Any, context: Any) -> Any:  # noqa: N802
        seconds = request.seconds if 0 < request.seconds <= WAIT_S else WAIT_S
        try:
            waited = self._controller.wait(request.id, seconds)
        except GavotteError as error:
            _refuse(context, grpc.StatusCode.NOT_FOUND, error)
        if self._controller.stopped and not waited.over:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the controller has stopped")
        return _entry(waited)


def _refuse(context: Any, code: grpc.StatusCode, error: GavotteError) -> NoReturn:
    context.abort(code, f"{error.message}\n{error.hint}")
    raise AssertionError("abort raises")


def _entry(transfer: Transfer) -> Any:
    return pb.Entry(
        id=transfer.id,
        name=transfer.name,
        user=transfer.user,
        priority_class=transfer.priority_class,
        weight=transfer.weight,
        state=pb.State.Name(STATES.index(transfer.state)),
        bytes=transfer.bytes,
        moved_bytes=transfer.moved_bytes,
        submitted_s=transfer.submitted_s,
        started_s=transfer.started_s or 0.0,
        finished_s=transfer.finished_s or 0.0,
        error=transfer.error,
        broadcast=transfer.copies is not None,
        receivers=[pb.Receiver(**asdict(each)) for each in transfer.receivers],
        deadline_s=transfer.deadline_s,
        guaranteed=transfer.guaranteed,
        encrypted=transfer.encrypt,
    )


class Client:
    """Client of the controller of transfers. Use it as a context manager.

    Args:
        path: its socket; None = the default path of this user's controller.

    All calls raise `GavotteError` when no controller listens at that path, or it refuses.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = Path(path) if path is not None else default_socket()
        options = [("grpc.default_authority", "localhost"), *OPTIONS]
        self._channel = grpc.insecure_channel(f"unix:{self._path}", options=options)
        self._stub = TransfersStub(self._channel)  # type: ignore[no-untyped-call]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()

    def submit(
        self,
        flows: Sequence[HostBytes],
        *,
        name: str = "",
        user: str = "",
        priority_class: int = 0,
        weight: float = 1.0,
        deadline_s: float | None = None,
        demote: bool = False,
        encrypt: bool = False,
    ) -> dict[str, Any]:
        """Queue a transfer. Arguments are those of `Controller.submit`. Returns its entry, as in `list`."""
        checked(flows, weight=weight, priority_class=priority_class, deadline_s=deadline_s)
        request = pb.SubmitRequest(
            name=name,
            user=user,
            flows=[pb.Flow(source=flow.source, target=flow.target, bytes=flow.bytes) for flow in merged(flows)],
            priority_class=priority_class,
            weight=weight,
            deadline_s=deadline_s,
            demote=demote,
        )
        return self._submit(request, CALL_S + len(request.flows) / FLOWS_PER_S, encrypt=encrypt)

    def submit_broadcast(
        self,
        copies: Copies,
        targets: Sequence[str],
        *,
        name: str = "",
        user: str = "",
        priority_class: int = 0,
        weight: float = 1.0,
        encrypt: bool = False,
    ) -> dict[str, Any]:
        """Queue a broadcast.

        Args:
            copies: what is sent from where to which path. Its mechanism may be any but a Cornet, whose receivers
                choose their flows themselves.
            targets: receiving hosts.
            name: for people.
            user: its owner.
            priority_class: 0 = the highest.
            weight: its share where weights count.
            encrypt: whether blocks are encrypted between hosts.

        Returns:
            its entry, as in `list`; its bytes are those of all copies, 0 until it has begun.
        """
        message = pb.Copies(
            path=copies.path,
            source=copies.source,
            targets=targets,
            output=copies.output,
            mechanism=copies.mechanism,
        )
        request = pb.SubmitRequest(name=name, user=user, copies=message, priority_class=priority_class, weight=weight)
        return self._submit(request, CALL_S, encrypt=encrypt)

    def _submit(self, request: Any, deadline_s: float, *, encrypt: bool) -> dict[str, Any]:
        """Queue a transfer."""
        return _read_entry(self._call("SubmitEncrypted" if encrypt else "Submit", request, deadline_s))

    def list(self, *, unfinished: bool = False) -> tuple[str, list[dict[str, Any]]]:
        """Return the controller's policy, and its transfers by number."""
        reply = self._call("List", pb.ListRequest(unfinished=unfinished))
        return reply.policy, [_read_entry(entry) for entry in reply.entries]

    def cancel(self, number: int) -> dict[str, Any]:
        """End a transfer that is not over, and return its entry."""
        return _read_entry(self._call("Cancel", pb.CancelRequest(id=number), CALL_S + 10.0))

    def join(self, number: int, host: str, output: str = "") -> dict[str, Any]:
        """Add a receiver to an unfinished broadcast. Return its entry. Arguments are those of `Controller.join`."""
        return _read_entry(self._call("Join", pb.JoinRequest(id=number, host=host, output=output)))

    def wait(self, number: int, seconds: float = math.inf) -> dict[str, Any]:
        """Return the entry of a transfer when it is over or the time is up."""
        while True:
            once_s = min(WAIT_S, max(seconds, 1e-3))
            entry = _read_entry(self._call("Wait", pb.WaitRequest(id=number, seconds=once_s), once_s + CALL_S))
            seconds -= once_s
            if entry["finished_s"] is not None or seconds <= 0:
                return entry

    def _call(self, method: str, request: Any, deadline_s: float = CALL_S) -> Any:
        try:
            return aside(lambda: getattr(self._stub, method)(request, timeout=deadline_s))
        except grpc.RpcError as error:
            code, text = error.code(), error.details() or ""
            if code is grpc.StatusCode.UNAVAILABLE:
                raise GavotteError(
                    f"no controller of transfers listens at {self._path}", hint="start one: gavotte transfers serve"
                ) from None
            if code is grpc.StatusCode.UNIMPLEMENTED:
                raise GavotteError(
                    f"the controller at {self._path} is older than this command",
                    hint="start it again from this version",
                ) from None
            message, _, hint = text.partition("\n")
            raise GavotteError(message, hint=hint) from None


def _read_entry(entry: Any) -> dict[str, Any]:
    """Return an entry in the form of `Transfer.as_dict`."""
    return Transfer(
        entry.id,
        entry.name,
        entry.user,
        entry.priority_class,
        entry.weight,
        (HostBytes("", "", entry.bytes),),
        (entry.moved_bytes,),
        STATES[entry.state],
        entry.submitted_s,
        entry.started_s or None,
        entry.finished_s or None,
        entry.error,
        Copies("", "", "") if entry.broadcast else None,
        tuple(map(_copied, entry.receivers)),
        entry.deadline_s if entry.HasField("deadline_s") else None,
        entry.guaranteed,
        entry.encrypted,
    ).as_dict()


def _copied(each: Any) -> Copied:
    finish_s = each.finish_s if each.HasField("finish_s") else None
    return Copied(each.host, finish_s, each.ok, each.error, each.joined_s if each.HasField("joined_s") else None)
