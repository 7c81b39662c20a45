"""A placement for each phase, if moving tasks between phases saves more time than moving their state costs.

The states of tasks that move before a phase are a phase of transfers of their own, priced like any other. The search
has three parts:

1. It finds the best placement of each stage, and of each two in a row.
2. It finds the cheapest path through these (Viterbi).
3. It places stages again between their neighbours. The neighbours' tasks are pinned, as ends of the states' transfers.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import InfeasibleError
from gavotte.formats.app import App, Constraints, Task, Transfer
from gavotte.formats.network import Network
from gavotte.formats.placement import Move
from gavotte.place.answer import Answer
from gavotte.place.columns import Instance, build_instance
from gavotte.place.constraints import check_constraints, price_usd
from gavotte.place.effort import Effort
from gavotte.place.exact.solution import PROVEN
from gavotte.place.merge import task_key, task_keys
from gavotte.place.placing import solve
from gavotte.place.question import Question, bottleneck_text, hosts_of
from gavotte.terms.unfolding import unfold
from gavotte.terms.usage import as_credited, as_used, at_best, depends_on_use

STAGES = 16
"""Most runs of phases that get a placement of their own: those between which traffic changes most."""

WHOLE_SHARE = 0.4
STAGES_SHARE = 0.35
"""Shares of the time limit for one placement of all phases, and for those of stages. The rest improves the path."""

ROUNDS = 2
"""Number of times that each stage is placed again between its neighbours."""

LEAST_S = 0.02
"""Least time for which a placement is tried."""

LEAST_GAIN = 1e-6
"""A saving below this share is rounding."""

_Hosts = npt.NDArray[np.uint32]
_Place = Callable[[Sequence[App], Mapping[str, Sequence[str]], float], Answer | None]


def solve_phases(question: Question, effort: Effort) -> Answer:
    """Find a placement whose tasks change their hosts between phases where that pays.

    Room on hosts and constraints are kept in every phase; `max_hosts` of an application counts all that it ever uses.
    While a state moves, it takes no room at the other end.

    Args:
        question: its `state_bytes` names the tasks that may move; see `states`. It has no limits and no running
            applications.
        effort: its method places each phase.

    Returns:
        The answer, whose Placement has `moves` if these pay; its bound is below every placement with moves, too.

    Raises:
        InfeasibleError: when the method finds no placement that keeps all constraints.
        GavotteError: when the request makes no sense.
    """
    begin_s = effort.clock()
    apps, state_bytes, allowed = question.apps, question.state_bytes, dict(question.allowed)
    time_limit_s, repeatable = effort.time_limit_s, effort.repeatable
    stages = _stages(apps)
    if len(stages) < 2 or not state_bytes:
        return solve(question, effort)
    whole = solve(question, replace(effort, time_limit_s=time_limit_s * WHOLE_SHARE))
    stopped, interrupted, bound_stopped = whole.stopped, whole.interrupted, whole.bound_stopped
    depends, best = question.depends_on_use, at_best(question.network)
    if depends:  # all stages have the credits that the placement of all phases leaves them
        question = replace(question, network=as_credited(question.network, apps, whole.placement.assignment))

    def attempt(what: Sequence[App], only: Mapping[str, Sequence[str]], limit_s: float) -> Answer | None:
        nonlocal stopped, interrupted, bound_stopped
        if not repeatable:
            limit_s = min(limit_s, begin_s + time_limit_s - effort.clock())
        if interrupted or limit_s < (0.0 if repeatable else LEAST_S):
            stopped = True
            return None
        try:
            # Starting a solver for each of many stages would take longer than it saves.
            method = "search" if effort.method in ("auto", "optimal") else effort.method
            stage = replace(question, apps=what, allowed=only)
            answer = solve(stage, replace(effort, method=method, time_limit_s=limit_s))
        except InfeasibleError:  # from a method that got stuck
            return None
        stopped, interrupted = stopped or answer.stopped, answer.interrupted
        bound_stopped = bound_stopped or answer.bound_stopped
        return answer

    free = _free(apps, whole.placement.assignment, state_bytes, dict(allowed))
    weigh = _Weigh(question, stages)
    pool, bound_s = [weigh.hosts(whole.placement.assignment)], 0.0
    path = pool * len(stages)

    def over() -> bool:
        return interrupted or (not repeatable and effort.clock() - begin_s > time_limit_s)

    try:
        share_s = time_limit_s * STAGES_SHARE / (2 * len(stages) - 1)
        for stage in stages:
            answer = attempt(stage, free, share_s)
            # A bound with tasks pinned to the hosts of the whole placement does not hold for other hosts.
            proven_s = answer.placement.bound_s if answer is not None and free == allowed and not depends else 0.0
            bound_s += max(proven_s, build_instance(best, stage, question.shared).core.bound_s())
            pool += [] if answer is None else [weigh.hosts(answer.placement.assignment)]
        for one, other in itertools.pairwise(stages) if len(stages) > 2 else ():
            answer = attempt(_joined(one, other), free, share_s)
            pool += [] if answer is None else [weigh.hosts(answer.placement.assignment)]
        path = _cheapest(weigh, pool)
        share_s = time_limit_s * (1 - WHOLE_SHARE - STAGES_SHARE) / (2 * ROUNDS * len(stages))
        path = _improved(weigh, path, free, lambda what, only: attempt(what, only, share_s))
        path = _spared(weigh, path, over)
    except BaseException as signal:
        if isinstance(signal, Exception):
            raise
        stopped = interrupted = bound_stopped = True  # the best path so far is the answer
    unmoved_s = weigh(pool[:1] * len(stages)) if depends else whole.placement.completion_s
    if weigh(path) >= unmoved_s * (1 - LEAST_GAIN):
        path = [pool[0]] * len(stages)
    whole = replace(whole, stopped=stopped, interrupted=interrupted, bound_stopped=bound_stopped)
    return _answer(weigh, path, whole, bound_s, effort.clock() - begin_s)


def _stages(apps: Sequence[App]) -> list[list[App]]:
    """Return the applications of each stage, with the transfers of one run of phases.

    Adjacent phases with equal traffic are one run, however long.
    """
    traffic: dict[int, Counter[tuple[str, str, str]]] = {}
    for app in apps:
        for transfer in app.transfer:
            if transfer.bytes > 0 and transfer.source != transfer.target:
                traffic.setdefault(transfer.phase, Counter())[app.name, transfer.source, transfer.target] += (
                    transfer.bytes
                )
    phases = sorted(traffic)
    change = {
        later: sum(abs(traffic[phase][way] - traffic[later][way]) for way in traffic[phase] | traffic[later])
        for phase, later in itertools.pairwise(phases)
    }
    firsts = sorted(sorted((phase for phase in change if change[phase]), key=lambda each: -change[each])[: STAGES - 1])
    limits = [-math.inf, *firsts, math.inf]
    return [
        [app.model_copy(update={"transfer": [t for t in app.transfer if first <= t.phase < end]}) for app in apps]
        for first, end in itertools.pairwise(limits)
    ]


def _joined(one: Sequence[App], other: Sequence[App]) -> list[App]:
    """Return two stages as one: each application with the transfers of both."""
    return [
        first.model_copy(update={"transfer": [*first.transfer, *second.transfer]})
        for first, second in zip(one, other, strict=True)
    ]


def _free(
    apps: Sequence[App], places: Mapping[str, str], state_bytes: Mapping[str, int], allowed: dict[str, Sequence[str]]
) -> dict[str, Sequence[str]]:
    """Return the hosts allowed in a stage, by task key. Tasks that stay have their host in the placement of all phases.

    Tasks of an application with `max_hosts` may use only the hosts that the application has there.
    """
    for app in apps:
        keys = [task_key(app, task.name, apps) for task in app.task]
        used = {places[key] for key in keys}
        for key in keys:
            if key not in state_bytes:
                allowed[key] = [places[key]]
            elif app.constraints.max_hosts is not None:
                allowed[key] = sorted(used & set(allowed.get(key, used)))
    return allowed


class _Weigh:
    """Function that returns the seconds of a path: of its stages, each on a row of hosts, and of the moves between."""

    def __init__(self, question: Question, stages: Sequence[Sequence[App]]) -> None:
        self.network, self.apps, self.state_bytes = question.network, question.apps, question.state_bytes
        self.stages = stages
        self._sharing = question.shared
        self.keys = list(task_keys(self.apps))
        self._instances = [self.instance(stage) for stage in stages]
        self._moving = _moving(self.network, self.keys, self.state_bytes, self._sharing)
        self._depends = depends_on_use(self.network, self.apps)
        self._known: dict[tuple[int, bytes, bytes], float] = {}

    def instance(self, apps: Sequence[App]) -> Instance:
        """Return the problem of placing these applications alone."""
        return build_instance(self.network, apps, self._sharing)

    def hosts(self, assignment: Mapping[str, str]) -> _Hosts:
        """Return an assignment as host indices, in the order of `keys`."""
        return hosts_of(self._instances[0], {key: assignment[key] for key in self.keys})

    def places(self, hosts: _Hosts) -> dict[str, str]:
        """Return host indices as an assignment of task keys to host names."""
        names = self.network.names
        return {key: names[host] for key, host in zip(self.keys, hosts, strict=True)}

    def stage(self, number: int, hosts: _Hosts) -> _core.Completion:
        """Return a stage's completion by the rates of its own assignment; raise an error if hosts are overbooked."""
        if not self._depends:
            return self._instances[number].core.evaluate(hosts)
        apps = self.stages[number]
        network = as_used(self.network, apps, self.places(hosts))
        return build_instance(network, apps, self._sharing).core.evaluate(hosts)

    def moving(self, before: _Hosts, after: _Hosts) -> _core.Completion:
        """Return the completion of moving the states of all tasks that change their hosts."""
        return self._moving.core.evaluate(np.concatenate([before, after]))

    def stage_s(self, number: int, hosts: _Hosts) -> float:
        """Return a stage's time in seconds, computed once for each row of hosts."""
        key = (number, hosts.tobytes(), b"")
        if key not in self._known:
            self._known[key] = self.stage(number, hosts).seconds
        return self._known[key]

    def moving_s(self, before: _Hosts, after: _Hosts) -> float:
        """Return the seconds of moving states, computed once for each two rows of hosts."""
        key = (-1, before.tobytes(), after.tobytes())
        if key not in self._known:
            self._known[key] = self.moving(before, after).seconds
        return self._known[key]

    def __call__(self, path: Sequence[_Hosts]) -> float:
        stages = math.fsum(self.stage_s(number, hosts) for number, hosts in enumerate(path))
        return stages + math.fsum(self.moving_s(before, after) for before, after in itertools.pairwise(path))

    def fits(self, hosts: _Hosts) -> bool:
        """Return whether the hosts have room and keep every constraint."""
        try:
            self.stage(0, hosts)
            check_constraints(self.network, self.apps, self.places(hosts), "it")
        except InfeasibleError:
            return False
        return True


