"""`gavotte collective`: find the trees along which an MPI operation runs fast on a Network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.declared import REQUIRED, declared, option
from gavotte.cli.options import Json, NetworkFile, Seed, read_size
from gavotte.cli.output import emit_json, emit_table, note, unknown_pairs, warn
from gavotte.cli.progress import progress
from gavotte.cli.replay import ReplayOptions, note_replay, read_replay
from gavotte.cli.tuning import TuningOptions
from gavotte.cli.writing import to_write
from gavotte.formats.parts.rates import format_bytes

if TYPE_CHECKING:
    from gavotte.formats.collective import Collective, Operation
    from gavotte.formats.history import History
    from gavotte.formats.network import Network

_ROOTED = ("broadcast", "reduce", "scatter", "gather")


@dataclass(frozen=True)
class QuestionOptions:
    """Which operations to plan, between which ranks."""

    operation: list[str] = option(
        "Operation to plan. For `--format shim` and --settings also all, or repeated. --settings also has alltoall, "
        "barrier.",
        default=REQUIRED,
    )
    size: str = option(
        "Size of the message, or of one rank's block: 8MB, 512kB (1 kB = 1024 bytes). For --settings the largest size, "
        "of all blocks together.",
        "SIZE",
        "--bytes",
        default="8MB",
    )
    root: list[str] | None = option(
        "Host of the root; for `--format shim` and --settings also all, or repeated.", "HOST"
    )
    algorithm: str = option(
        "Shape of the tree or ring. auto takes the one that is predicted to be fastest.",
        default="auto",
    )
    placement: Path | None = option(
        "Take ranks from this Placement: rank i runs on the host of its i-th task.", "P.placement.json"
    )
    ranks: str | None = option("The host of each rank, in order. By default the hosts of the Network.", "HOST,HOST,...")
    library: Path | None = option(
        "Leave the operation to the MPI library if no tree is predicted to be faster than this file of "
        "`python -m gavotte.mpi.timing` says the library is.",
        "LIBRARY.jsonl",
    )
    mpi: str | None = option(
        "Leave the operation to this MPI library, openmpi or mpich, if no tree is predicted to be faster than the "
        "algorithm that the library would choose.",
        "LIBRARY",
    )
    segments: int | None = option(
        "Pieces to cut the message into; for search and ring the most to try.", "N", min=1, max=65536
    )


@declared
def collective(
    network: NetworkFile,
    asked: QuestionOptions,
    replaying: ReplayOptions,
    tuning: TuningOptions,
    form: str = option("json, or shim for the library of `gavotte shim`.", None, "--format", default="json"),
    output: Annotated[Path | None, to_write("Write the tree, ring or settings to this file.", "C.tree.json")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Find the tree or ring along which a collective operation is fastest, and in how many pieces."""
    from gavotte.collective import TreeSearch, plan, read_library, shim_text
    from gavotte.errors import GavotteError
    from gavotte.formats.collective import write_collective
    from gavotte.formats.files.reading import write_text
    from gavotte.formats.network import read_network

    if asked.placement is not None and asked.ranks is not None:
        raise typer.BadParameter("--placement and --ranks both name the hosts of the ranks; use one of them")
    if form not in ("json", "shim"):
        raise GavotteError(f"unknown format `{form}`", hint="use json or shim")
    if tuning.settings is not None:
        if form != "json" or replaying.history is not None:
            raise typer.BadParameter("--settings plans no tree: leave out --format and --replay")
        _settings(network, asked, tuning, output, as_json=as_json)
        return
    if tuning.explain or tuning.reorder_sums:
        raise typer.BadParameter("--explain and --reorder-sums need --settings")
    replayed = read_replay(replaying, seed)
    net = read_network(network)
    warn(unknown_pairs(net))
    hosts = _hosts(asked, net)
    library = () if asked.library is None else read_library(asked.library)
    size_bytes = read_size("--bytes", asked.size)
    answers: list[Collective] = []
    operations = list(_operations(asked, hosts, alone=form == "json"))
    with progress("planning", "operations") as advance:
        for operation, root in operations:
            advance(len(answers), len(operations))
            answers.append(
                plan(
                    net,
                    operation,
                    size_bytes=size_bytes,
                    root=root,
                    algorithm=asked.algorithm,
                    ranks=hosts,
                    segments=asked.segments,
                    search=TreeSearch(seed=seed, library=library, mpi=asked.mpi),
                )
            )
    if output is not None:
        if form == "shim":
            write_text(output, shim_text(answers))
        else:
            write_collective(output, answers[0])
    if as_json:
        documents = [each.model_dump(mode="json") | _replayed(each, replayed, net) for each in answers]
        emit_json(documents[0] if form == "json" else documents)
    elif form == "shim" and output is None:
        typer.echo(shim_text(answers), nl=False)
    else:
        for each in answers:
            _show(each, replayed, net)
    if output is not None:
        note(f"wrote {output}")


