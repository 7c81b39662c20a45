"""The traced job of an App, for verbs that choose by its replayed time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gavotte.cli.output import warn
from gavotte.errors import FormatError, GavotteError

if TYPE_CHECKING:
    from gavotte.formats.app import App
    from gavotte.formats.network import Network
    from gavotte.place import Replayed
    from gavotte.simulate import JobReplay

MOST_EVENTS = 10_000_000
"""Most events of a replay that the user did not ask for: 1.5 s, and a search needs dozens of replays."""


def job_of(
    network: Network, app: App, named: Path | None, app_path: Path | None = None, *, seed: int = 0
) -> JobReplay | None:
    """Return the job of an App on a Network; None = it has no trace, or its own one is of no use.

    A trace that the user names must be of the App. The trace that the App names may be missing or of another run: a
    warning says so.

    Args:
        network: the hosts.
        app: the App.
        named: trace that the user names.
        app_path: the App's file, in whose folder its own trace is; None = its own trace does not count.
        seed: seed of computing times.

    Raises:
        FormatError: when the named trace cannot be read, or is not of the App.
        GavotteError: when it contradicts itself.
    """
    if named is not None:
        return _job(network, app, named, seed)
    if app_path is None or app.trace is None:
        return None
    try:
        job = _job(network, app, app_path.parent / app.trace, seed, MOST_EVENTS)
        job.seconds([network.names[0]] * job.ranks)  # whether it can be replayed
    except GavotteError as error:
        warn([f"bytes alone decide: {error}"])
        return None
    return job


def _job(network: Network, app: App, path: Path, seed: int, most_events: int | None = None) -> JobReplay:
    from gavotte.formats.trace import read_trace
    from gavotte.simulate import JobReplay, MessageCosts

    trace = read_trace(path)
    if len(trace.ranks) != len(app.task):
        raise FormatError(str(path), "ranks", f"has {len(trace.ranks)}", f"App `{app.name}` has {len(app.task)} tasks")
    costs = MessageCosts() if most_events is None else MessageCosts(most_events=most_events)
    replay = JobReplay(network, trace, costs, seed)
    warn(replay.warnings)
    return replay


def replayed_text(replayed: Replayed, given: str) -> str:
    """Return the replayed times in words.

    Args:
        replayed: the times.
        given: the baseline, in words.
    """
    if replayed.seconds == replayed.by_bytes_s:
        best = "bytes alone give no other placement"
    else:
        best = f"{replayed.saving:.1%} less than by bytes alone ({replayed.by_bytes_s:.4g} s)"
    baseline = "" if replayed.given_s is None else f"; {given} {replayed.given_s:.4g} s"
    ended = "" if replayed.ended else ", stopped by the time limit"
    return f"replayed: the job takes {replayed.seconds:.4g} s, {best}{baseline}; {replayed.replays} replays{ended}"
