"""Running applications, and how they get on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gavotte.formats.app import App
from gavotte.formats.placement import Placement
from gavotte.place.placing import GIVEN
from gavotte.place.running import Running

Places = Mapping[str, str]
"""Host of each task of one application, by the task's name."""


class Remaining(Protocol):
    """State of applications after some time: the bytes that they still have to send, and which have ended.

    Attributes:
        apps: the applications as given, each transfer with the bytes still to come.
        finish_s: when each ended, in seconds from the start; inf = not yet.
    """

    @property
    def apps(self) -> list[App]:
        """Applications as given, each transfer with the bytes still to come."""

    @property
    def finish_s(self) -> list[float]:
        """End of each application, in seconds from the start; inf = not yet."""


class Projection(Protocol):
    """Function that predicts how far applications get in some time, as `simulate.Advance` does."""

    def __call__(
        self, apps: Sequence[App], assignments: Sequence[Places], *, pause_s: Sequence[float], for_s: float
    ) -> Remaining:
        """Return the state of applications after `for_s` seconds on these places, with a pause of `pause_s` first."""


@dataclass(frozen=True)
class Live:
    """Running application with its remaining bytes and the hosts of its tasks.

    Attributes:
        app: the application; its transfers hold the bytes that are still to come.
        assignment: task to host.
        pause_s: seconds until the application continues, while its tasks move. Until then they do not move again.
    """

    app: App
    assignment: Places
    pause_s: float = 0.0

    @property
    def running(self) -> Running:
        """The same application as a `Running`, which holds room on hosts and loads links."""
        return Running([self.app], given_placement([self.app], self.assignment))


def given_placement(apps: Sequence[App], assignment: Places) -> Placement:
    """Return places as a Placement that predicts nothing."""
    return Placement(
        apps=[app.name for app in apps],
        method=GIVEN,
        assignment=dict(assignment),
        completion_s=0.0,
        bound_s=0.0,
        optimal=False,
        bottleneck="",
        elapsed_s=0.0,
        seed=0,
    )


def moved_on(live: Sequence[Live], projection: Projection, for_s: float) -> tuple[list[Live], list[tuple[Live, float]]]:
    """Return the applications that still run after some time, and those that have ended.

    Args:
        live: the running applications.
        projection: moves them forward in time.
        for_s: the time, in seconds.

    Returns:
        Those that run, each with the bytes still to come, and those that ended, each with its end in seconds.
    """
    if not live:
        return [], []
    done = projection(
        [one.app for one in live],
        [one.assignment for one in live],
        pause_s=[one.pause_s for one in live],
        for_s=for_s,
    )
    left, ended = [], []
    for one, app, finish_s in zip(live, done.apps, done.finish_s, strict=True):
        if math.isfinite(finish_s):
            ended.append((one, finish_s))
        else:
            left.append(Live(_what_is_left(app), one.assignment, max(one.pause_s - for_s, 0.0)))
    return left, ended


def _what_is_left(app: App) -> App:
    """Return an application with only the transfers that still have bytes, and its phases numbered from 0.

    The running phase of every application is then 0, so that their transfers share links.
    """
    transfers = [transfer for transfer in app.transfer if transfer.bytes > 0]
    rank = {phase: number for number, phase in enumerate(sorted({transfer.phase for transfer in transfers}))}
    left = [transfer.model_copy(update={"phase": rank[transfer.phase]}) for transfer in transfers]
    return app.model_copy(update={"transfer": left})
