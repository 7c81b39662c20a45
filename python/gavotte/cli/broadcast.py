"""`gavotte broadcast`: send one file to many hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.declared import REQUIRED, declared, option
from gavotte.cli.options import Encrypt, Hosts, Json, Seed, copy_path, read_size, separated
from gavotte.cli.output import emit_json, emit_table, note, unknown_pairs, warn
from gavotte.cli.progress import BYTES, progress
from gavotte.cli.writing import to_write
from gavotte.errors import GavotteError
from gavotte.formats.parts.counting import listed
from gavotte.formats.parts.rates import format_bytes

if TYPE_CHECKING:
    from gavotte.transfer import BroadcastPlan, BroadcastQuestion, BroadcastResult

GONE = " no longer takes part: "


@dataclass(frozen=True)
class QuestionOptions:
    """Which hosts get the file, and how."""

    hosts: Hosts
    source: str = option("Host that has the file.", "HOST", "--from", default=REQUIRED)
    output: str = option(
        "Path of the copies; {host} is replaced by the receiver's name.", "PATH", "-o", "--output", default=REQUIRED
    )
    to: list[str] | None = option("Receiving hosts, separated by commas. By default all others.", "HOST,...")
    network: Path | None = option(
        "Network between the hosts. By default a short probe of each host's port.", "N.network.json"
    )
    mechanism: str = option("Mechanism of the broadcast.", "NAME", default="auto")
    max_seconds: float = option("Give up after this many seconds.", "SECONDS", default=3600.0, min=0.1)
    cache: str | None = option(
        "Folder of each receiver's cache; {host} is replaced by its name. Its blocks are not sent again.", "DIR"
    )
    cache_bytes: str = option("Most bytes that a host keeps in its cache.", "SIZE", default="10gb")
    wait: float = option(
        "Keep retrying unreachable hosts until the others finish, plus this long.", "SECONDS", default=0.0, min=0
    )
    times: Annotated[
        Path | None,
        to_write(
            "File of Cornet's block transfer times, from which clustering learns.", "FILE.json", "--times", updates=True
        ),
    ] = None
    encrypt: Encrypt = False
    seed: Seed = 0


@declared
def broadcast(
    file: Annotated[str, typer.Argument(help="File or folder to send, as a path on the --from host.", metavar="FILE")],
    asked: QuestionOptions,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the plan, its predicted time and the lower bound, and send nothing."),
    ] = False,
    discard: Annotated[
        bool,
        typer.Option(
            "--discard", help="Remove the incomplete copies that an interrupted broadcast left, and send nothing."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Send a file from one host to many, as fast as the network allows."""
    from gavotte.transfer import BroadcastSession, plan_file, send

    question = _question(file, asked)
    if question.network is not None:
        warn(unknown_pairs(question.network))
    if discard:
        _discard(question, as_json=as_json)
        return
    if dry_run:
        plan = plan_file(question)
        _planned(plan)
        if as_json:
            emit_json(_as_json(question, plan, None))
        return
    with progress("sending", BYTES) as advance:
        held: dict[str, int] = {}

        def announce(plan: BroadcastPlan) -> None:
            _planned(plan)
            held.update(dict.fromkeys(plan.receivers, 0))
            advance(0, plan.bytes * len(held))

        def watch(host: str, done: int, total: int) -> None:
            held[host] = done
            advance(sum(held.values()), total * len(held))

        try:
            result = send(question, BroadcastSession(announce, watch, times=asked.times))
        except BaseException as stop:
            # A signal unwinds by an exception that is no error.
            if held and not isinstance(stop, Exception):
                note(
                    f"receivers keep what has arrived at {question.output}.partial: the same command sends only the "
                    "rest, and with --discard it removes it"
                )
            raise
    for line in _changes(result.changes, question.output):
        note(line)
    warn(result.warnings)
    if as_json:
        emit_json(_as_json(question, result.plan, result))
    else:
        emit_table(
            ["receiver", "done after s", "failure"],
            [
                [each.host, "" if each.finish_s is None else f"{each.finish_s:.3f}", each.error]
                for each in result.receivers
            ],
            words=["failure"],
        )
    _conclude(result, question.output)


def _discard(question: BroadcastQuestion, *, as_json: bool) -> None:
    """Remove incomplete copies, and print on which hosts there were some.

    Raises:
        GavotteError: when a host does not answer, or cannot remove its copy.
    """
    from gavotte.transfer import discard as remove

    with progress("removing incomplete copies"):
        done = remove(question)
    if as_json:
        emit_json({"removed": done.removed, "failed": done.failed})
    where = f"{question.output}.partial"
    note(f"removed {where} on {listed(done.removed)}" if done.removed else f"no receiver has {where}")
    if done.failed:
        host, reason = next(iter(done.failed.items()))
        raise GavotteError(
            f"{len(done.failed)} of {len(question.receivers)} receivers may still have it; {host}: {reason}"
        )


