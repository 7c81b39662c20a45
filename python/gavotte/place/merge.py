"""Names and task keys of several applications that are placed together (Choreo, section 6.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from gavotte.errors import GavotteError
from gavotte.formats.app import App

Value = TypeVar("Value")


def check_apps(apps: Sequence[App]) -> None:
    """Refuse a list of applications with equal names.

    Raises:
        GavotteError: when the list is empty or names an application twice.
    """
    if not apps:
        raise GavotteError("there is no application to place", hint="name at least one App")
    names: set[str] = set()
    for app in apps:
        if app.name in names:
            raise GavotteError(f"two applications are called `{app.name}`", hint="rename one of them")
        names.add(app.name)


def task_key(app: App, task: str, apps: Sequence[App]) -> str:
    """Return a task's key in a Placement: its name, or `app/task` if there are several applications."""
    return task if len(apps) == 1 else f"{app.name}/{task}"


def task_keys(apps: Sequence[App]) -> Iterator[str]:
    """Return the keys of all tasks, in the order of the applications and of their tasks."""
    if len(apps) == 1:
        return (task.name for task in apps[0].task)
    return (task_key(app, task.name, apps) for app in apps for task in app.task)


def by_name(values: Mapping[str, Value], app: App, apps: Sequence[App]) -> Mapping[str, Value]:
    """Return the values of an application's tasks by the tasks' own names.

    Args:
        values: values by task key, for the tasks of all applications.
        app: one of the applications.
        apps: all applications.
    """
    if len(apps) == 1 and len(values) == len(app.task):
        return values  # The keys are the names, and there may be 100,000.
    return {task.name: values[task_key(app, task.name, apps)] for task in app.task}


def states(apps: Sequence[App], others: int | str | None = None) -> dict[str, int]:
    """Return the bytes that move with each task, by task key. Tasks that are not in the result stay on their hosts.

    Args:
        apps: applications whose tasks may have `state_bytes`.
        others: bytes of tasks without `state_bytes`: a number, `memory` = their `memory_bytes`, None = they stay.
    """
    sizes = {}
    for app in apps:
        for task in app.task:
            size = task.memory_bytes if others == "memory" else others
            size = size if task.state_bytes is None else task.state_bytes
            if isinstance(size, int):
                sizes[task_key(app, task.name, apps)] = size
    return sizes
