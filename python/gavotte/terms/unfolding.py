"""Placements that move tasks between phases, written out as applications whose every task has one host."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from operator import attrgetter

from gavotte.errors import GavotteError
from gavotte.formats.app import App, Constraints, Transfer
from gavotte.formats.placement import Placement


def unfold(apps: Sequence[App], placement: Placement) -> tuple[list[App], Placement]:
    """Writes moves out, so that whatever knows transfers and phases can replay them.

    A task that moves is called `task@2`, `task@3`, ... from then on. Its state is a transfer to its new name; those of
    one phase are a phase of their own before it. Constraints are dropped: the Placement keeps them already.

    Args:
        apps: that it places, in any order.
        placement: with or without moves.

    Returns:
        The same if nothing moves; else the applications in the Placement's order, and where all their tasks are.

    Raises:
        GavotteError: when they do not belong together.
    """
    if not placement.moves:
        return list(apps), placement
    ordered = placement.in_order(apps)
    moves = sorted(placement.moves, key=lambda move: move.phase)
    # State goes before transfers. Numbers are those of all applications, so that what ran together still does.
    steps = {(move.phase, False) for move in moves} | {(t.phase, True) for app in ordered for t in app.transfer}
    number = {step: index for index, step in enumerate(sorted(steps))}
    unfolded, assignment = [], dict(placement.assignment)
    for app in ordered:
        prefix = f"{app.name}/" if len(ordered) > 1 else ""
        keys = {prefix + task.name: task for task in app.task}
        own = [move for move in moves if move.task in keys]
        moves = [move for move in moves if move.task not in keys]
        called = {task.name: task.name for task in app.task}
        tasks, transfers = list(app.task), []
        taken = set(called)
        waiting = sorted(app.transfer, key=lambda transfer: transfer.phase)
        for phase, group in itertools.groupby(own, key=attrgetter("phase")):
            transfers += [_renamed(t, called, number[t.phase, True]) for t in waiting if t.phase < phase]
            waiting = [transfer for transfer in waiting if transfer.phase >= phase]
            for move in group:
                task = keys[move.task]
                before, after = called[task.name], _fresh(task.name, taken)
                called[task.name], assignment[prefix + after] = after, move.host
                taken.add(after)
                tasks.append(task.model_copy(update={"name": after}))
                transfers.append(
                    Transfer.model_construct(
                        source=before, target=after, bytes=move.bytes, phase=number[move.phase, False]
                    )
                )
        transfers += [_renamed(transfer, called, number[transfer.phase, True]) for transfer in waiting]
        unfolded.append(app.model_copy(update={"task": tasks, "transfer": transfers, "constraints": Constraints()}))
    if moves:
        raise GavotteError(
            f"the placement moves task `{moves[0].task}`, which no application has",
            hint="use an App and a Placement that belong together",
        )
    return unfolded, placement.model_copy(update={"assignment": assignment, "moves": []})


def _fresh(task: str, taken: Collection[str]) -> str:
    """The next name of a task: `task@2` where that is not taken."""
    return next(name for count in itertools.count(2) if (name := f"{task}@{count}") not in taken)


def _renamed(transfer: Transfer, called: dict[str, str], phase: int) -> Transfer:
    ends = {"source": called[transfer.source], "target": called[transfer.target], "phase": phase}
    return transfer.model_copy(update=ends)
