"""The front door: a method by name, its assignment, and what that assignment is predicted to take."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import get_args

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.names import meant
from gavotte.formats.network import Network, Sharing
from gavotte.formats.placement import Placement
from gavotte.formats.rates import format_bytes, format_rate
from gavotte.place.columns import NO_LIMITS, Instance, PlacementLimits, build_instance
from gavotte.place.conflict import check_quotas, check_sums, find_conflict
from gavotte.place.constraints import check_constraints, price_usd
from gavotte.place.exact.cpsat import PROVEN
from gavotte.place.exact.solution import Solution
from gavotte.place.merge import check_apps
from gavotte.place.methods import METHODS, Effort, Watch, default_threads, run_at_once, run_method
from gavotte.place.running import Running

logger = logging.getLogger(__name__)

GIVEN = "given"
"""The method of a Placement whose assignment came from outside."""

LIMIT_S = 10.0
"""Time limit if nobody sets one. A search that finds nothing better ends long before."""

CONFLICT_S = 0.5
"""At least this long a reason is sought why no placement exists."""

_PLANNING = ("auto", "optimal", "ilp", "search")
"""Methods for which a failure may mean that no placement exists; the others are known to get stuck."""


@dataclass(frozen=True)
class Answer:
    """A Placement with what is known about how it was found.

    Attributes:
        placement: the Placement.
        chosen: the method that ran: differs from the one asked for under `auto`.
        stopped: whether the clock ended the work, so that another run may find another placement or bound.
        interrupted: whether a signal ended it; the best found until then is the answer.
        gap: (completion - bound) / completion; 0 = proven the least.
        price_usd: of the hosts used and the bytes between them, as the Network says.
        limits: that it was made under.
        unmoved_s: where moves between phases were weighed, the completion time of the best placement without any.
        bound_stopped: whether clock or signal cut short the work on the bound, so that another run may prove more.
    """

    placement: Placement
    chosen: str
    stopped: bool
    gap: float
    price_usd: float
    limits: PlacementLimits
    interrupted: bool = False
    unmoved_s: float | None = None
    bound_stopped: bool = False


def place(
    network: Network,
    apps: Sequence[App],
    method: str = "auto",
    *,
    sharing: str | None = None,
    seed: int = 0,
    time_limit_s: float = LIMIT_S,
    allowed: Mapping[str, Sequence[str]] | None = None,
    running: Sequence[Running] = (),
    threads: int | None = None,
    limits: PlacementLimits = NO_LIMITS,
    clock: Callable[[], float] = time.perf_counter,
    repeatable: bool = False,
    watch: Watch | None = None,
) -> Placement:
    """Decides which task runs on which host.

    Several applications are placed all at once, as one: their arrival times play no part, and phases with the same
    number run together. `greedy` is Choreo's and keeps capacity and pins only; what it breaks is an error. All other
    methods keep every constraint.

    Args:
        network: what is believed of the network.
        apps: one or more.
        method: one of `METHODS`.
        sharing: `hose`, `pipe` or `groups`; None = as the Network says.
        seed: from 0 to 2^64 - 1; of every random choice.
        time_limit_s: of the clock, for all of the work.
        allowed: task key to the only hosts that it may use.
        running: applications that hold room and load links already.
        threads: used at most; None = all.
        limits: bounds on the whole placement.
        clock: seconds, for `elapsed_s`.
        repeatable: turn the time limit into an amount of work, so that not the answer depends on the machine and the
            number of threads, but the time that it takes.
        watch: told now and then of the best time so far, the bound so far, and the share of the limit that is gone.

    Returns:
        The Placement, with the completion time that the measured rates predict and a bound that no placement beats.

    Raises:
        InfeasibleError: when the method finds no placement that keeps all constraints.
        GavotteError: when the request makes no sense, for instance a pin to an unknown host.
    """
    return decide(
        network,
        apps,
        method,
        sharing=sharing,
        seed=seed,
        time_limit_s=time_limit_s,
        allowed=allowed,
        running=running,
        threads=threads,
        limits=limits,
        clock=clock,
        repeatable=repeatable,
        watch=watch,
    ).placement


def decide(
    network: Network,
    apps: Sequence[App],
    method: str = "auto",
    *,
    sharing: str | None = None,
    seed: int = 0,
    time_limit_s: float = LIMIT_S,
    allowed: Mapping[str, Sequence[str]] | None = None,
    running: Sequence[Running] = (),
    threads: int | None = None,
    limits: PlacementLimits = NO_LIMITS,
    clock: Callable[[], float] = time.perf_counter,
    repeatable: bool = False,
    watch: Watch | None = None,
) -> Answer:
    """As `place`, with more about how the Placement was found. Arguments are those of `place`.

    A signal whose handler raises what is no `Exception`, such as `KeyboardInterrupt`, ends the work: the answer is the
    best placement found until then, and the error comes out only where there is none.

    Raises:
        InfeasibleError: when the method finds no placement that keeps all constraints.
        GavotteError: when the request makes no sense.
    """
    if method not in METHODS:
        raise GavotteError(f"unknown method `{method}`", hint=f"use {', '.join(METHODS)}")
    if not 0 <= seed < 2**64:
        raise GavotteError(f"seed {seed} is out of range", hint="use 0 to 2^64 - 1")
    if (limits.max_hosts or 1) < 1 or not 0 <= (limits.max_price_usd or 0.0) < math.inf:
        raise GavotteError("the limits allow no host or a negative price", hint="use at least 1 host and 0 USD")
    if not 0 < time_limit_s <= 1e6:
        raise GavotteError(f"a time limit of {time_limit_s:g} s is out of range", hint="use 0.1 s to a million")
    effort = Effort(time_limit_s, seed, threads or default_threads(), repeatable, watch)
    work = _Work(network, apps, sharing, allowed or {}, running, limits, method, effort, clock)
    try:
        return work.answer(work.outcome())
    except BaseException as signal:
        if isinstance(signal, Exception):
            raise
        known = work.known()
        if known is None:
            raise
        return work.answer(replace(known, stopped=True, interrupted=True))


@dataclass
class _Work:
    """One call of `decide`, whose parts can be done again after a signal."""

    network: Network
    apps: Sequence[App]
    sharing: str | None
    allowed: Mapping[str, Sequence[str]]
    running: Sequence[Running]
    limits: PlacementLimits
    method: str
    effort: Effort
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self.begin_s = self.clock()

    @cached_property
    def instance(self) -> Instance:
        """What is placed; errors of the request come from here."""
        return _instance(self.network, self.apps, self.sharing, self.allowed, self.running, self.limits)

    def outcome(self) -> Solution:
        """What the method finds."""
        instance, limits, effort = self.instance, self.limits, self.effort
        check_sums(self.network, self.apps, self.running)
        check_quotas(limits.quotas)
        try:
            effort.found = run_method(instance, self.method, effort)
        except InfeasibleError:
            if self.method in _PLANNING:
                conflict_s = effort.limit_s if effort.repeatable else max(effort.left_s, CONFLICT_S)
                conflict = find_conflict(
                    self.network, self.apps, self.allowed, self.running, limit_s=conflict_s, limits=limits
                )
                if conflict is not None:
                    raise conflict from None
            raise
        return effort.found

    def known(self) -> Solution | None:
        """The best when a signal came, with what is proven; None if there is no placement."""
        found = self.effort.found
        if found is None:  # too early: the search's starts take no time
            try:
                found = run_at_once(self.instance, self.method, self.effort)
            except InfeasibleError:
                return None
        return replace(found, bound_s=max(found.bound_s, self.effort.bound_s), bound_stopped=self.effort.bound_stopped)

    def answer(self, outcome: Solution) -> Answer:
        """The Placement of what a method found."""
        instance = self.instance
        elapsed_s = self.clock() - self.begin_s
        logger.info(
            "%d tasks on %d hosts: %s chose %s, which took %.2f s%s",
            len(instance.tasks),
            len(instance.hosts),
            self.method,
            outcome.method,
            elapsed_s,
            " and was stopped by the clock" if outcome.stopped else "",
        )
        assignment = {task: instance.hosts[host] for task, host in zip(instance.tasks, outcome.hosts, strict=True)}
        check_constraints(self.network, self.apps, assignment, self.method, self.limits)
        placement = _placement(
            instance,
            self.apps,
            self.method,
            assignment,
            outcome.hosts,
            elapsed_s,
            self.effort.seed,
            outcome.bound_s,
        )
        gap = 1 - placement.bound_s / placement.completion_s if placement.completion_s > 0 else 0.0
        return Answer(
            placement=placement,
            chosen=outcome.method,
            stopped=outcome.stopped or outcome.bound_stopped,
            gap=0.0 if placement.optimal else gap,
            price_usd=price_usd(self.network, self.apps, assignment),
            limits=self.limits,
            interrupted=outcome.interrupted,
            bound_stopped=outcome.bound_stopped,
        )


def evaluate(
    network: Network,
    apps: Sequence[App],
    assignment: Mapping[str, str],
    *,
    sharing: str | None = None,
    running: Sequence[Running] = (),
) -> Placement:
    """Predicts what a given assignment takes.

    Args:
        network: what is believed of the network.
        apps: one or more.
        assignment: task to host, for every task; with several applications a task is `app/task`.
        sharing: `hose`, `pipe` or `groups`; None = as the Network says.
        running: applications that hold room and load links already.

    Returns:
        A Placement with method `given`.

    Raises:
        InfeasibleError: when the assignment overbooks a host or breaks a constraint.
        GavotteError: when it misses a task, or names an unknown task or host.
    """
    instance = _instance(network, apps, sharing, None, running)
    hosts = hosts_of(instance, assignment)
    ordered = {task: assignment[task] for task in instance.tasks}
    check_constraints(network, apps, ordered, "the given assignment")
    return _placement(instance, apps, GIVEN, ordered, hosts, 0.0, 0, 0.0)


def hosts_of(instance: Instance, assignment: Mapping[str, str]) -> npt.NDArray[np.uint32]:
    """The host of each task by its index.

    Raises:
        GavotteError: when a task has no host, or a task or host is unknown.
    """
    at = {name: index for index, name in enumerate(instance.hosts)}
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


def check_sharing(sharing: str | None) -> None:
    """Refuses a sharing model that does not exist.

    Raises:
        GavotteError: naming those that do.
    """
    models = get_args(Sharing)
    if sharing is not None and sharing not in models:
        raise GavotteError(f"unknown sharing `{sharing}`", hint=f"use {', '.join(models)}")


def _instance(
    network: Network,
    apps: Sequence[App],
    sharing: str | None,
    allowed: Mapping[str, Sequence[str]] | None,
    running: Sequence[Running],
    limits: PlacementLimits = NO_LIMITS,
) -> Instance:
    check_apps(apps)
    check_sharing(sharing)
    if (sharing or network.sharing) == "pipe" and len(network.hosts) > 1 and not network.any_rate:
        raise GavotteError(
            "no pair of hosts has a rate, and under `pipe` nothing else limits",
            hint="measure the pairs, or use --sharing hose",
        )
    # Of pairs that were looked at and have no rate, those without a cap would count as fast.
    if any(app.transfer for app in apps):
        chosen = network if sharing is None else network.model_copy(update={"sharing": sharing})
        senders = [m for m, host in enumerate(network.hosts) if not host.egress_bps]
        receivers = [m for m, host in enumerate(network.hosts) if not host.ingress_bps]
        chosen.check_pairs(product(senders, receivers))
    return build_instance(network, apps, sharing or network.sharing, allowed=allowed, running=running, limits=limits)


def _placement(
    instance: Instance,
    apps: Sequence[App],
    method: str,
    assignment: dict[str, str],
    hosts: npt.NDArray[np.uint32],
    elapsed_s: float,
    seed: int,
    bound_s: float,
) -> Placement:
    completion = instance.core.evaluate(hosts)
    if not math.isfinite(completion.seconds):
        raise GavotteError(f"the {told(completion.bottleneck)} would take forever", hint="correct its rate")
    bound_s = max(instance.core.bound_s(), bound_s)
    return Placement(
        apps=[app.name for app in apps],
        method=method,
        assignment=assignment,
        completion_s=completion.seconds,
        bound_s=min(bound_s, completion.seconds),
        optimal=completion.seconds <= bound_s * (1 + PROVEN),
        bottleneck=told(completion.bottleneck),
        elapsed_s=elapsed_s,
        seed=seed,
    )


def told(bottleneck: _core.Bottleneck | None) -> str:
    """The bottleneck in words: `egress of vm3: 265 MB at 300 Mbit/s in phase 0`."""
    if bottleneck is None:
        return "none: nothing crosses a limited link"
    amount, rate = format_bytes(bottleneck.bytes), format_rate(bottleneck.rate_bps)
    return f"{bottleneck.link}: {amount} at {rate} in phase {bottleneck.phase}"
