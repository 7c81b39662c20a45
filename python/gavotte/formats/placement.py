"""Placement: which task runs on which host, and the predicted time (`*.placement.json`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import Self

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.files.kinds import check_kind
from gavotte.formats.files.reading import Emitted, check_ending, parse_json, read_text, validate, write_text
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.names import HostName, Label, known_as
from gavotte.tables import Tabular, html_rows

FORMAT = "gavotte/placement/1"

Seconds = Annotated[float, Field(ge=0)]


class Move(Emitted):
    """A task that changes its host between two phases.

    Attributes:
        task: its key.
        phase: the transfers of this phase wait until it has moved.
        host: its host from then on.
        bytes: its state, which moves to that host.
    """

    task: str
    phase: Annotated[int, Field(ge=0)]
    host: HostName
    bytes: Annotated[int, Field(ge=0)]


class Placement(Emitted, Tabular):
    """A task-to-host assignment with its prediction.

    Attributes:
        apps: names of the applications placed. With several, a task's key is `app/task`.
        method: how it was found.
        assignment: task to host; for a task that moves, its first host.
        moves: moves between phases, by phase. Those before one phase happen together. `terms.unfolding.unfold` writes
            them out.
        completion_s: predicted completion time (max over links of 8 x bytes / rate, summed over phases and moves).
        bound_s: no placement can be predicted to finish sooner.
        optimal: whether `completion_s` is proven the least possible.
        bottleneck: the link that decides `completion_s`, in words.
        elapsed_s: how long the search took.
        seed: seed of every random choice.
        penalty_s: price of the constraints with a price that it breaks. `bound_s` is a bound on `completion_s` and
            `penalty_s` together, and `optimal` is about their sum.
        broken: these constraints, in words.
    """

    format: Literal["gavotte/placement/1"] = "gavotte/placement/1"
    apps: list[Label]
    method: str
    assignment: dict[str, HostName]
    moves: list[Move] = []
    completion_s: Seconds
    bound_s: Seconds
    optimal: bool
    bottleneck: str
    elapsed_s: Seconds
    seed: int
    penalty_s: Annotated[Seconds, Field(exclude_if=lambda value: value == 0)] = 0.0
    broken: Annotated[list[str], Field(exclude_if=lambda value: not value)] = []

    def __repr__(self) -> str:
        """Return what it is in one line."""
        hosts = len(set(self.assignment.values()))
        return (
            f"<Placement by {self.method}: {counted(len(self.assignment), 'task')} on {counted(hosts, 'host')}, "
            f"{self.completion_s:.4g} s>"
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the tasks of each host as notebooks show them."""
        tasks: dict[str, list[str]] = {}
        for task, host in self.assignment.items():
            tasks.setdefault(host, []).append(task)
        bound = "optimal" if self.optimal else f"at least {self.bound_s:.4g} s" if self.bound_s else "no bound"
        title = f"{repr(self).strip('<>')} ({bound}); bottleneck: {self.bottleneck}"
        return html_rows(title, ["host", "tasks"], [[host, ", ".join(each)] for host, each in sorted(tasks.items())])

    def spelled_as(self, known: Collection[str]) -> Self:
        """Return the Placement with each host's name in the upper and lower case that `known` uses for the host."""
        assignment = {task: known_as(host, known) for task, host in self.assignment.items()}
        moves = [move.model_copy(update={"host": known_as(move.host, known)}) for move in self.moves]
        return self.model_copy(update={"assignment": assignment, "moves": moves})

    def in_order(self, apps: Sequence[App]) -> list[App]:
        """Return the applications that it places, in its order.

        Args:
            apps: the applications it was made for, in any order.

        Raises:
            GavotteError: when they do not belong together.
        """
        by_name = {app.name: app for app in apps}
        if len(by_name) < len(apps):
            raise GavotteError("two applications have the same name", hint="rename one")
        for name in self.apps:
            if name not in by_name:
                raise GavotteError(f"the placement has an application `{name}`", hint="add its App to the command")
        for name in by_name:
            if name not in self.apps:
                raise GavotteError(f"application `{name}` is not in the placement", hint="place it first")
        return [by_name[name] for name in self.apps]

    def check_stays(self, what: str) -> None:
        """Refuse moves where nothing can carry them out.

        Args:
            what: the thing that needs one host per task, for the message: "a host file".

        Raises:
            GavotteError: when a task moves.
        """
        if self.moves:
            raise GavotteError(
                f"task `{self.moves[0].task}` moves between phases, and {what} has only one host per task",
                hint="place without --state and `state_bytes`",
            )

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per task: task, host."""
        return [{"task": task, "host": host} for task, host in self.assignment.items()]


def read_placement(path: str | Path) -> Placement:
    """Read a `*.placement.json`.

    Raises:
        FormatError: naming file, field and remedy.
    """
    check_kind(path, "placement")
    data = parse_json(read_text(path), str(path))
    if isinstance(data, dict):
        data.setdefault("format", None)  # the default is for writers; a file without it is not ours
    return validate(Placement, data, str(path))


def write_placement(path: str | Path, placement: Placement) -> None:
    """Write a `*.placement.json`, whole or not at all.

    Raises:
        FormatError: for a name with another format's ending, or a file that cannot be written.
    """
    check_ending(path, "a Placement")
    write_text(path, placement.model_dump_json(indent=2) + "\n")
