"""Set the MPI library's own algorithms for a job's collectives, where the replay of its trace predicts that it pays.

1. The trace shows the job's collectives: operation, sizes, roots and communicators.
2. For each size of communicator, `collective.tuning` chooses algorithms on the hosts of the job's order.
3. The whole job is replayed with these settings. They are used if it takes `LEAST_SAVING` less time.
4. Then it is replayed with trees of the preloaded library for its broadcasts. They are used if that saves as much
   again.
5. Open MPI reads a file, and the preloaded library is one. Ranks that cannot read them would take other algorithms than
   the rest, and wait for ever. So both must be in a folder that all hosts are known to share: those of a lab, or those
   of an earlier, counted run.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gavotte.collective import shim_text
from gavotte.collective.tuning import BUSY_OVERHEAD_S, Tuning, TuningQuestion, choose, settings_text, variables
from gavotte.errors import GavotteError
from gavotte.formats.collective import Collective
from gavotte.formats.network import Network
from gavotte.formats.trace import CollectiveCall, MpiTrace, passes
from gavotte.launch.launchers import CommandLine, Launcher
from gavotte.launch.past import Past
from gavotte.launch.question import LaunchQuestion, LaunchSession
from gavotte.launch.replaying import MOST_EVENTS, TracedJob
from gavotte.launch.scratch import scratch_root
from gavotte.launch.trees import along_trees, broadcast_trees
from gavotte.place.replaying import LEAST_SAVING
from gavotte.simulate import CollectiveReplay, JobReplay, MessageCosts
from gavotte.terms.algorithms import ALGORITHMS, REORDERING, Library, Setting

TUNE_VARIABLE = "GAVOTTE_TUNE"
"""Variable that turns all tuning of collectives off if its value is `off`."""

FILE = "settings"
"""Name of Open MPI's file of rules in the folder of a run."""

TREES = "trees"
"""Name of the preloaded library's trees there."""

SELF_KEY = "self"
"""Key of the settings of runs in which the preloaded library tunes itself, and its value of `TUNE_VARIABLE`."""

MOST_SIZES = 12
"""Most sizes of one operation that are predicted, those with the most bytes."""

MOST_S = 10.0
"""Longest time that the choice may take, in seconds."""


_OWN = re.compile(r"(^|_)coll(_|$)|MPIR_CVAR_\w*(ALGORITHM|COLL)")
"""Parameters and variables that choose collectives: `coll`, `OMPI_MCA_coll_tuned_...`, `MPIR_CVAR_..._ALGORITHM`."""


