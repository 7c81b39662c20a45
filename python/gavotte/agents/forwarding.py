"""Calls to many agents, which some of them forward to the others.

A controller spends about 0.1 ms of processor time, a thread and a connection's buffers on each call. With more than
`DIRECT` agents, it therefore calls about sqrt(N) of them, the forwarders. Each passes on as many letters. A letter is
a call that is sealed for its agent, so that a forwarder can neither read nor change it.

If a forwarder disappears, its agents carry on. The controller asks another forwarder for the answers that it still
misses.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.letters import Came, Correspondent, ForwardedError, Part
from gavotte.agents.mail import Mail
from gavotte.agents.quiet import grpc

logger = logging.getLogger(__name__)

DIRECT = 256
"""Most agents of a run that the controller calls itself."""

FEW = 32
"""A call at no more agents is not forwarded."""

ALTERNATES = 4
"""Number of forwarders that an agent knows before it has been introduced to all hosts: its own first."""

ATTEMPTS = 3
"""Number of forwarders that are tried for one call, one after the other."""

GATHER_S = {"Measure": 0.25}
"""How long forwarders collect answers to some methods. This computer needs 0.2 ms for a message, whatever is in it."""

USUAL_GATHER_S = 0.02
"""How long they collect answers to others, which work may wait for."""

UNFORWARDED = frozenset({"Enrol", "Forward", "Health"})
"""Methods that the controller calls at each agent itself."""

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_SERVICE = pb.DESCRIPTOR.services_by_name["Agent"]

UNDELIVERED = frozenset({pb.FAILURE_UNREACHABLE, pb.FAILURE_VANISHED, pb.FAILURE_REFUSED, pb.FAILURE_INVALID})
"""Failures with which a letter that has no answer was not taken."""


REFUSED = frozenset(
    {grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED}
)
"""Codes with which an agent refuses to forward any letter."""


class Forwarding:
    """The forwarders of a run, and the keys of its agents.

    Attributes:
        forwarders: names, in the order of the hosts; empty = no call is forwarded.
        correspondents: the keys, by host.
    """

    def __init__(self, run_id: str, stubs: Mapping[str, Any]) -> None:
        self._run_id = run_id
        self._stubs = stubs
        self.forwarders: list[str] = []
        self.correspondents: dict[str, Correspondent] = {}
        self._place: dict[str, int] = {}
        self._avoided: set[str] = set()

    def begin(self, names: Sequence[str]) -> None:
        """Choose the forwarders of a run with many agents: each for the agents that follow it.

        Neighbours in an inventory are often in one rack, whose links letters then do not leave.
        """
        group = math.ceil(math.sqrt(len(names))) if len(names) > DIRECT else 0
        self.forwarders = list(names[::group]) if group else []
        self._place = {name: at // group for at, name in enumerate(names)} if group else {}

    def near(self, name: str) -> list[str]:
        """Return the forwarders of an agent that are tried first."""
        at, count = self._place.get(name, 0), len(self.forwarders)
        return [self.forwarders[(at + step) % count] for step in range(min(ALTERNATES, count))]

    def avoid(self, forwarder: str) -> None:
        """Use others instead of this forwarder from now on, as long as there are any."""
        logger.info("%s does not forward calls any more", forwarder)
        self._avoided.add(forwarder)

    def trust(self, name: str) -> None:
        """Use a forwarder again."""
        self._avoided.discard(name)

    def sort(self, method: str, names: Collection[str], away: Collection[str]) -> dict[str, list[str]]:
        """Return which agents a call reaches through which forwarder. All others are to be called directly.

        Args:
            method: the service's method.
            names: agents to call.
            away: hosts that forward nothing, since they are gone.
        """
        parts: dict[str, list[str]] = {}
        if method in UNFORWARDED or len(names) <= FEW or not self.forwarders:
            return parts
        for name in names:
            if name in self.correspondents and name not in away and (by := self._by(name, away)) != name:
                parts.setdefault(by, []).append(name)
        return parts

    def _by(self, name: str, away: Collection[str], tried: Collection[str] = ()) -> str:
        """Return the first forwarder of an agent that can be used, or the agent itself."""
        at, count = self._place.get(name, 0), len(self.forwarders)
        for step in range(count):
            forwarder = self.forwarders[(at + step) % count]
            if forwarder == name and not tried:
                return name
            if forwarder not in self._avoided and forwarder not in away and forwarder not in tried:
                return forwarder
        return name

    def letters(self, method: str, requests: Mapping[str, Any], common: bytes = b"") -> list[Part]:
        """Seal a call for each of some agents.

        Args:
            method: the service's method.
            requests: agent to its request.
            common: encoded fields that the requests have in common, and do not contain.
        """
        common_hash = hashlib.sha256(common).digest() if common else b""
        parts = []
        for name, request in requests.items():
            call = pb.Call(method=method, request=request.SerializeToString(), common_hash=common_hash)
            number, sealed = self.correspondents[name].seal(call)
            parts.append(Part(name, sealed, number))
        return parts

    def send(
        self,
        by: str,
        parts: Sequence[Part],
        common: bytes = b"",
        *,
        gather_s: float = USUAL_GATHER_S,
        timeout_s: float | None = None,
    ) -> Any:
        """Give letters to a forwarder. Return the stream of what comes of them.

        Args:
            by: the forwarder.
            parts: the letters.
            common: what their requests have in common.
            gather_s: how long the forwarder collects answers until it passes them on.
            timeout_s: how long the last answer may take; None = for ever.
        """
        letters = [pb.Letter(peer=part.name, sealed=part.letter) for part in parts]
        request = pb.ForwardRequest(run_id=self._run_id, letters=letters, common=common, gather_s=gather_s)
        return self._stubs[by].Forward(request, timeout=timeout_s)

    def answers(self, method: str, parts: Sequence[Part], common: bytes, mail: Mail) -> Iterator[list[Came]]:
        """Have letters forwarded, and yield what comes of them, as it arrives.

        Args:
            method: the method that the letters call.
            parts: the letters.
            common: what their requests have in common.
            mail: how they are sent.

        Yields:
            lists of (part, reply), (part, error) with a `ForwardedError` if it failed, and (part, None) at its end.
        """
        reply_type = getattr(pb, _SERVICE.methods_by_name[method].output_type.name)
        tried = [mail.by]
        for _ in range(ATTEMPTS):
            left = [part for part in parts if not part.is_over]
            if not left:
                return
            if len(tried) > 1:
                logger.info("run %s: %s forwards %d calls that another one lost", self._run_id, mail.by, len(left))
                left, common = [self._resumed(part) for part in left], b""
            try:
                gather_s = GATHER_S.get(method, USUAL_GATHER_S)
                stream = mail.keep(self.send(mail.by, left, common, gather_s=gather_s, timeout_s=mail.left_s()))
                for reply in stream:
                    came: list[Came] = []
                    for delivery in reply.deliveries:
                        if delivery.letter < len(left) and not left[delivery.letter].is_over:
                            came += self._delivered(left[delivery.letter], delivery, reply_type)
                    yield came
            except grpc.RpcError as error:
                if mail.is_closed:
                    return
                if isinstance(error, grpc.Call) and error.code() in REFUSED and not any(part.next for part in left):
                    text = f"{mail.by} does not forward: {error.details()}"
                    undelivered = ForwardedError(grpc.StatusCode.UNAVAILABLE, text, delivered=False)
                    yield _all_failed(left, undelivered)
                    return
                if mail.is_late():
                    yield _all_failed(left, ForwardedError(grpc.StatusCode.DEADLINE_EXCEEDED, "deadline exceeded"))
                    self._blame(mail.by, left)
                    return
                logger.debug("%s: does not forward: %s", mail.by, error)
            if any(not part.is_over for part in left):
                by = self._by(left[0].name, mail.away(), tried)
                if by in tried or by == left[0].name:
                    break
                mail.by = by
                tried.append(by)
        left = [part for part in parts if not part.is_over]
        why = f"{', '.join(tried)}: none of them could forward its answers"
        yield _all_failed(left, ForwardedError(grpc.StatusCode.ABORTED, why))

    def _blame(self, forwarder: str, parts: Sequence[Part]) -> None:
        """Avoid a forwarder through which no agent has answered in time."""
        if not any(part.next for part in parts):
            self.avoid(forwarder)

    def _resumed(self, part: Part) -> Part:
        """Ask for the answers to a letter that are still missing."""
        request = pb.ResumeRequest(call=part.call, next=part.next)
        call = pb.Call(method="Resume", request=request.SerializeToString())
        part.letter = self.correspondents[part.name].seal(call)[1]
        return part

    def _delivered(self, part: Part, delivery: pb.Delivery, reply_type: Any) -> list[Came]:
        if delivery.over:
            logger.debug("%s: no more answers come this way: %s", part.name, delivery.error or "its agent closed")
            if not part.next and delivery.failure in UNDELIVERED:
                part.is_over = True
                text = f"a forwarder cannot reach it: {delivery.error}"
                return [(part, ForwardedError(grpc.StatusCode.UNAVAILABLE, text, delivered=False)), (part, None)]
            return []
        failed: ForwardedError | None = None
        try:
            answer = self.correspondents[part.name].open(part.call, part.next, delivery.sealed)
            part.next += 1
            if not answer.last:
                return [(part, reply_type.FromString(answer.reply))]
            if answer.code:
                code = _CODES.get(answer.code, grpc.StatusCode.UNKNOWN)
                failed = ForwardedError(code, answer.message, trailer=answer.details)
        except DecodeError:
            failed = ForwardedError(grpc.StatusCode.INTERNAL, "its answer is not of the contract")
        except ForwardedError as other:
            failed = other
        part.is_over = True
        return [(part, None)] if failed is None else [(part, failed), (part, None)]


def _all_failed(parts: Sequence[Part], error: ForwardedError) -> list[Came]:
    came: list[Came] = []
    for part in parts:
        if not part.is_over:
            part.is_over = True
            came += [(part, error), (part, None)]
    return came
