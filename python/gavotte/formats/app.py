"""App: an application's tasks, and the bytes that they send each other (`*.app.toml` or `.json`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomli_w
from pydantic import Discriminator, Field, Tag, model_validator
from typing_extensions import Self

from gavotte.errors import FormatError
from gavotte.formats.files.reading import Written, parse_json, parse_toml, problem, read_noun, validate, write_text
from gavotte.formats.parts.app_tasks import cut_tasks
from gavotte.formats.parts.app_transfers import Transfer as Transfer
from gavotte.formats.parts.app_transfers import (
    TransferColumns,
    Transfers,
    columns_of_rows,
    columns_of_texts,
    cut_rows,
)
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.names import Amount, HostName, Key, Label, check_known, check_unique
from gavotte.tables import Tabular, html_matrix, square

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

FORMAT = "gavotte/app/1"


class Task(Written):
    """A process, or a group of processes that stay together.

    Attributes:
        name: unique in the application.
        cpus: cores that it needs.
        memory_bytes: memory that it needs.
        storage_bytes: disk space that it needs.
        state_bytes: bytes that move with it to another host between phases; None = it cannot move.
        resources: pieces that it needs of counted resources of a host, such as `gpu`.
    """

    name: Label
    cpus: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    memory_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = 0
    storage_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = 0
    state_bytes: Annotated[int, Field(ge=0, le=1 << 60)] | None = None
    # A factory, since pydantic copies a default deeply: half a second for 100,000 tasks.
    resources: Annotated[dict[Key, Amount], Field(exclude_if=lambda value: not value)] = Field(default_factory=dict)


Price = Annotated[float, Field(ge=0, le=1e6)]
"""Seconds of completion time that keeping a constraint is worth. A constraint without a price must be kept."""


class MaxLatency(Written):
    """Two tasks that must be at most `seconds` apart, one way; with `price_s`, that should be."""

    source: Label
    target: Label
    seconds: Annotated[float, Field(gt=0, le=1e9)]
    price_s: Price | None = None


class Group(Written):
    """Tasks that must share no zone, or one zone.

    Attributes:
        tasks: the tasks.
        by: what counts as a zone: `host`, `machine`, `rack`, or the key of a label of hosts, such as `zone`.
        price_s: price of each task beyond one in a zone, or of each zone beyond one; None = must be kept.
    """

    tasks: Annotated[list[Label], Field(min_length=1)]
    by: Key = "host"
    price_s: Price | None = None


class Spread(Written):
    """Tasks that must be spread over zones.

    Attributes:
        tasks: the tasks; empty = all tasks of the application.
        by: as for a `Group`.
        most: most tasks in one zone; None = evenly: the numbers of tasks in any two zones differ by one at most.
        price_s: price of each task beyond `most` in a zone; None = the constraint must be kept.
    """

    tasks: list[Label] = []
    by: Key = "host"
    most: Annotated[int, Field(ge=1)] | None = None
    price_s: Price | None = None


class Labelled(Written):
    """Tasks that must run on hosts with a label.

    Attributes:
        tasks: the tasks; empty = all tasks of the application.
        key: key of the label.
        values: values of the label that the tasks accept.
        price_s: price of each task on another host; None = the constraint must be kept.
    """

    tasks: list[Label] = []
    key: Key
    values: Annotated[list[str], Field(min_length=1)]
    price_s: Price | None = None


def _shape(value: object) -> str:
    return "<list>" if isinstance(value, list) else "<table>"


Tasks = Annotated[
    Annotated[list[Label], Tag("<list>")] | Annotated[Group, Tag("<table>")],
    Discriminator(_shape),
]
"""Tasks that must share no host, or one host: a list, or a table for other zones or a price."""


class Constraints(Written):
    """Conditions that a placement must meet.

    Attributes:
        pin: task to the host it must run on.
        apart: groups of tasks, no two of which may share a host or zone.
        together: groups of tasks that must share a host or zone.
        max_latency: pairs of tasks with a bound on latency.
        max_hosts: largest number of hosts that may be used.
        spread: tasks with a bound on how many of them share a host or zone.
        labels: tasks that need hosts with certain labels.
    """

    pin: dict[Label, HostName] = {}
    apart: list[Tasks] = []
    together: list[Tasks] = []
    max_latency: list[MaxLatency] = []
    max_hosts: Annotated[int, Field(ge=1)] | None = None
    spread: Annotated[list[Spread], Field(exclude_if=lambda value: not value)] = []
    labels: Annotated[list[Labelled], Field(exclude_if=lambda value: not value)] = []

    @property
    def groups_apart(self) -> list[Group]:
        """The groups of `apart`, each as a table."""
        return [_group(tasks) for tasks in self.apart]

    @property
    def groups_together(self) -> list[Group]:
        """The groups of `together`, each as a table."""
        return [_group(tasks) for tasks in self.together]

    def of_tasks(self, names: Sequence[str]) -> Self:
        """Return the same constraints, with these tasks named where none are, which means all of them."""
        explicit = {
            key: [rule if rule.tasks else rule.model_copy(update={"tasks": list(names)}) for rule in rules]
            for key, rules in (("spread", self.spread), ("labels", self.labels))
        }
        return self.model_copy(update=explicit)

    def strict(self) -> Self:
        """Return the same constraints without prices, so that all must be kept."""
        firm = {
            key: [rule.model_copy(update={"price_s": None}) for rule in rules] for key, rules in self._listed.items()
        }
        return self.model_copy(update=firm)

    @property
    def _listed(self) -> dict[str, Sequence[Group | MaxLatency | Spread | Labelled]]:
        """The constraints that may have a price."""
        return {
            "apart": self.groups_apart,
            "together": self.groups_together,
            "max_latency": self.max_latency,
            "spread": self.spread,
            "labels": self.labels,
        }

    @property
    def priced(self) -> bool:
        """Whether any constraint has a price."""
        return any(rule.price_s is not None for rules in self._listed.values() for rule in rules)


def _group(tasks: list[str] | Group) -> Group:
    return tasks if isinstance(tasks, Group) else Group.model_construct(tasks=tasks)


class App(Written, Tabular):
    """An application. Every transfer and constraint names a task of it.

    Attributes:
        format: the format and its version.
        name: name of the application.
        arrival_s: time at which it arrives.
        task: its tasks.
        transfer: the bytes that they send each other.
        constraints: conditions that a placement must meet.
        trace: file with the sequence of its ranks' MPI calls (`gavotte.formats.trace`), from the App's folder; rank i
            is task i.
    """

    format: Literal["gavotte/app/1"]
    name: Label
    arrival_s: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    task: Annotated[list[Task], Field(min_length=1, max_length=1_000_000)]
    transfer: Transfers = []
    # Made without validation, whose preparation takes 10 ms: many commands read no App.
    constraints: Constraints = Constraints.model_construct()
    trace: Annotated[str, Field(min_length=1, max_length=4096)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_unique("task", [t.name for t in self.task], field="name")
        tasks = {t.name for t in self.task}

        def known(name: str, field: str) -> None:
            if name not in tasks:
                check_known(name, tasks, field=field, what="task of this application")

        columns = isinstance(self.transfer, TransferColumns) and tasks.issuperset(self.transfer.names)
        for index, transfer in enumerate(() if columns else self.transfer):
            if transfer.source not in tasks or transfer.target not in tasks:
                known(transfer.source, f"transfer[{index}].source")
                known(transfer.target, f"transfer[{index}].target")
        rules = self.constraints
        for name in rules.pin:
            known(name, f"constraints.pin.{name}")
        listed: tuple[tuple[str, Sequence[list[str] | Group | Spread | Labelled]], ...] = (
            ("apart", rules.apart),
            ("together", rules.together),
            ("spread", rules.spread),
            ("labels", rules.labels),
        )
        for key, groups in listed:
            for i, group in enumerate(groups):
                names, field = (group, "") if isinstance(group, list) else (group.tasks, ".tasks")
                for j, name in enumerate(names):
                    known(name, f"constraints.{key}[{i}]{field}[{j}]")
                if len(set(names)) < len(names):
                    raise problem("names a task twice", "name it once", field=f"constraints.{key}[{i}]{field}")
        for index, bound in enumerate(rules.max_latency):
            known(bound.source, f"constraints.max_latency[{index}].source")
            known(bound.target, f"constraints.max_latency[{index}].target")
        return self

    def __repr__(self) -> str:
        """Return what it is in one line."""
        from gavotte.formats.parts.rates import format_bytes

        return f"<App {self.name}: {counted(len(self.task), 'task')}, {format_bytes(self.total_bytes)}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the bytes between tasks as notebooks show them, or for many tasks the first transfers."""
        from gavotte.formats.parts.rate_matrix import MOST_IN_MATRIX
        from gavotte.formats.parts.rates import format_bytes

        names = [task.name for task in self.task]
        if len(names) > MOST_IN_MATRIX:
            return super()._repr_html_()
        sums = self.to_numpy().tolist()
        most = max((size for row in sums for size in row), default=0) or 1
        cells = [[(format_bytes(size) if size else "", size / most) for size in row] for row in sums]
        return html_matrix(f"{repr(self).strip('<>')}, row = sender", names, cells)

    @property
    def sizes_bytes(self) -> list[int]:
        """Bytes of each transfer."""
        if isinstance(self.transfer, TransferColumns):
            sizes: list[int] = self.transfer.bytes.tolist()
            return sizes
        return [transfer.bytes for transfer in self.transfer]

    @property
    def total_bytes(self) -> int:
        """Sum of the bytes of all transfers."""
        return sum(self.sizes_bytes)

    @classmethod
    def from_numpy(cls, name: str, sizes: npt.ArrayLike, tasks: Sequence[str] | None = None) -> App:
        """Return the App of (T, T) bytes between tasks, row = source.

        Args:
            name: name of the application.
            sizes: bytes, one transfer for each pair with any.
            tasks: names of the tasks; None = t0, t1 and so on.

        Raises:
            GavotteError: naming the field.
        """
        from gavotte.formats.parts.convert import MATRIX, app_of_matrix

        return validate(App, {"format": FORMAT} | app_of_matrix(name, sizes, tasks), MATRIX)

    @classmethod
    def from_frame(cls, name: str, frame: pd.DataFrame) -> App:
        """Return the App of a table with the columns source, target, bytes and, if any has them, phase and messages.

        Raises:
            GavotteError: naming the column.
        """
        from gavotte.formats.parts.convert import ROWS, app_of_rows, rows_of

        return validate(App, {"format": FORMAT} | app_of_rows(name, rows_of(frame)), ROWS)

    @classmethod
    def from_networkx(cls, name: str, graph: nx.DiGraph) -> App:
        """Return the App of a graph: tasks are nodes, transfers are edges with `bytes` and, if any, `phase`.

        Attributes of nodes are the fields of a Task.

        Raises:
            GavotteError: naming the field, or for a graph without directions.
        """
        from gavotte.formats.parts.convert import GRAPH, app_of_graph

        return validate(App, {"format": FORMAT} | app_of_graph(name, graph), GRAPH)

    def to_networkx(self) -> nx.MultiDiGraph:
        """Return tasks as nodes, and transfers as edges with `bytes` and `phase`.

        Raises:
            UnsupportedError: without networkx.
        """
        from gavotte.formats.parts.convert import graph_of

        ends = {"source", "target"}
        return graph_of(
            ((task.name, task.model_dump(exclude={"name"}, exclude_defaults=True)) for task in self.task),
            ((each.source, each.target, each.model_dump(exclude=ends, exclude_none=True)) for each in self.transfer),
            several=True,
            name=self.name,
        )

    def to_numpy(self) -> npt.NDArray[np.int64]:
        """Return the (T, T) bytes of all phases in the order of `task`, row = source."""
        return square([task.name for task in self.task], ((t.source, t.target, t.bytes) for t in self.transfer))

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per transfer: source, target, bytes, phase, and messages if any transfer has them."""
        left_out = None if self.has_messages else {"messages"}
        return [transfer.model_dump(exclude=left_out) for transfer in self.transfer]

    @property
    def has_messages(self) -> bool:
        """Whether any transfer consists of messages that wait for each other."""
        if isinstance(self.transfer, TransferColumns):
            return self.transfer.messages is not None
        return any(transfer.messages for transfer in self.transfer)


def read_app(path: str | Path) -> App:
    """Read an `*.app.toml`, or the same as JSON if the name ends in `.json`.

    Raises:
        FormatError: naming file, field and remedy.
    """
    return read_noun(App, path, _from_json if Path(path).suffix == ".json" else _from_toml)


def _from_json(text: str, path: str) -> Any:
    return _with_columns(parse_json(text, path))


def _from_toml(text: str, path: str) -> Any:
    data = _in_parts(text, path)
    return _with_columns(parse_toml(text, path)) if data is None else data


def _in_parts(text: str, path: str) -> dict[str, Any] | None:
    """Return the data of an App with many tasks or transfers, which are parsed apart from the rest; None = look closer.

    What is wrong with a file is found in its whole text, which has the lines that an error names.
    """
    tasks = cut_tasks(text)
    rows = cut_rows(text if tasks is None else tasks[0])
    rest = rows or tasks
    if rest is None:
        return None
    try:
        data = parse_toml(rest[0], path)
    except FormatError:
        return None
    if tasks is not None:
        if "task" in data:
            return None
        data |= {"task": tasks[1]}
    if rows is None:
        whole: dict[str, Any] = _with_columns(data)
        return whole
    columns = columns_of_texts(_names(data), rows[1])
    return None if columns is None or "transfer" in data else data | {"transfer": columns}


def _with_columns(data: Any) -> Any:
    """Put many transfers into columns. What is wrong with any of them is found when each is looked at."""
    rows = data.get("transfer") if isinstance(data, dict) else None
    columns = columns_of_rows(_names(data), rows) if isinstance(rows, list) else None
    return data if columns is None else data | {"transfer": columns}


def _names(data: dict[str, Any]) -> list[str]:
    """Return the names of the tasks in parsed data, as far as they have any."""
    tasks = data.get("task")
    return [str(each.get("name")) for each in tasks if isinstance(each, dict)] if isinstance(tasks, list) else []


def write_app(path: str | Path, app: App) -> None:
    """Write an App as TOML, or as JSON if the name ends in `.json`; whole or not at all."""
    if Path(path).suffix == ".json":
        write_text(path, app.model_dump_json(exclude_none=True, indent=2) + "\n")
        return
    content = app.model_dump(exclude_none=True)
    if app.constraints == Constraints():
        del content["constraints"]
    write_text(path, tomli_w.dumps(content))
