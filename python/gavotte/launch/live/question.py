"""What is asked of a sequence that is carried out, what is called meanwhile, and what comes out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place import Effort
from gavotte.place.sequence import Migration, Review

PLACEHOLDERS = ("{app}", "{hosts}", "{hostfile}", "{placement}")
"""Texts in a word of the command, for which an application's name, the hosts of its tasks and two files are put in."""

END_S = 30.0
"""Default time between SIGTERM and SIGKILL for an application that is to move, in seconds."""


@dataclass(frozen=True)
class LiveQuestion:
    """Applications to start as they arrive.

    Attributes:
        read: returns the Network. It is called before each decision, so that a newer one counts.
        apps: the applications. Their arrivals count from the start.
        command: command line that starts one, with `PLACEHOLDERS`.
        folder: folder for placements, host files and output.
        every_s: how often all running applications are reviewed, from the start, in seconds; None = never.
        migration_s: pause of an application for each task that moves, in seconds.
        end_s: how long an application may take to stop before it is killed, in seconds.
        effort: how hard to search for each placement.
    """

    read: Callable[[], Network]
    apps: Sequence[App]
    command: Sequence[str]
    folder: Path
    every_s: float | None = None
    migration_s: float = 0.0
    end_s: float = END_S
    effort: Effort = field(default_factory=lambda: Effort(time_limit_s=1.0))

    def placement_file(self, app: App) -> Path:
        """Return the file for an application's Placement."""
        return self.folder / f"{app.name}.placement.json"

    def host_file(self, app: App) -> Path:
        """Return the file with the host of each of an application's tasks."""
        return self.folder / f"{app.name}.hosts"

    def log_file(self, app: App) -> Path:
        """Return the file for the output of an application's command."""
        return self.folder / f"{app.name}.log"

    def progress_file(self, app: App) -> Path:
        """Return the file to which an application may write the share that is done, from 0 to 1."""
        return self.folder / f"{app.name}.progress"

    def filled(self, app: App, assignment: Mapping[str, str]) -> list[str]:
        """Return the command line that starts an application on the hosts of its tasks."""
        hosts = ",".join(assignment[task.name] for task in app.task)
        values = (app.name, hosts, str(self.host_file(app)), str(self.placement_file(app)))
        words = list(self.command)
        for text, value in zip(PLACEHOLDERS, values, strict=True):
            words = [word.replace(text, value) for word in words]
        return words


@dataclass(frozen=True)
class LiveSession:
    """Callbacks of a sequence that is carried out.

    Attributes:
        note: called with a line about what happens.
        complain: called with a warning.
        stop: set = stop all applications and return.
    """

    note: Callable[[str], None]
    complain: Callable[[str], None]
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Ran:
    """An application that has ended, with all times in seconds from the start of the sequence.

    Attributes:
        app: its name.
        arrived_s: when it arrived.
        started_s: when it was started first; None = never.
        ended_s: when it ended.
        predicted_s: seconds from its start to its end as predicted at its start; None = it never started.
        status: exit status; 128 + n if signal n ended it; None = it was never started.
        placements: host of each task, from its first start to its last one.
        moves: its migrations.
    """

    app: str
    arrived_s: float
    started_s: float | None
    ended_s: float
    predicted_s: float | None
    status: int | None
    placements: Sequence[Mapping[str, str]]
    moves: Sequence[Migration]

    @property
    def running_s(self) -> float:
        """Seconds from its arrival to its end, which Choreo's section 6.3 compares."""
        return self.ended_s - self.arrived_s

    @property
    def document(self) -> dict[str, Any]:
        """It as a dictionary that can be written as JSON."""
        return {
            "app": self.app,
            "arrived_s": self.arrived_s,
            "started_s": self.started_s,
            "ended_s": self.ended_s,
            "running_s": self.running_s,
            "predicted_s": self.predicted_s,
            "status": self.status,
            "placements": [dict(each) for each in self.placements],
            "moves": [{"task": each.task, "source": each.source, "target": each.target} for each in self.moves],
        }


@dataclass(frozen=True)
class LiveResult:
    """A sequence that was carried out.

    Attributes:
        ran: its applications, in the order in which they ended.
        reviews: the reviews of running applications.
        interrupted: whether it was stopped before all had ended.
    """

    ran: Sequence[Ran]
    reviews: Sequence[Review]
    interrupted: bool

    @property
    def failed(self) -> list[str]:
        """Names of applications that found no room, or ended with another status than 0."""
        return [each.app for each in self.ran if each.status != 0]

    @property
    def sum_s(self) -> float:
        """Sum of the running times in seconds."""
        return sum(each.running_s for each in self.ran)
