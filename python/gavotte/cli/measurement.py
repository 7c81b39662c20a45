"""The output of `gavotte measure`: a table, notes, and JSON."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gavotte.cli.by_tcp import documented, mark, note_fast, several
from gavotte.cli.many_hosts import print_groups
from gavotte.cli.output import GAP, emit_findings, emit_table, note, stdout, verbose, with_information
from gavotte.formats.history import VERDICTS, Floats, History, Ints, Proof
from gavotte.formats.network import MOST_IN_MATRICES
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import common_unit, format_bytes, format_in, format_rate
from gavotte.terms.goodput import MTU_BYTES
from gavotte.terms.labels import shortened

MOST_LINKS = 24
"""Most shared links that are listed without -v."""

if TYPE_CHECKING:
    from gavotte.measure import Measurement
    from gavotte.model import HeldOutCheck, LearnedFromFew


def document(result: Measurement, method: str, output: Path | None) -> dict[str, object]:
    """Return a measurement as `--json` prints it.

    Args:
        result: the measurement.
        method: its name.
        output: the written file; None = none.
    """
    pairs, names, learned = result.pairs, result.pairs.hosts, _learned(result)
    many = len(names) > MOST_IN_MATRICES
    return {
        "hosts": list(names),
        "findings": _findings(result, learned),
        "method": method,
        "paths": result.paths,
        "held_out": _held_out(_check_of(result, learned)),
        "answered": result.answered,
        "again": result.again,
        "snapshots": pairs.snapshots,
        "measure_s": result.seconds,
        "bytes_sent": result.bytes_sent,
        "seed": result.seed,
        **({"pairs": result.to_records()} if many else _matrices(result)),
        "packets": [
            {
                "source": names[i],
                "target": names[j],
                "payload_bytes": path.payload_bytes,
                "wire_bytes": path.wire_bytes,
                "mtu_bytes": path.mtu_bytes or None,
            }
            for (i, j), path in sorted(result.newest.items())
            if path.payload_bytes and not many
        ],
        "policed": _policed(result),
        "credits": [vars(credit) for credit in result.credits],
        "withheld": [
            {"source": source, "target": target, **vars(gap), "reason": str(gap)}
            for (source, target), gap in result.gaps.items()
        ],
        "flows": [
            {"source": names[i], "target": names[j], "flows": [vars(flow) for flow in path.flows]}
            for (i, j), path in sorted(result.newest.items())
            if path.flows
        ],
        "by_tcp": documented(pairs),
        "several": several(pairs),
        "missing": result.missing,
        "lost": result.lost,
        "shared": [{"link": link, "rate_bps": rate_bps or None} for link, rate_bps in result.shared.items()],
        "untested": result.untested,
        "doubtful": [list(pair) for pair in result.doubtful],
        "busy": [list(pair) for pair in result.busy],
        "stopped": result.stopped or None,
        "beside": [each.as_dict() for each in result.beside],
        "guaranteed_bps": result.guaranteed_bps,
        "failures": [vars(failure) for failure in result.failures],
        "output": None if output is None else str(output),
    }


def _matrices(result: Measurement) -> dict[str, object]:
    """Return what `--json` prints with one row and one column per host."""
    history = result.history
    return {
        "rate_bps": [[None if b != b else 8 * b for b in row] for row in history.beta_Bps[-1].tolist()],
        "latency_s": [[None if a != a else a for a in row] for row in history.alpha_s[-1].tolist()],
        "hops": history.hops.tolist(),
        "mtu_bytes": [[mtu_bytes or None for mtu_bytes in row] for row in history.mtu().tolist()],
        "sender_cpu": _matrix(result, "sender_cpu"),
        "receiver_cpu": _matrix(result, "receiver_cpu"),
        "sender_waited": _matrix(result, "sender_waited"),
        "receiver_waited": _matrix(result, "receiver_waited"),
        "proof": None if history.proof is None else _proof(history.proof, history.beta_Bps),
    }


def _learned(result: Measurement) -> LearnedFromFew | None:
    """Return what the pairs of many hosts show; None with few hosts, or if no path answered."""
    from gavotte.errors import GavotteError
    from gavotte.model import learn_from_few

    if len(result.pairs.hosts) <= MOST_IN_MATRICES:
        return None
    with suppress(GavotteError):
        return learn_from_few(result.pairs, method="last")
    return None


def _check_of(result: Measurement, learned: LearnedFromFew | None) -> HeldOutCheck | None:
    """Return how well the measured pairs predict those that were held out; None if none were, or nothing predicts."""
    from gavotte.errors import GavotteError
    from gavotte.model import check_held_out

    if len(result.pairs.hosts) > MOST_IN_MATRICES:
        return None if learned is None else learned.check
    with suppress(GavotteError):  # Some host may have no answer at all.
        return check_held_out(result.history)
    return None


def _held_out(check: HeldOutCheck | None) -> dict[str, object] | None:
    """Return how well held-out pairs are predicted as `--json` prints it."""
    return None if check is None else vars(check) | {"worst": list(check.worst)}


def _findings(result: Measurement, learned: LearnedFromFew | None) -> list[str]:
    """Return what stands out; empty if no path answered."""
    from gavotte.terms.standouts import standouts

    if len(result.pairs.hosts) > MOST_IN_MATRICES:
        return [] if learned is None else standouts(learned.network)
    return standouts_of(result.history) if result.answered else []


def _policed(result: Measurement) -> list[list[str]]:
    """Return the pairs whose paths drop packets above a rate, in the newest snapshot."""
    hosts = result.pairs.hosts
    return [[hosts[i], hosts[j]] for (i, j), path in sorted(result.newest.items()) if path.reading.policed]


def _matrix(result: Measurement, key: str) -> list[list[float | None]]:
    """Return one value of each path of the newest snapshot; None = unknown."""
    size = range(len(result.history.hosts))
    values = {at: getattr(path, key) for at, path in result.newest.items() if not math.isnan(getattr(path, key))}
    return [[values.get((i, j)) for j in size] for i in size]


def _proof(proof: Proof, beta_Bps: Floats) -> dict[str, object]:  # noqa: N803
    """Return the newest snapshot's proofs, by pair."""
    rates = {key.replace("_Bps", "_bps"): 8 * getattr(proof, key)[-1] for key in ("low_Bps", "high_Bps", "peak_Bps")}
    matrices = rates | {"bucket_bytes": proof.bucket_bytes[-1], "loss": proof.loss[-1]}
    return {
        "bucket_full": proof.bucket_full(beta_Bps)[-1].tolist(),
        "verdict": [[VERDICTS[code] for code in row] for row in proof.verdict[-1].tolist()],
        **{key: [[None if v != v else v for v in row] for row in matrix.tolist()] for key, matrix in matrices.items()},
    }