def _settings(
    network: Path, asked: QuestionOptions, tuning: TuningOptions, output: Path | None, *, as_json: bool
) -> None:
    """Choose settings of an MPI library, and write or print them."""
    from gavotte.cli.tuning import note_tuning, note_use, print_settings, show, tune
    from gavotte.collective.tuning import settings_text
    from gavotte.formats.files.reading import write_text
    from gavotte.formats.network import read_network

    if asked.algorithm != "auto" or asked.segments is not None or asked.library is not None or asked.mpi is not None:
        raise typer.BadParameter(
            "--settings chooses the library's own algorithms, without --algorithm, --segments, --library or --mpi"
        )
    net = read_network(network)
    warn(unknown_pairs(net))
    most = read_size("--bytes", asked.size)
    with progress("planning"):
        chosen = tune(net, _hosts(asked, net), asked.operation, asked.root or [], most, tuning)
    if output is not None:
        write_text(output, settings_text(chosen.question.library, chosen.settings))
    if as_json:
        emit_json(chosen.document)
    elif tuning.explain:
        show(chosen)
    elif output is None:
        print_settings(chosen)
    note_tuning(chosen)
    if output is not None:
        note(f"wrote {output}")
        note_use(chosen, str(output.absolute()))


def _hosts(asked: QuestionOptions, network: Network) -> list[str]:
    """Return the host of each rank."""
    from gavotte.formats.parts.names import known_as
    from gavotte.formats.placement import read_placement

    if asked.placement is not None:
        placed = read_placement(asked.placement)
        placed.check_stays("a collective")
        return list(placed.assignment.values())
    if asked.ranks is not None:
        return [known_as(host.strip(), network.names) for host in asked.ranks.split(",")]
    return network.names


def _operations(asked: QuestionOptions, hosts: list[str], *, alone: bool) -> Iterator[tuple[Operation, str | None]]:
    """Yield each operation with each root that it is planned for.

    Raises:
        GavotteError: for an unknown operation, or several if one must be `alone`.
    """
    from gavotte.collective import OPERATIONS
    from gavotte.errors import GavotteError

    operations = [each for name in asked.operation for each in (OPERATIONS if name == "all" else (name,))]
    roots: list[str | None] = [each for name in asked.root or [] for each in (hosts if name == "all" else (name,))]
    by_name: dict[str, Operation] = {name: name for name in OPERATIONS}
    for name in operations:
        if name not in by_name:
            raise GavotteError(f"unknown operation `{name}`", hint=f"use one of {', '.join(OPERATIONS)}")
    if alone and (len(operations) > 1 or len(roots) > 1):
        raise GavotteError(
            "a *.tree.json holds a single operation and root", hint="name one of each, or use `--format shim`"
        )
    for name in operations:
        for root in dict.fromkeys(roots or [None]) if name in _ROOTED or len(roots) == 1 else (None,):
            yield by_name[name], root


def _replayed(answer: Collective, history: History | None, network: Network) -> dict[str, Any]:
    from gavotte.collective import replay

    return {} if history is None else {"replayed_s": replay(history, answer, network).tolist()}


def _show(answer: Collective, history: History | None, network: Network) -> None:
    """Print the predictions, then each tree."""
    from gavotte.collective import draw

    rows = [(answer.algorithm, answer.predicted_s), *answer.baselines_s.items()]
    emit_table(
        [f"{answer.operation} {format_bytes(answer.bytes)}", "predicted s", "pieces", "against binomial"],
        [
            [
                name,
                f"{seconds:.4g}",
                "/".join(str(stage.segments) for stage in answer.stages) if name == answer.algorithm else "",
                _against(seconds, dict(rows).get("binomial")),
            ]
            for name, seconds in rows
        ],
    )
    for stage in answer.stages:
        where = f"around a ring of {stage.ring} members" if stage.ring else f"root {answer.hosts[stage.root]}"
        typer.echo(f"\n{stage.operation}, {where}\n{draw(stage, answer.hosts)}")
    if history is not None:
        seconds = _replayed(answer, history, network)["replayed_s"]
        note_replay(seconds)
    note(f"seed {answer.seed}")


def _against(seconds: float, binomial_s: float | None) -> str:
    if not binomial_s:
        return ""
    return f"{100 * (seconds / binomial_s - 1):+.0f} %"
