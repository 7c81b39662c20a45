"""Options and output of `gavotte collective --settings`: an MPI library's own algorithms, chosen by predicted times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from gavotte.cli.declared import option
from gavotte.cli.output import emit_table, note
from gavotte.formats.parts.rates import format_bytes

if TYPE_CHECKING:
    from gavotte.collective.tuning import TunedSize, Tuning
    from gavotte.formats.network import Network

_MPI_NAMES = {"broadcast": "bcast"}
"""Operations that MPI calls by another name."""

_NOT_SET = ("scatter", "gather")


@dataclass(frozen=True)
class TuningOptions:
    """Settings of an MPI library instead of a tree."""

    settings: str | None = option(
        "Instead of a tree, choose the library's own algorithms by message size, in the form of its settings: "
        "openmpi (a file of rules) or mpich (variables).",
        "LIBRARY",
    )
    explain: bool = option(
        "With --settings: print what was chosen for each operation and size, and the predicted times.", default=False
    )
    reorder_sums: bool = option(
        "With --settings: also choose for reduce and allreduce, which then add sums in another order.", default=False
    )


def tune(
    network: Network,
    hosts: Sequence[str],
    operations: Sequence[str],
    roots: Sequence[str],
    most: int,
    asked: TuningOptions,
) -> Tuning:
    """Choose settings for the ranks on these hosts.

    Raises:
        GavotteError: for an unknown library, operation or root, or a library that combines on hosts first.
    """
    from gavotte.collective.ranks import check_few
    from gavotte.collective.tuning import BUSY_OVERHEAD_S, TuningQuestion, choose, size_ladder
    from gavotte.errors import GavotteError
    from gavotte.formats.parts.names import known_as, meant
    from gavotte.simulate import CollectiveReplay, MessageCosts
    from gavotte.terms.algorithms import ALGORITHMS, LIBRARIES

    check_few(len(hosts), "settings are chosen for")
    library = next((each for each in LIBRARIES if each == asked.settings), None)
    if library is None:
        raise GavotteError(f"unknown MPI library `{asked.settings}`", hint=f"use {' or '.join(LIBRARIES)}")
    if library == "mpich" and len(set(hosts)) < len(hosts):
        raise GavotteError(
            "several ranks share a host, where MPICH has algorithms that Gavotte cannot predict",
            hint="name one rank for each host by --ranks",
        )
    known = ALGORITHMS[library]
    wanted = [each for name in operations for each in (known if name == "all" else (_MPI_NAMES.get(name, name),))]
    for name in wanted:
        if name in _NOT_SET:
            raise GavotteError(
                f"{name} keeps the library's own choice: ranks could choose differently, and wait for ever",
                hint="leave it out, or use `--format shim`",
            )
        if name not in known:
            ours = {mpi: own for own, mpi in _MPI_NAMES.items()}
            names = ", ".join(ours.get(each, each) for each in known)
            raise GavotteError(f"unknown operation `{name}`", hint=f"use all, or one of {names}")
    numbers: list[int] = []
    for each in roots:
        name = known_as(each, hosts)
        if each != "all" and name not in hosts:
            raise GavotteError(f"no rank runs on the root `{each}`", hint=meant(each, hosts))
        numbers += range(len(hosts)) if each == "all" else [list(hosts).index(name)]
    sizes = {name: size_ladder(name, len(hosts), most) for name in dict.fromkeys(wanted)}
    question = TuningQuestion(library, len(hosts), sizes, tuple(dict.fromkeys(numbers)) or (0,), asked.reorder_sums)
    replay, busy = (
        CollectiveReplay(network, hosts, costs)
        for costs in (MessageCosts(library=library), MessageCosts(library=library, overhead_s=BUSY_OVERHEAD_S))
    )
    return choose(question, replay.seconds, busy.seconds)


def show(tuning: Tuning) -> None:
    """Print what was chosen for each operation and size."""
    emit_table(
        ["operation", "bytes", "default", "default s", "chosen", "predicted s", "change"],
        [_row(tuning, each) for each in tuning.choices],
        words=("operation", "default", "chosen"),
    )


def note_tuning(tuning: Tuning) -> None:
    """Print what a user of the settings should know, and how to use them."""
    chosen = [each for each in tuning.choices if each.algorithm]
    note(f"{len(chosen)} of {len(tuning.choices)} operations and sizes are predicted to be faster than by default")
    if tuning.reorders:
        note("sums are added in another order: results may differ in their last digits")
    if not chosen:
        note("nothing needs to be set")


def note_use(tuning: Tuning, file: str) -> None:
    """Print how to use a file of settings."""
    from gavotte.collective.tuning import variables

    if tuning.question.library == "openmpi" and tuning.settings:
        pairs = variables(tuning.question.library, tuning.settings, file).items()
        mca = " ".join(f"--mca {name.removeprefix('OMPI_MCA_')} {value}" for name, value in pairs)
        note(f"usage: mpirun {mca} PROGRAM, with the file on all hosts")
    elif tuning.settings:
        note(f"usage: env $(cat {file}) mpiexec PROGRAM")


def _row(tuning: Tuning, choice: TunedSize) -> list[str]:
    pieces = f" in {format_bytes(choice.segment_bytes)}" if choice.segment_bytes else ""
    name = tuning.name(choice.algorithm, choice.operation) + pieces
    change = f"{100 * (choice.predicted_s / choice.default_s - 1):+.0f} %" if choice.algorithm else ""
    order = ", sums in another order" if choice.reorders else ""
    return [
        choice.operation,
        format_bytes(choice.size_bytes),
        tuning.name(choice.default, choice.operation),
        f"{choice.default_s:.4g}",
        name if choice.algorithm else "-",
        f"{choice.predicted_s:.4g}" if choice.algorithm else "",
        change + order,
    ]


def choice_line(tuning: Tuning, choice: TunedSize) -> str:
    """Return what was chosen for one operation and size, in one line."""
    operation, _, default, default_s, chosen, predicted_s, change = _row(tuning, choice)
    what = f"{operation} of {format_bytes(choice.size_bytes)} on {tuning.question.members} ranks"
    if not choice.algorithm:
        return f"{what}: {default}, the default, {default_s} s"
    return f"{what}: {chosen}, {predicted_s} s instead of {default_s} s by {default} ({change})"


def print_settings(tuning: Tuning) -> None:
    """Print the settings as the library reads them."""
    from gavotte.collective.tuning import settings_text

    typer.echo(settings_text(tuning.question.library, tuning.settings), nl=False)