def tuning_off(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the user has turned tuning off."""
    return environ.get(TUNE_VARIABLE, "").lower() == "off"


@dataclass(frozen=True)
class JobTuning:
    """The settings of an MPI library for one job in one order of hosts.

    Attributes:
        library: the MPI library.
        tunings: the choices, one for each size of communicator.
        default_s: predicted wall time with the library's own choices.
        set_s: predicted wall time with the settings; as `default_s` if nothing is set.
        trees: trees of the preloaded library.
        trees_s: predicted wall time with the trees, and with the settings if they are used; None = there are no trees.
        replay: the replay of the job with what is used.
    """

    library: Library
    tunings: Sequence[Tuning]
    default_s: float
    set_s: float
    trees: Sequence[Collective] = ()
    trees_s: float | None = None
    replay: JobReplay | None = field(default=None, repr=False, compare=False)

    @property
    def saving(self) -> float:
        """Share of the predicted wall time that the settings save."""
        return 1 - self.set_s / self.default_s if self.default_s > 0 else 0.0

    @property
    def used(self) -> bool:
        """Whether the job runs with the settings."""
        return self.saving >= LEAST_SAVING

    @property
    def library_s(self) -> float:
        """Predicted wall time with the MPI library's algorithms, as they are set or by default."""
        return self.set_s if self.used else self.default_s

    @property
    def shimmed(self) -> bool:
        """Whether the job's broadcasts go along trees of the preloaded library."""
        return self.trees_s is not None and self.trees_s <= (1 - LEAST_SAVING) * self.library_s

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """The settings with which the job runs; empty = the library's own choices."""
        return tuple(each for tuning in self.tunings for each in tuning.settings) if self.used else ()

    @property
    def key(self) -> str:
        """Short name of the settings, by which runs are compared; empty = the library's own choices."""
        text = self.text * bool(self.settings) + self.trees_text * self.shimmed
        return hashlib.sha256(text.encode()).hexdigest()[:8] if text else ""

    @property
    def text(self) -> str:
        """The settings as the library reads them."""
        return settings_text(self.library, self.settings)

    @property
    def trees_text(self) -> str:
        """The trees as the preloaded library reads them."""
        return shim_text(self.trees) if self.trees else ""

    def variables(self, file: str) -> dict[str, str]:
        """Return the variables of ranks.

        Args:
            file: path of the settings' file.
        """
        return variables(self.library, self.settings, file)

    @property
    def verdict(self) -> str:
        """Which collectives are used and by how much they win, in one line."""
        trees = ""
        if self.shimmed and self.trees_s is not None:
            trees = f"broadcasts go along trees of the preloaded library, predicted {self._change(self.trees_s)}"
        if not self.used:
            own = "the MPI library's own choices, since no settings save 1 % of the predicted wall time"
            return f"collectives: {trees or own}"
        operations = ", ".join(dict.fromkeys(each.operation for each in self.settings))
        sums = any(each.operation in REORDERING for each in self.settings)
        order = "; sums are added in another order" if sums else ""
        return (
            f"collectives: the MPI library is set for {operations}, predicted {self._change(self.set_s)}{order}"
            + f"; then {trees}" * self.shimmed
        )

    def _change(self, seconds: float) -> str:
        """Return a wall time compared with that of the library's own choices."""
        return f"{seconds:.3g} s instead of {self.default_s:.3g} s ({seconds / self.default_s - 1:+.0%})"

    @property
    def document(self) -> dict[str, Any]:
        """The settings as a dictionary that can be written as JSON."""
        return {
            "library": self.library,
            "used": self.used,
            "default_predicted_s": self.default_s,
            "set_predicted_s": self.set_s,
            "trees_used": self.shimmed,
            "trees_predicted_s": self.trees_s,
            "choices": [
                {"ranks": tuning.question.members, **choice}
                for tuning in self.tunings
                for choice in tuning.document["choices"]
            ],
        }


def tune_job(
    job: TracedJob,
    trace: MpiTrace,
    order: Sequence[str],
    network: Network,
    library: Library,
    *,
    reorder_sums: bool,
    preloading: bool = False,
) -> JobTuning | None:
    """Choose settings for a job.

    Args:
        job: the job's trace on the Network.
        trace: the trace.
        order: host of each rank.
        network: the Network.
        library: the MPI library.
        reorder_sums: whether sums may be added in another order.
        preloading: whether broadcasts may go along trees of the preloaded library.

    Returns:
        The settings; None = the job has no collectives that settings change, or MPICH combines on hosts first.

    Raises:
        GavotteError: when the replay cannot go on, or the choice takes too long.
    """
    if library == "mpich" and len(set(order)) < len(order):
        return None
    groups = list(_groups(trace, library))
    if library == "mpich" and len({len(each.members) for each in groups}) > 1:
        return None  # its variables are for all communicators
    deadline_s = time.monotonic() + MOST_S
    tunings = [_tuning(each, order, network, library, deadline_s, reorder_sums) for each in groups]
    if not tunings:
        return None
    settings = [each for tuning in tunings for each in tuning.settings]
    default_s = job.wall_s(order)[0]
    set_s = job.wall_s(order, settings)[0] if settings else default_s
    in_library = JobTuning(library, tunings, default_s, set_s)
    in_library = replace(in_library, replay=job.replay.with_settings(in_library.settings))
    if not preloading or not (trees := broadcast_trees(trace, order, network, job.replay.seed, deadline_s)):
        return in_library
    costs = MessageCosts(library=library, most_events=MOST_EVENTS)
    replay = JobReplay(network, along_trees(trace, trees), costs, job.replay.seed)
    replay = replay.with_settings(in_library.settings)
    shimmed = replace(in_library, trees=tuple(trees.values()), trees_s=job.wall_of(replay, order)[0])
    return replace(shimmed, replay=replay) if shimmed.shimmed else shimmed


@dataclass(frozen=True)
class _Group:
    """The collectives of all communicators of one size.

    Attributes:
        members: ranks in MPI_COMM_WORLD of the communicator with the most calls.
        sizes: by operation: sizes.
        roots: roots by place in the communicator, the most frequent first.
    """

    members: tuple[int, ...]
    sizes: dict[str, list[int]]
    roots: tuple[int, ...]


def _groups(trace: MpiTrace, library: Library) -> Iterator[_Group]:
    """Yield the collectives of a trace that settings may change, by the size of their communicator."""
    calls: dict[int, Counter[tuple[str, int, int | None]]] = {}
    for number, communicator in enumerate(trace.communicators):
        first = communicator.members[0] if communicator.members else -1
        if communicator.remote or len(communicator.members) < 2 or not 0 <= first < len(trace.ranks):
            continue
        for each, times in passes(trace.ranks[first].operations):
            blocking = isinstance(each, CollectiveCall) and each.communicator == number and each.request is None
            if blocking and isinstance(each, CollectiveCall) and each.kind in ALGORITHMS[library]:
                calls.setdefault(number, Counter())[each.kind, each.bytes, each.root] += times
    by_size: dict[int, list[int]] = {}
    for number in calls:
        by_size.setdefault(len(trace.communicators[number].members), []).append(number)
    for numbers in by_size.values():
        most = max(numbers, key=lambda number: calls[number].total())
        members = trace.communicators[most].members
        volume: dict[str, Counter[int]] = {}
        roots: Counter[int] = Counter()
        for (kind, size, _), times in sum((calls[number] for number in numbers), Counter()).items():
            volume.setdefault(kind, Counter())[size] += times * max(size, 1)
        for (_, _, root), times in calls[most].items():
            if root in members:
                roots[members.index(root)] += times
        sizes = {kind: [size for size, _ in each.most_common(MOST_SIZES)] for kind, each in volume.items()}
        yield _Group(members, sizes, tuple(root for root, _ in roots.most_common(2)) or (0,))


def _tuning(
    group: _Group, order: Sequence[str], network: Network, library: Library, deadline_s: float, reorder_sums: bool
) -> Tuning:
    """Choose settings for communicators of one size."""
    hosts = [order[member] for member in group.members]
    costs = MessageCosts(library=library, most_events=MOST_EVENTS)
    replay = CollectiveReplay(network, hosts, costs)
    busy = CollectiveReplay(network, hosts, replace(costs, overhead_s=BUSY_OVERHEAD_S))

    def seconds(operation: str, size_bytes: int, root: int, setting: Setting | None) -> float:
        if time.monotonic() > deadline_s:
            raise GavotteError(f"the choice of collectives' algorithms took more than {MOST_S:.0f} s")
        return replay.seconds(operation, size_bytes, root, setting)

    question = TuningQuestion(library, len(hosts), group.sizes, group.roots, reorder_sums)
    return choose(question, seconds, busy.seconds)


def tuning_of(
    question: LaunchQuestion,
    session: LaunchSession,
    setup: Setup,
    job: TracedJob,
    trace: MpiTrace,
    order: Sequence[str],
    network: Network,
) -> tuple[JobTuning | None, str]:
    """Choose settings for a launch, if they may be set; a failure is a warning.

    Args:
        question: the question.
        session: callbacks.
        setup: how the job will be started.
        job: the job's trace on the Network.
        trace: the trace.
        order: host of each rank.
        network: the Network.

    Returns:
        The settings, and an empty text; without settings None, and the reason in words.
    """
    library = setup.launcher.tunable
    sharing = setup.shared or any(_shared(each, order, question) for each in job.past)
    if not question.tuning:
        return None, f"{TUNE_VARIABLE} is off"
    if library is None:
        return None, f"no settings are known for {setup.launcher.title}"
    if own_settings(setup.line, setup.environ):
        return None, "you have set them"
    if setup.blamed:
        why = "the last run with settings failed"
        session.complain(f"the MPI library's own collectives stay: {why}")
        return None, why
    if library == "openmpi" and not sharing:
        why = "no counted run has shown that all hosts share the folder of --scratch"
        session.note(f"collectives: not set, since {why}")
        return None, why
    try:
        tuned = tune_job(
            job,
            trace,
            order,
            network,
            library,
            reorder_sums=question.reorder_sums,
            # Where a host cannot read the library and its trees, its ranks would wait for ever for those that can.
            preloading=sharing and not question.counting,
        )
    except GavotteError as error:
        session.complain(f"the MPI library's own collectives stay: {error}")
        return None, str(error)
    return tuned, "" if tuned is not None else "the job has no collectives that settings change"


@dataclass(frozen=True)
class Setup:
    """How a job will be started.

    Attributes:
        launcher: the launcher.
        line: its command line.
        environ: its environment.
        shared: whether all hosts are known to share this machine's folders.
        blamed: whether settings may be why an earlier run failed, as `launch.past.blames_settings` says.
    """

    launcher: Launcher
    line: CommandLine
    environ: Mapping[str, str]
    shared: bool
    blamed: bool = False


def hindrance_of(question: LaunchQuestion, setup: Setup, past: Sequence[Past], order: Sequence[str]) -> str:
    """Return why the preloaded library may not tune a job's collectives while it runs, in words; empty = it may.

    Args:
        question: the question.
        setup: how the job will be started.
        past: earlier runs.
        order: host of each rank.
    """
    if not setup.launcher.family:
        return f"the MPI library of {setup.launcher.title} is unknown"
    if own_settings(setup.line, setup.environ):
        return "you have set them"
    # Ranks that lack the library would never answer those that have it.
    if not setup.shared and not any(_shared(each, order, question) for each in past):
        return "no counted run has shown that all hosts share the folder of --scratch"
    return ""


def own_settings(line: CommandLine, environ: Mapping[str, str]) -> bool:
    """Return whether the user has set algorithms of collectives."""
    words = [word for option in line.options for word in option.words]
    return any(_OWN.search(each) for each in [*words, *environ])


def _shared(past: Past, order: Sequence[str], question: LaunchQuestion) -> bool:
    """Return whether an earlier run has collected files of these hosts' ranks in the folder of this launch."""
    return past.scratch == str(scratch_root(question.scratch)) and set(order) <= set(past.order)
