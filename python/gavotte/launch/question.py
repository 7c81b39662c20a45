"""What is asked of a launch, and what is called meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gavotte.formats.app import App
from gavotte.formats.history import History
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.place import Effort

if TYPE_CHECKING:
    from gavotte.formats.trace import MpiTrace

DAY_S = 86_400.0
PLACE_S = 3.0
"""Default time limit of the search for an order, in seconds. It ends before if the order is proven to be the best."""


@dataclass(frozen=True)
class LaunchQuestion:
    """A job to start, and what is known of its hosts and messages.

    Attributes:
        command: the launcher's command line.
        hosts: the hosts, as `agents.resolve_hosts` takes them; None = those of the Network, or of Slurm's allocation.
        network: the Network between the hosts; None = the store's, or measured now.
        app: the job's messages; None = the store's, or counted in this run.
        trace: the trace that belongs to `app`; None = there is none.
        store: the store's URL; None = the user's own.
        max_age_s: oldest measurement of the store that counts, in seconds.
        measuring: whether hosts may be measured now.
        counting: whether to count the messages in this run although they are known.
        scratch: folder that all hosts share, for the counts of ranks; None = below the user's cache folder.
        effort: how hard to search for an order.
        tuning: whether the MPI library's algorithms for collectives may be set.
        reorder_sums: whether they may add sums in another order.
        self_tuning: whether the preloaded library tunes collectives while the job runs; `tuning` is False then.
        explaining: whether the preloaded library prints at the end what it kept.
        dry: whether the job will not be started: nothing is measured, reached or written.
    """

    command: Sequence[str]
    hosts: str | None = None
    network: Network | None = None
    app: App | None = None
    trace: MpiTrace | None = None
    store: str | None = None
    max_age_s: float = DAY_S
    measuring: bool = True
    counting: bool = False
    scratch: Path | None = None
    effort: Effort = field(default_factory=lambda: Effort(time_limit_s=PLACE_S))
    tuning: bool = True
    reorder_sums: bool = False
    self_tuning: bool = False
    explaining: bool = False
    dry: bool = False


@dataclass(frozen=True)
class LaunchSession:
    """Callbacks of a launch.

    Attributes:
        measure: measures hosts, prints the cost before, and returns the History.
        note: called with a line about what happens.
        complain: called with a warning.
        started: called as the job starts, with a function that sends a signal to it. What it raises ends the launch.
    """

    measure: Callable[[Inventory], History]
    note: Callable[[str], None]
    complain: Callable[[str], None]
    started: Callable[[Callable[[int], None]], None] = lambda _: None
