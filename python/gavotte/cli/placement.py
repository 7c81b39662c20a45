"""What `gavotte place` prints: the tables of a Placement, and the document of `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gavotte.cli.output import emit_table, note
from gavotte.cli.traces import replayed_text
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes, format_rate
from gavotte.formats.placement import Placement

if TYPE_CHECKING:
    from gavotte.place import Answer, Explanation, Forecast, Front, Worth

USELESS_GAP = 0.95
"""A bound below a twentieth of the completion time is not printed."""

_SHOWN = 12
"""Rows of each table of an explanation."""


@dataclass(frozen=True)
class Report:
    """An answer with all that is printed about it.

    Attributes:
        answer: the answer.
        placement: its Placement as it is written.
        interrupted: whether a signal came before or after the answer.
        warnings: about the question and the answer.
        worth: the gain over placing blindly; None = it was not estimated.
        forecast: the run time predicted from earlier runs; None = not requested.
        least_saving_s: a smaller saving is not worth it.
        explanation: what limits the completion time; None = not requested.
        front: placements between the fastest and the best for the goal; None = not requested.
    """

    answer: Answer
    placement: Placement
    interrupted: bool
    warnings: Sequence[str]
    worth: Worth | None
    forecast: Forecast | None
    least_saving_s: float
    explanation: Explanation | None
    front: Front | None = None

    def document(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        answer = self.answer
        replayed = answer.replayed
        document = self.placement.model_dump(mode="json") | {
            "gap": answer.gap,
            "chosen": answer.chosen,
            "stopped": answer.stopped,
            "bound_stopped": answer.bound_stopped,
            "interrupted": self.interrupted,
            "hosts_used": answer.hosts_used,
            "price_usd": answer.price_usd,
            "latency_s": answer.latency_s,
            "unmoved_s": answer.unmoved_s,
            "replayed": None if replayed is None else asdict(replayed) | {"saving": replayed.saving},
            "warnings": list(self.warnings),
            "worth": None if self.worth is None else asdict(self.worth),
        }
        if self.forecast is not None:
            document["forecast"] = asdict(self.forecast) | {
                "verdict": self.verdict or None,
                "hidden": self.forecast.hidden or None,
            }
        if self.explanation is not None:
            document["explanation"] = asdict(self.explanation)
        if self.front is not None:
            document["front"] = [_point(answer) for answer in self.front.answers]
        return document

    @property
    def verdict(self) -> str:
        """Whether the job should move, by its own time in earlier runs; empty if that is unknown."""
        return "" if self.forecast is None else self.forecast.verdict(self.least_saving_s)

    def emit(self, goal: str) -> None:
        """Print the tables on stdout and the rest on stderr."""
        hosts: dict[str, list[str]] = {}
        for task, host in self.placement.assignment.items():
            hosts.setdefault(host, []).append(task)
        rows = [[host, " ".join(tasks)] for host, tasks in sorted(hosts.items())]
        emit_table(["host", "tasks"], rows, words=["tasks"])
        if self.placement.moves:
            _emit_moves(self.placement)
        if self.explanation is not None:
            _emit_explanation(self.explanation)
        if self.front is not None:
            _emit_front(self.front, self.answer)
        self._note_time()
        if goal != "time" or self.answer.price_usd:
            price = f", {self.answer.price_usd:.4g} USD" if self.answer.price_usd else ""
            note(f"{counted(self.answer.hosts_used, 'host')}{price}")
        if goal == "latency":
            note(f"latency: {self.answer.latency_s:.3g} s")
        if self.worth is not None and self.worth.worthwhile:
            note(self.worth.reason)
        if self.forecast is not None:
            for line in filter(None, (self.forecast.reason, self.forecast.hidden)):
                note(line)
            if self.verdict:
                note(self.verdict)

    def _note_time(self) -> None:
        """Print the completion time, how far it is proven, and what limits it."""
        answer, placement = self.answer, self.placement
        if placement.optimal:
            proof = "proven optimal"
        elif answer.gap > USELESS_GAP:
            proof = "no useful bound"
        else:
            proof = f"at least {placement.bound_s:.3g} s, gap {answer.gap:.1%}"
        chosen = placement.method if answer.chosen == placement.method else f"{placement.method} ({answer.chosen})"
        if placement.method == "optimal" and not placement.optimal:
            chosen = "best found, not proven optimal"
        note(f"{chosen}: predicted {placement.completion_s:.3g} s ({proof}), seed {placement.seed}")
        note(f"bottleneck: {placement.bottleneck}")
        if answer.replayed is not None:
            note(replayed_text(answer.replayed, "tasks dealt out in turn take"))
        if placement.broken:
            note(f"breaks {', '.join(placement.broken)}, which counts as {placement.penalty_s:.3g} s")
        if answer.unmoved_s is not None:
            saved_s = answer.unmoved_s - placement.completion_s
            saving = f"save {saved_s:.3g} s of {answer.unmoved_s:.3g} s"
            note(f"moves between phases {saving if placement.moves else 'save less than they cost'}")


def _point(answer: Answer) -> dict[str, Any]:
    """Return a placement of a front as `--json` prints it."""
    return {
        "completion_s": answer.placement.completion_s,
        "penalty_s": answer.placement.penalty_s,
        "bound_s": answer.placement.bound_s,
        "optimal": answer.placement.optimal,
        "hosts_used": answer.hosts_used,
        "price_usd": answer.price_usd,
        "latency_s": answer.latency_s,
        "assignment": answer.placement.assignment,
    }


def _emit_front(front: Front, chosen: Answer) -> None:
    """Print a table of the placements of a front; the chosen one has a mark."""
    rows = [
        [
            "*" if answer is chosen else "",
            f"{answer.total_s:.4g}",
            f"{answer.placement.bound_s:.4g}",
            str(answer.hosts_used),
            f"{answer.price_usd:.4g}",
            f"{answer.latency_s:.3g}",
        ]
        for answer in front.answers
    ]
    title = f"\nplacements from the fastest to the best for {front.goal}"
    emit_table(["chosen", "s", "at least s", "hosts", "USD", "latency s"], rows, title=title, words=["chosen"])


def _emit_moves(placement: Placement) -> None:
    """Print a table of the tasks that change their hosts."""
    at = dict(placement.assignment)
    rows = []
    for move in placement.moves:
        rows.append([str(move.phase), move.task, at[move.task], move.host, format_bytes(move.bytes)])
        at[move.task] = move.host
    emit_table(["before phase", "task", "from", "to", "state"], rows, title="\nmoves", words=["task", "from", "to"])


def _emit_explanation(explanation: Explanation) -> None:
    """Print what loads the bottleneck, how idle the other links are, and the next-best placement."""
    if explanation.crossing:
        emit_table(
            ["transfer", "from", "to", "bytes", "share"],
            [
                [
                    f"{row.source} to {row.target}",
                    row.source_host,
                    row.target_host,
                    format_bytes(row.bytes),
                    f"{row.share:.0%}",
                ]
                for row in explanation.crossing[:_SHOWN]
            ],
            title=f"\non the bottleneck, {explanation.bottleneck}{_more(explanation.crossing)}",
            words=["from", "to"],
        )
    if explanation.links:
        emit_table(
            ["link", "phase", "bytes", "of others", "rate", "s", "slack s"],
            [
                [
                    row.link,
                    str(row.phase),
                    format_bytes(row.bytes),
                    format_bytes(row.load_bytes) if row.load_bytes else "",
                    format_rate(row.rate_bps),
                    f"{row.seconds:.3g}",
                    f"{row.slack_s:.3g}",
                ]
                for row in explanation.links[:_SHOWN]
            ],
            title=f"\nlinks in use, slowest first{_more(explanation.links)}",
        )
    other = explanation.runner_up
    if other is None:
        note("no single relocation relieves the bottleneck")
        return
    moves = ", ".join(f"{task} from {source} to {target}" for task, source, target in other.moves)
    change = f"saves {other.gain_s:.3g} s" if other.gain_s > 0 else f"costs {abs(other.gain_s):.3g} s"
    note(f"next-best: {moves}, which {change} ({other.completion_s:.3g} s)")


def _more(rows: Sequence[object]) -> str:
    return f" ({_SHOWN} of {len(rows)})" if len(rows) > _SHOWN else ""