def _moving(network: Network, keys: Sequence[str], state_bytes: Mapping[str, int], sharing: str) -> Instance:
    """Return the problem of moving states: each task twice, before and after its move, without any need of room."""
    before, after = _ends(keys)
    tasks = [_end(name) for name in [*before, *after]]
    transfers = [
        Transfer.model_construct(source=source, target=target, bytes=state_bytes.get(key, 0), phase=0)
        for key, source, target in zip(keys, before, after, strict=True)
    ]
    app = App.model_construct(
        format="gavotte/app/1", name="moves", task=tasks, transfer=transfers, constraints=Constraints()
    )
    return build_instance(network, [app], sharing)


def _ends(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return names for the two ends of each task's move. They contain a space, which no task's own name does."""
    return [f"{name} before" for name in names], [f"{name} after" for name in names]


def _end(name: str) -> Task:
    return Task.model_construct(name=name, cpus=0.0, memory_bytes=0, storage_bytes=0)


def _cheapest(weigh: _Weigh, pool: Sequence[_Hosts]) -> list[_Hosts]:
    """Return the path of least time in which each stage has one of the placements in `pool`."""
    pool = list({hosts.tobytes(): hosts for hosts in pool}.values())
    step_s = np.array([[weigh.moving_s(before, after) for after in pool] for before in pool])
    total_s = np.array([weigh.stage_s(0, hosts) for hosts in pool])
    came: list[npt.NDArray[np.intp]] = []
    for number in range(1, len(weigh.stages)):
        through_s = total_s[:, None] + step_s
        came.append(through_s.argmin(axis=0))
        total_s = through_s.min(axis=0) + [weigh.stage_s(number, hosts) for hosts in pool]
    at = [int(total_s.argmin())]
    for back in reversed(came):
        at.append(int(back[at[-1]]))
    return [pool[number] for number in reversed(at)]


def _runs(path: Sequence[_Hosts]) -> Iterator[tuple[int, int]]:
    """Yield each stage alone, then each run of stages without a move between them, as (first, last + 1)."""
    yield from ((number, number + 1) for number in range(len(path)))
    first = 0
    for number in range(1, len(path) + 1):
        if number == len(path) or not np.array_equal(path[number], path[first]):
            if number > first + 1:
                yield first, number
            first = number


def _improved(
    weigh: _Weigh,
    path: list[_Hosts],
    free: Mapping[str, Sequence[str]],
    place: Callable[[Sequence[App], Mapping[str, Sequence[str]]], Answer | None],
) -> list[_Hosts]:
    """Improve the path by placing stages again between their neighbours, while that helps."""
    best_s = weigh(path)
    for _ in range(ROUNDS):
        before_s = best_s
        for first, end in list(_runs(path)):
            left = weigh.places(path[first - 1]) if first > 0 else None
            right = weigh.places(path[end]) if end < len(path) else None
            what, pinned = _between(weigh, first, end, left, right)
            answer = place(what, {**free, **pinned})
            if answer is None:
                continue
            hosts = weigh.hosts(answer.placement.assignment)
            tried = [*path[:first], *[hosts] * (end - first), *path[end:]]
            if (tried_s := weigh(tried)) < best_s * (1 - LEAST_GAIN):
                path, best_s = tried, tried_s
        if best_s >= before_s * (1 - LEAST_GAIN):
            break
    return path


def _between(
    weigh: _Weigh, first: int, end: int, left: Mapping[str, str] | None, right: Mapping[str, str] | None
) -> tuple[list[App], dict[str, Sequence[str]]]:
    """Return some stages with the transfers of states before and after them, and the hosts of their pinned ends."""
    what: list[App] = []
    pinned: dict[str, Sequence[str]] = {}
    last = 1 + max((t.phase for stage in weigh.stages[first:end] for app in stage for t in app.transfer), default=0)
    for number, app in enumerate(weigh.apps):
        names = [task.name for task in app.task if weigh.state_bytes.get(task_key(app, task.name, weigh.apps), 0) > 0]
        tasks = list(app.task)
        transfers = [
            transfer.model_copy(update={"phase": transfer.phase + 1})
            for stage in weigh.stages[first:end]
            for transfer in stage[number].transfer
        ]
        sources, targets = _ends(names)
        for ends, places, incoming in ((sources, left, True), (targets, right, False)):
            if places is None:
                continue
            tasks += [_end(name) for name in ends]
            for name, other in zip(names, ends, strict=True):
                key = task_key(app, name, weigh.apps)
                source, target = (other, name) if incoming else (name, other)
                size, phase = weigh.state_bytes[key], 0 if incoming else last + 1
                transfers.append(Transfer.model_construct(source=source, target=target, bytes=size, phase=phase))
                pinned[task_key(app, other, weigh.apps)] = [places[key]]
        # The allowed hosts already limit how many hosts the application uses.
        rules = app.constraints.of_tasks([task.name for task in app.task])
        rules = rules.model_copy(update={"max_hosts": None})
        what.append(app.model_copy(update={"task": tasks, "transfer": transfers, "constraints": rules}))
    return what, pinned


def _with(path: Sequence[_Hosts], stages: Iterable[int], task: int, host: int) -> list[_Hosts]:
    """Return the path with a task on this host in the given stages."""
    changed = list(path)
    for stage in stages:
        changed[stage] = changed[stage].copy()
        changed[stage][task] = host
    return changed


def _spared(weigh: _Weigh, path: list[_Hosts], over: Callable[[], bool]) -> list[_Hosts]:
    """Return the path without the moves of single tasks that save nothing.

    Instead of such a move, the task stays on its former host, or is on its next host earlier.
    """
    best_s, again = weigh(path), True
    while again:
        again = False
        for stage, task in itertools.product(range(1, len(path)), range(len(weigh.keys))):
            was, now = path[stage - 1][task], path[stage][task]
            if was == now:
                continue
            for host, run in ((was, _stay(path, stage, task, 1)), (now, _stay(path, stage - 1, task, -1))):
                if over():
                    return path
                tried = _with(path, run, task, host)
                if all(weigh.fits(tried[number]) for number in run) and (tried_s := weigh(tried)) <= best_s:
                    path, best_s, again = tried, tried_s, True
                    break
    return path


def _stay(path: Sequence[_Hosts], stage: int, task: int, step: int) -> list[int]:
    """Return the stages from `stage` on, forwards or backwards by `step`, in which a task keeps its host of `stage`."""
    stages = [stage]
    while 0 <= (following := stages[-1] + step) < len(path) and path[following][task] == path[stage][task]:
        stages.append(following)
    return stages


def _answer(weigh: _Weigh, path: list[_Hosts], whole: Answer, bound_s: float, elapsed_s: float) -> Answer:
    moves, parts = [], [(weigh.stage(0, path[0]), "")]
    for number, (before, after) in enumerate(itertools.pairwise(path), 1):
        phase = min(t.phase for app in weigh.stages[number] for t in app.transfer)
        parts += [(weigh.moving(before, after), f" before phase {phase}"), (weigh.stage(number, after), "")]
        moves += [
            Move(task=key, phase=phase, host=weigh.network.names[after_host], bytes=weigh.state_bytes[key])
            for key, before_host, after_host in zip(weigh.keys, before, after, strict=True)
            if before_host != after_host
        ]
    completion_s = math.fsum(part.seconds for part, _ in parts)
    slowest = [(part.bottleneck, moving) for part, moving in parts if part.bottleneck is not None]
    bottleneck, moving = max(slowest, key=lambda one: one[0].seconds, default=(None, ""))
    bottleneck_words = bottleneck_text(bottleneck)
    if moving:
        bottleneck_words = bottleneck_words.rpartition(" in phase ")[0] + " of states" + moving
    placement = whole.placement.model_copy(
        update={
            "assignment": weigh.places(path[0]),
            "moves": moves,
            "completion_s": completion_s,
            "bound_s": min(bound_s, completion_s),
            "optimal": completion_s <= bound_s * (1 + PROVEN),
            "bottleneck": bottleneck_words,
            "elapsed_s": elapsed_s,
        }
    )
    gap = 0.0 if placement.optimal or not completion_s else 1 - placement.bound_s / completion_s
    apps, written_out = unfold(weigh.apps, placement)
    return replace(
        whole,
        placement=placement,
        gap=gap,
        price_usd=price_usd(weigh.network, apps, written_out.assignment),
        unmoved_s=whole.placement.completion_s,
    )
