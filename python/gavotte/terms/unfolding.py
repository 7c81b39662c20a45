"""Convert Placements that move tasks between phases into ones in which every task has one host."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from operator import attrgetter

from gavotte.errors import GavotteError
from gavotte.formats.app import App, Constraints, Transfer
from gavotte.formats.placement import Placement


def unfold(apps: Sequence[App], placement: Placement) -> tuple[list[App], Placement]:
    """Replace the moves of tasks by new tasks and transfers, so that code without support for moves can replay them.

    1. A task that moves is named `task@2`, `task@3`, ... from then on.
    2. Its state is a transfer to its new name. All moves of one phase are a separate phase before it.
    3. Constraints are dropped, since the Placement satisfies them already.

    Args:
        apps: the placed applications, in any order.
        placement: their Placement, with or without moves.

    Returns:
        The same if nothing moves; else the applications in the Placement's order, and the Placement of all their tasks.

    Raises:
        GavotteError: when applications and Placement do not belong together.
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
    """Return the next free name of a task: `task@2`, or `task@3` and so on if that is taken."""
    return next(name for count in itertools.count(2) if (name := f"{task}@{count}") not in taken)


def _renamed(transfer: Transfer, called: dict[str, str], phase: int) -> Transfer:
    ends = {"source": called[transfer.source], "target": called[transfer.target], "phase": phase}
    return transfer.model_copy(update=ends)
