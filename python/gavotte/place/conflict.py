"""Explain why no placement exists, by a minimal set of tasks and constraints that contradict each other.

The set is minimal in the strict sense: without any one of them a placement would exist. CP-SAT's core of assumptions is
a first set. Leaving out one demand after the other makes it minimal.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes, format_rate
from gavotte.place.columns import build_instance
from gavotte.place.exact.compact import PRICE_TICKS, keep_room, places, price_terms
from gavotte.place.exact.cpsat import CHILD, parameters
from gavotte.place.exact.solver import Solver
from gavotte.place.exact.text import Literal, Model, negated
from gavotte.place.limits import PlacementLimits
from gavotte.place.merge import task_key
from gavotte.place.question import Question
from gavotte.place.rule_columns import bounds_of, labelled_hosts, prices
from gavotte.place.running import Running
from gavotte.place.zones import zones_by

logger = logging.getLogger(__name__)

MOST_LITERALS = 20_000
"""Largest product of tasks and hosts for which a conflict is searched."""

_SHOWN = 8

_At = Mapping[str, dict[str, Literal]]
"""Task key to host to literal."""


def find_conflict(question: Question, *, limit_s: float) -> InfeasibleError | None:
    """Look for the reason why no placement exists.

    Args:
        question: a question without an answer.
        limit_s: approximate time limit for all attempts together, in seconds.

    Returns:
        An error that names a minimal conflicting set; None if there is a placement, or if that could not be decided.
    """
    network, apps = question.network, question.apps
    if len(network.hosts) * sum(len(app.task) for app in apps) > MOST_LITERALS:
        return None
    model, demands = _model(network, apps, question.allowed, question.running, question.limits)
    try:
        core = _shrink(model, demands, limit_s)
    except GavotteError as error:
        logger.debug("cannot tell which demands conflict: %s", error)
        return None
    return None if core is None else _contradiction(network, apps, [demands[literal] for literal in core])


def _model(
    network: Network,
    apps: Sequence[App],
    allowed: Mapping[str, Sequence[str]],
    running: Sequence[Running],
    limits: PlacementLimits,
) -> tuple[Model, dict[Literal, str]]:
    """Return a model and the name of each demand by its literal.

    If a demand's literal is true, its task must have a host, or its constraint must be kept.
    """
    bare = [app.model_copy(update={"constraints": type(app.constraints)()}) for app in apps]
    instance = build_instance(network, bare, "pipe", running=running)
    model = Model()
    literals = places(instance, model)
    keep_room(instance, model, literals)
    names = network.names
    at = {
        task: {names[host]: literal for host, literal in hosts_of.items()}
        for task, hosts_of in zip(instance.tasks, literals, strict=True)
    }
    demands: dict[Literal, str] = {}
    for task, hosts_of in at.items():
        wanted = model.boolean()
        demands[wanted] = f"task `{task}`"
        model.linear([(1, literal) for literal in hosts_of.values()], most=1)
        model.clause([negated(wanted), *hosts_of.values()])
    for task, hosts in allowed.items():
        kept = model.boolean()
        demands[kept] = f"the hosts allowed to `{task}`"
        for host, literal in at[task].items():
            if host not in hosts:
                model.clause([negated(kept), negated(literal)])
    for app in apps:
        for rule in _rules(network, app, apps, at, model):
            kept = model.boolean()
            demands[kept] = f"`{rule.name}`" if len(apps) == 1 else f"`{rule.name}` of application `{app.name}`"
            for clause in rule.clauses:
                model.clause([negated(kept), *clause])
            for chosen, least, most in rule.counts:
                if not chosen and least > 0:
                    model.clause([negated(kept)])
                model.linear([(1, literal) for literal in chosen], least=least, most=most, only_if=kept)
    if limits.max_hosts is not None:
        used = _used(model, at.values(), names)
        kept = model.boolean()
        demands[kept] = f"at most {limits.max_hosts} hosts"
        model.linear([(1, literal) for literal in used], most=limits.max_hosts, only_if=kept)
    if limits.max_latency_s is not None:
        kept = model.boolean()
        demands[kept] = f"a latency of at most {limits.max_latency_s:.3g} s"
        index = {name: m for m, name in enumerate(names)}
        for app in apps:
            for transfer in app.transfer:
                ends = [at[task_key(app, task, apps)] for task in (transfer.source, transfer.target)]
                for m, near in ends[0].items():
                    for n, far in ends[1].items():
                        if m != n and not _near(network.pair_latency_s(index[m], index[n]), limits.max_latency_s):
                            model.clause([negated(kept), negated(near), negated(far)])
    index = {name: m for m, name in enumerate(names)}
    for quota in limits.quotas:
        kept = model.boolean()
        demands[kept] = f"what the {quota.link} can guarantee ({format_rate(quota.most_bps)})"
        needs = {task: math.ceil(quota.needs_bps.get(task, 0.0)) for task in instance.tasks}
        terms = [
            (need, at[task][host]) for task, need in needs.items() if need for host in quota.hosts if host in at[task]
        ]
        model.linear(terms, most=math.floor(quota.most_bps), only_if=kept)
    max_price = prices(network, limits)
    if max_price is not None:
        kept = model.boolean()
        demands[kept] = f"a price of at most {limits.max_price_usd:g} USD"
        model.linear(price_terms(instance, model, literals, max_price), most=PRICE_TICKS, only_if=kept)
    return model, demands


def _used(model: Model, places_: Iterable[dict[str, Literal]], names: Sequence[str]) -> list[Literal]:
    """Return one literal for each host, true if any of the given tasks runs on that host."""
    used = {host: model.boolean() for host in names}
    for literals in places_:
        for host, literal in literals.items():
            model.clause([negated(literal), used[host]])
    return list(used.values())


@dataclass(frozen=True)
class _Rule:
    """A constraint as clauses, and as literals of which at least and at most some must be true."""

    name: str
    clauses: list[list[Literal]] = field(default_factory=list)
    counts: list[tuple[list[Literal], int, int]] = field(default_factory=list)


def _rules(network: Network, app: App, apps: Sequence[App], at: _At, model: Model) -> Iterator[_Rule]:
    """Yield each constraint that must be kept."""
    given = app.constraints

    def here(task: str) -> dict[str, Literal]:
        return at[task_key(app, task, apps)]

    def in_zones(tasks: Sequence[str], by: str) -> dict[str, list[Literal]]:
        """Return, for each zone, a literal for each task and host in it."""
        zone_of = dict(zip(network.names, zones_by(network, by), strict=True))
        zones: dict[str, list[Literal]] = {zone: [] for zone in zone_of.values()}
        for task in tasks:
            for host, literal in here(task).items():
                zones[zone_of[host]].append(literal)
        return zones

    for task, host in given.pin.items():
        yield _Rule(f"pin.{task}", [[here(task)[host]] if host in here(task) else []])
    for i, group in enumerate(given.groups_apart):
        if group.price_s is None:
            yield _Rule(
                f"apart[{i}]", counts=[(literals, 0, 1) for literals in in_zones(group.tasks, group.by).values()]
            )
    for i, group in enumerate(given.groups_together):
        if group.price_s is not None:
            continue
        clauses = []
        zone_of = dict(zip(network.names, zones_by(network, group.by), strict=True))
        for one, other in pairwise(group.tasks):
            for a, b in ((here(one), here(other)), (here(other), here(one))):
                for host, literal in a.items():
                    near = [mate for host_of, mate in b.items() if zone_of[host_of] == zone_of[host]]
                    clauses.append([negated(literal), *near])
        yield _Rule(f"together[{i}]", clauses)
    index = {name: number for number, name in enumerate(network.names)}
    for i, bound in enumerate(given.max_latency):
        far = [
            [negated(a), negated(b)]
            for m, a in here(bound.source).items()
            for n, b in here(bound.target).items()
            if m != n and not _near(network.pair_latency_s(index[m], index[n]), bound.seconds)
        ]
        if bound.price_s is None:
            yield _Rule(f"max_latency[{i}]", far)
    for i, spread in enumerate(given.spread):
        if spread.price_s is None:
            tasks = spread.tasks or [task.name for task in app.task]
            zones = in_zones(tasks, spread.by)
            least, most = bounds_of(spread, len(tasks), len(zones))
            yield _Rule(f"spread[{i}]", counts=[(literals, least, most) for literals in zones.values()])
    for i, labelled in enumerate(given.labels):
        alone = app.model_copy(update={"constraints": given.model_copy(update={"labels": [labelled]})})
        barred = [
            [negated(literal)]
            for task, (hosts, _) in labelled_hosts(network, alone).items()
            for host, literal in here(task).items()
            if host not in hosts
        ]
        if labelled.price_s is None:
            yield _Rule(f"labels[{i}]", barred)
    if given.max_hosts is not None:
        used = _used(model, (here(member.name) for member in app.task), network.names)
        yield _Rule("max_hosts", counts=[(used, 0, given.max_hosts)])


def _near(latency_s: float | None, most_s: float) -> bool:
    return latency_s is not None and latency_s <= most_s


def _shrink(model: Model, demands: Mapping[Literal, str], limit_s: float) -> list[Literal] | None:
    """Return a minimal set of demands that cannot all be met; None if all can be met, or time runs out."""
    text = model.text()
    options = parameters(limit_s=limit_s / 4, deterministic_s=limit_s / 4, seed=0)
    with Solver(CHILD) as solver:

        def core(wanted: Sequence[Literal]) -> list[Literal] | None:
            listed = ", ".join(map(str, wanted))
            answer = solver.ask({"model": f"{text}\nassumptions: [{listed}]", "parameters": options}, limit_s)
            if answer["status"] != "INFEASIBLE":
                return None
            conflicting = set(answer["core"])
            return [literal for literal in wanted if literal in conflicting]

        kept = core(list(demands))
        if kept is None:
            return None
        # Constraints first, so that the message names a contradiction among them before tasks' needs.
        tasks = {literal for literal, name in demands.items() if name.startswith("task `")}
        for literal in sorted(kept, key=lambda literal: (literal not in tasks, literal)):
            if literal in kept:
                smaller = core([other for other in kept if other != literal])
                kept = kept if smaller is None else smaller
        return kept


def _contradiction(network: Network, apps: Sequence[App], names: Sequence[str]) -> InfeasibleError:
    tasks = [name for name in names if name.startswith("task `")]
    rules = [name for name in names if not name.startswith("task `")]
    if rules:
        joined = _listed(rules + (tasks if len(tasks) <= _SHOWN else [f"{len(tasks)} tasks"]))
        verb = "contradict each other" if len(names) > 1 else "cannot be kept"
        return InfeasibleError(f"no placement exists: {joined} {verb}", hint="relax any one of them")
    keys = {f"task `{task_key(app, task.name, apps)}`": task for app in apps for task in app.task}
    needs = f"{sum(keys[name].cpus for name in tasks):g} cpus"
    for what in ("memory", "storage"):
        size = sum(getattr(keys[name], f"{what}_bytes") for name in tasks)
        needs += f" and {format_bytes(size)} of {what}" if size else ""
    pieces: Counter[str] = Counter()
    for name in tasks:
        pieces.update(keys[name].resources)
    needs += "".join(f" and {count} {what}" for what, count in sorted(pieces.items()))
    offers = f"{counted(len(network.hosts), 'host')} with {sum(network.offered_cpus):g} cpus"
    if len(tasks) == 1:
        return InfeasibleError(
            f"no placement exists: {tasks[0]} needs {needs}, more than any host has free",
            hint="add a larger host, or split the task",
        )
    return InfeasibleError(
        f"no placement exists: {_listed(tasks)} need {needs} and do not fit together on the {offers}",
        hint="add hosts, or make any one of these tasks smaller",
    )


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:_SHOWN])
    if len(names) > _SHOWN:
        shown.append(f"{len(names) - _SHOWN} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