def _marks(result: Measurement, source: int, target: int) -> str:
    """Return the marks after a rate of the table."""
    from gavotte.measure.adapt.withheld import HOST_MARK

    path = result.newest.get((source, target))
    return mark(result.history, source, target) + HOST_MARK * (path is not None and path.gap is not None)


def standouts_of(history: History) -> list[str]:
    """Return what stands out in the newest snapshot: slow hosts, and the links that experiments show to be shared."""
    from gavotte.errors import GavotteError
    from gavotte.model import model
    from gavotte.terms.hierarchy import hierarchy_of
    from gavotte.terms.standouts import host_sentences, link_sentences

    machines = hierarchy_of(history.hosts, history.hops).machine
    sentences = host_sentences(history.hosts, 8 * history.beta_Bps[-1], machines)
    if history.evidence:
        with suppress(GavotteError):  # A pair that was never measured has no model.
            sentences += link_sentences(model(history))
    return sentences


def print_result(result: Measurement) -> None:
    """Print what stands out, the table of rates, and notes."""
    pairs, learned = result.pairs, _learned(result)
    emit_findings(_findings(result, learned))
    if learned is not None:
        print_groups(learned.network)
    elif len(pairs.hosts) <= MOST_IN_MATRICES:
        _print_rates(result)
    values = pairs.values
    if "verdict" in values:
        _note_proofs(values["verdict"][-1][np.isfinite(pairs.beta_Bps[-1])])
    note(
        f"{result.answered} of {result.paths} paths answered in {result.seconds:.2f} s, "
        f"{format_bytes(result.bytes_sent)} sent, seed {result.seed}"
    )
    if (check := _check_of(result, learned)) is not None:
        note(check.sentence)
    note_fast(pairs)
    mtus = values.get("mtu_bytes", np.zeros(0, dtype=np.int64))
    if (sizes := mtus[mtus > 0]).size:
        least, most = int(sizes.min()), int(sizes.max())
        if (least, most) != (MTU_BYTES, MTU_BYTES):
            note(f"MTU {least}{f' to {most}' * (most > least)} bytes")
    if policed := len(_policed(result)):
        note(f"{counted(policed, 'path')} with a policer, which drops packets above the rate; TCP may get less")
    if "unqueued_lost" in values:
        share = values["unqueued_lost"].sum() / values["unqueued"].sum()
        note(f"trains lost {share:.2%} of their packets although no queue was full: one TCP connection may get less")
    for number, (link, sum_bps) in enumerate(result.shared.items()):
        if number == MOST_LINKS and not verbose():
            note(f"{len(result.shared) - MOST_LINKS} more links are shared (-v lists them)")
            break
        carries = (
            f"carries {format_rate(sum_bps)} in all" if sum_bps else "was full; --sharing measures what it carries"
        )
        note(f"shared: {link} {carries}")


def _print_rates(result: Measurement) -> None:
    """Print the rate of each path; hosts without any are counted, and listed only with -v."""
    history = result.history
    rates_bps = 8 * history.beta_Bps[-1]
    known = np.isfinite(rates_bps)
    shown = with_information(
        range(len(history.hosts)), lambda host: known[host].any() or known[:, host].any(), "host", "without any answer"
    )
    unit, scale = common_unit(rates_bps[known].tolist())
    rows = [
        [
            history.hosts[i],
            *(format_in(rates_bps[i, j], scale) + _marks(result, i, j) if known[i, j] else "-" for j in shown),
        ]
        for i in shown
    ]
    names = [history.hosts[host] for host in shown]
    if sum(len(name) + GAP for name in names) > stdout().width:
        names = shortened(names)
    if rows:
        emit_table([unit, *names], rows)


PROOFS = {
    "path-limited": "the most that the path carries",
    "host-limited": "a lower bound, because a host was slower than the path",
    "bucket-not-exhausted": "a lower bound, because the sender's credit for bursts was not used up",
    "unproven": "not proven to be the most that the path carries",
}
"""What each of `VERDICTS` means for a rate."""


def _note_proofs(codes: Ints) -> None:
    """Print how many rates are proven, and how many are lower bounds."""
    for word, meaning in PROOFS.items():
        if count := int((codes == VERDICTS.index(word)).sum()):
            note(f"{counted(count, 'rate')}: {meaning}{f' ({word})' * verbose()}")