def _question(file: str, asked: QuestionOptions) -> BroadcastQuestion:
    """Return the question that the options ask."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.network import read_network
    from gavotte.transfer import BroadcastQuestion, HostCache

    cache = None
    if asked.cache is not None:
        cache = HostCache(copy_path(asked.cache.rstrip("/")), read_size("--cache-bytes", asked.cache_bytes))
    return BroadcastQuestion(
        str(Path(file).absolute()),
        resolve_hosts(asked.hosts),
        asked.source,
        copy_path(asked.output),
        None if asked.to is None else separated(asked.to),
        None if asked.network is None else read_network(asked.network),
        asked.mechanism,  # type: ignore[arg-type]
        max_seconds=asked.max_seconds,
        wait_s=asked.wait,
        seed=asked.seed,
        cache=cache,
        encrypt=asked.encrypt,
    )


def _conclude(result: BroadcastResult, output: str) -> None:
    """Print how long the copies took.

    Args:
        result: the result.
        output: path of the copies, with `{host}` for the receiver's name.

    Raises:
        GavotteError: when receivers have no copy.
    """
    if result.elapsed_s is not None:
        plan, over = result.plan, ""
        if result.ratio is not None:
            over = f", {result.ratio:.2f} times the lower bound of {plan.bound_s:.3f} s ({plan.port})"
        elif plan.estimate_s is not None:
            over = f"; a short probe of the ports gave an estimate of {plan.estimate_s:.2g} s ({plan.port})"
        copies = len(result.receivers) - len(result.lost)
        how = ", encrypted," if result.encrypted else ""
        note(f"{copies} {'copy' if copies == 1 else 'copies'}{how} in {result.elapsed_s:.3f} s{over}")
    cached_bytes = sum(each.cached_bytes for each in result.receivers)
    if cached_bytes:
        note(f"{format_bytes(cached_bytes)} were in the receivers' caches")
    if result.lost:
        raise GavotteError(result.loss_message(output), hint=result.remedy(output))


def _changes(changes: Sequence[str], output: str) -> list[str]:
    """Return the changes of a broadcast, with one line for all receivers that one cause excluded at the same path.

    Args:
        changes: events, one line each.
        output: path of the copies, with `{host}` for the receiver's name.
    """
    from gavotte.transfer.outcome import causes

    lost: dict[str, str] = {}
    lines = []
    for line in changes:
        host, gone, why = line.partition(GONE)
        if gone and output.replace("{host}", host) in why:
            lost[host] = why
        else:
            lines.append(line)
    return [*lines, *(f"no longer take part: {cause}" for cause in causes(lost, output))]


def _planned(plan: BroadcastPlan) -> None:
    warn(plan.warnings)
    if plan.predicted_s is None:
        predicted, bound = "no prediction without a Network", ""
    elif plan.bound_s is None:
        predicted, bound = f"estimated {plan.predicted_s:.2g} s", " by a short probe of the ports"
    else:
        predicted, bound = f"predicted {plan.predicted_s:.3g} s", f", lower bound {plan.bound_s:.3g} s ({plan.port})"
    note(f"{format_bytes(plan.bytes)} to {len(plan.receivers)} receivers by {plan.mechanism}: {predicted}{bound}")


def _as_json(question: BroadcastQuestion, plan: BroadcastPlan, result: BroadcastResult | None) -> dict[str, Any]:
    if result is None:
        receivers = [{"host": host, "finish_s": None, "ok": False, "error": ""} for host in plan.receivers]
    else:
        receivers = result.to_records()
    return {
        "bytes": plan.bytes,
        "mechanism": plan.mechanism,
        "bound_s": plan.bound_s,
        "estimate_s": plan.estimate_s,
        "port": plan.port,
        "predicted_s": plan.predicted_s,
        "prices_s": plan.prices,
        "elapsed_s": None if result is None else result.elapsed_s,
        "ratio": None if result is None else result.ratio,
        "setup_s": None if result is None else result.setup_s,
        "checksum": None if result is None else result.checksum,
        "source_sent_bytes": None if result is None else result.source_sent_bytes,
        "changes": [] if result is None else result.changes,
        "encrypted": question.encrypt,
        "seed": question.seed,
        "receivers": receivers,
    }
