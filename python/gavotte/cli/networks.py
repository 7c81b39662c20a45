"""The Network of a verb that reads one or measures it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gavotte.cli.declared import option
from gavotte.cli.options import Seed
from gavotte.cli.output import note, unknown_pairs, warn
from gavotte.cli.progress import progress
from gavotte.errors import GavotteError

if TYPE_CHECKING:
    from gavotte.formats.history import History
    from gavotte.formats.inventory import Inventory
    from gavotte.formats.network import Network
    from gavotte.place import Effort, Watch


@dataclass(frozen=True)
class SearchOptions:
    """How hard to search."""

    time_limit: float = option("Wall-clock time for the search.", "SECONDS", default=10.0, min=0.01, max=1e6)
    seed: Seed = 0


def read_or_measure(network: Path | None, hosts: str | None, option_name: str, seed: int) -> Network:
    """Return the Network of a file, or of some of its hosts, or measure hosts and the links that they share.

    Args:
        network: a Network; None = measure.
        hosts: which hosts to measure; with a Network, those of its hosts that are meant, in their order.
        option_name: the option that names the hosts.
        seed: seed of the measurement.

    Raises:
        BadParameter: when neither is given.
        GavotteError: when a path does not answer, or the Network lacks a host.
    """
    if network is None and hosts is None:
        raise typer.BadParameter(f"give --network, {option_name} or both")
    from gavotte.formats.network import read_network

    if network is None:
        assert hosts is not None
        return _measured(hosts, seed)
    known = read_network(network)
    if hosts is not None:
        known = known.of_hosts(_places(known, hosts, option_name))
    warn(unknown_pairs(known))
    return known


def _places(network: Network, hosts: str, option_name: str) -> list[int]:
    """Return where the Network has these hosts. Names that it knows need no address here."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.parts.names import known_as, unknown_host

    at = {name: place for place, name in enumerate(network.names)}
    names = [known_as(name.strip(), at) for name in hosts.split(",")]
    if not any(name in at for name in names):
        names = [known_as(host.name, at) for host in resolve_hosts(hosts).host]
    for name in names:
        if name not in at:
            raise unknown_host(name, at, f"{option_name}: the network")
    return list(dict.fromkeys(at[name] for name in names))


def _measured(hosts: str, seed: int) -> Network:
    """Measure these hosts, and the links that they share."""
    from gavotte.agents import resolve_hosts
    from gavotte.model import model

    return model(measured_history(resolve_hosts(hosts), seed))


def measured_history(inventory: Inventory, seed: int) -> History:
    """Measure all pairs of hosts, and the links that they share. Print the cost before.

    If there are many hosts, few pairs show the rates of all. A line says how many of the others may be off.

    Raises:
        GavotteError: when a path does not answer.
    """
    from gavotte.cli.estimate import plan_with
    from gavotte.cli.sharing import experiment
    from gavotte.measure import MeasureQuestion, MeasureSession, carry_out
    from gavotte.model import check_held_out

    question = MeasureQuestion(inventory, seed=seed, scale="auto")
    few_pairs = question.paths.sparse
    question = replace(question, sharing=not few_pairs)
    plan = plan_with(question, None)
    with progress("measuring", "paths") as advance:
        advance(0, plan.reachable.paths)
        result = carry_out(plan, MeasureSession(advance))
    warn(result.warnings)
    if result.answered < result.paths:
        raise GavotteError(
            f"only {result.answered} of {result.paths} paths answered",
            hint="`gavotte hosts check` names the cause; or measure with `gavotte measure`, and use --network",
        )
    if few_pairs:
        # Their links were filled already.
        if check := check_held_out(result.history):
            note(check.sentence)
        return result.history
    history, _experiments = experiment(question.inventory, result.history, seed=seed)
    return history


def effort_of(searched: SearchOptions, watch: Watch) -> Effort:
    """Return how hard to search, and what to call meanwhile."""
    from gavotte.place import Effort

    return Effort(time_limit_s=searched.time_limit, seed=searched.seed, watch=watch)


def with_inventory_at(network: Network, path: Path | None) -> Network:
    """Return the Network with what an Inventory knows of its hosts."""
    if path is None:
        return network
    from gavotte.formats.inventory import read_inventory
    from gavotte.place import with_inventory

    return with_inventory(network, read_inventory(path))
