"""What is asked of a placement: applications, the Network, and the rules that every answer must keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, get_args

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network, Sharing
from gavotte.formats.parts.names import known_as, meant
from gavotte.formats.parts.rates import format_bytes, format_rate
from gavotte.place.columns import Instance, build_instance
from gavotte.place.limits import NO_LIMITS, PlacementLimits
from gavotte.place.merge import check_apps
from gavotte.place.running import Running, twice_counted
from gavotte.terms.usage import as_used, at_best, before_use, depends_on_use, unsure_starts

if TYPE_CHECKING:
    from gavotte.place.replaying import Job


@dataclass(frozen=True)
class Question:
    """Which task of some applications should run on which host of a Network.

    Several applications are placed together, as one: their arrival times play no part, and phases with the same number
    run at the same time.

    Attributes:
        network: the current Network.
        apps: one or more applications.
        sharing: `hose`, `pipe` or `groups`; None = the Network's own.
        allowed: task key to the only hosts that the task may use.
        running: applications that already hold room and load links.
        limits: bounds on the whole placement.
        state_bytes: task key to the bytes that move with the task, for tasks that may change hosts between phases.
        job: a traced job of the one application; its replayed time decides. None = bytes decide.
        used: the assignment by which rates that depend on use are known; empty = none yet. See `terms.usage`.
    """

    network: Network
    apps: Sequence[App]
    sharing: str | None = None
    allowed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    running: Sequence[Running] = ()
    limits: PlacementLimits = NO_LIMITS
    state_bytes: Mapping[str, int] = field(default_factory=dict)
    job: Job | None = None
    used: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def instance(self) -> Instance:
        """The question as numbers, built once.

        Raises:
            InfeasibleError: when a task is allowed on no host.
            GavotteError: when the question makes no sense, for instance because it pins a task to an unknown host.
        """
        check_apps(self.apps)
        network, sharing = self.network, self.shared
        if sharing == "pipe" and len(network.hosts) > 1 and not network.any_rate:
            raise GavotteError(
                "no pair of hosts has a rate, and under `pipe` nothing else limits",
                hint="measure the pairs, or use --sharing hose",
            )
        # A pair without a rate would count as fast if neither of its hosts has a cap.
        if any(app.transfer for app in self.apps):
            chosen = network if self.sharing is None else network.model_copy(update={"sharing": sharing})
            senders = [m for m, host in enumerate(network.hosts) if not host.egress_bps]
            receivers = [m for m, host in enumerate(network.hosts) if not host.ingress_bps]
            chosen.check_pairs(product(senders, receivers))
        return self.numbers

    @cached_property
    def numbers(self) -> Instance:
        """The same as `instance`, but unknown rates count as unlimited instead of being refused."""
        return self._over(
            as_used(self.network, self.apps, self.used) if self.used else before_use(self.network, self.apps)
        )

    @cached_property
    def bound_s(self) -> float:
        """Seconds that no placement beats. Where rates depend on use, the bound assumes the highest of each."""
        if not self.depends_on_use:
            return self.numbers.core.bound_s()
        return self._over(at_best(self.network)).core.bound_s()

    @cached_property
    def depends_on_use(self) -> bool:
        """Whether rates depend on which tasks share a host. See `terms.usage`."""
        return depends_on_use(self.network, self.apps)

    def as_used(self, assignment: Mapping[str, str]) -> Question:
        """Return the question with the rates that an assignment gets, or the same one if no rate depends on use."""
        if not self.depends_on_use:
            return self
        names = dict.fromkeys(self.network.names)
        used = {task: known_as(host, names) for task, host in assignment.items()}
        return self if used == self.used else replace(self, used=used)

    def _over(self, network: Network) -> Instance:
        return build_instance(
            network, self.apps, self.shared, allowed=self.allowed, running=self.running, limits=self.limits
        )

    @property
    def shared(self) -> str:
        """The sharing model that applies.

        Raises:
            GavotteError: when `sharing` is not one of the models.
        """
        models = get_args(Sharing)
        if self.sharing is not None and self.sharing not in models:
            raise GavotteError(f"unknown sharing `{self.sharing}`", hint=f"use {', '.join(models)}")
        return self.sharing or self.network.sharing

    @property
    def warnings(self) -> list[str]:
        """What may make every answer wrong, one line each."""
        return [
            f"the bytes of `{name}` count in addition to the cross traffic; if it ran while that was measured, measure "
            + f"again with `--beside {name}`"
            for name in twice_counted(self.network, self.running)
        ] + unsure_starts(self.network, self.apps)


def hosts_of(instance: Instance, assignment: Mapping[str, str]) -> npt.NDArray[np.uint32]:
    """Return the host of each task by its index.

    Raises:
        GavotteError: when a task has no host, or a task or host is unknown.
    """
    at = {name: index for index, name in enumerate(instance.hosts)}
    if not at.keys() >= set(assignment.values()):
        assignment = {task: known_as(host, at) for task, host in assignment.items()}
    for task in instance.tasks:
        if task not in assignment:
            raise GavotteError(f"the assignment has no host for task `{task}`", hint="assign every task")
        if assignment[task] not in at:
            raise GavotteError(
                f"task `{task}` is assigned to `{assignment[task]}`, which is not a host of the network",
                hint=meant(assignment[task], at),
            )
    for stranger in sorted(assignment.keys() - set(instance.tasks)):
        raise GavotteError(f"the assignment names task `{stranger}`, which no application has", hint="remove it")
    return np.array([at[assignment[task]] for task in instance.tasks], dtype=np.uint32)


def bottleneck_text(bottleneck: _core.Bottleneck | None) -> str:
    """Return the bottleneck in words: `egress of vm3: 265 MB at 300 Mbit/s in phase 0`."""
    if bottleneck is None:
        return "none: nothing crosses a limited link"
    amount, rate = format_bytes(bottleneck.bytes), format_rate(bottleneck.rate_bps)
    return f"{bottleneck.link}: {amount} at {rate} in phase {bottleneck.phase}"
