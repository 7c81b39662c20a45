"""Networks that are learned from few pairs say the same as those that are learned with matrices."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork
from tests.measure.test_sparse_played import measured, racks
from tests.shell import gavotte

from gavotte.cli import measurement
from gavotte.errors import GavotteError
from gavotte.formats.history import History, PairHistory, in_fitting_form, read_pairs, write_history
from gavotte.formats.network import MOST_IN_MATRICES, read_network
from gavotte.formats.parts.tree import Tree, every_pair, limits_bps
from gavotte.measure import Measurement
from gavotte.model import are_few, check_held_out, compact, find_constant, learn_from_few, model
from gavotte.terms.goodput import GOODPUT_PER_WIRE


@pytest.fixture(scope="module")
def forty() -> PairHistory:
    return measured(PlayedNetwork(Oracle(racks(4, 10, 3.0)), seed=1), "structure").pairs


@pytest.fixture(scope="module")
def many() -> Measurement:
    return measured(PlayedNetwork(Oracle(racks(11, 26, 3.0)), seed=1), "structure")


def test_few_pairs_make_the_network_that_matrices_make(forty: PairHistory) -> None:
    history = History.of_pairs(forty)
    learned = learn_from_few(forty, method="last")
    whole = compact(model(history, constant=find_constant(history, method="last")), check_held_out(history)).network
    assert learned.network.groups == whole.groups
    # Hosts limit what they send. What they received is a cap only in matrices, which are not used with few pairs.
    free = {"latency_s": None, "ingress_bps": None, "ingress_low_bps": None}
    for host, other in zip(learned.network.hosts, whole.hosts, strict=True):
        assert host.ingress_bps is None
        assert host.model_copy(update=free) == other.model_copy(update=free)
    assert learned.network.exceptions == whole.exceptions == []
    assert learned.network.checked is not None
    assert learned.network.checked.pairs == 80
    assert learned.network.checked.off == 0
    assert learned.check is not None
    assert (learned.check.pairs, learned.check.off) == (80, 0)
    assert (learned.method, learned.snapshots, learned.warnings) == ("last", 1, ())
    assert learned.network.band == pytest.approx(whole.band)


def test_a_slow_pair_is_an_exception_and_off(forty: PairHistory) -> None:
    beta = forty.beta_Bps.copy()
    held_out = np.flatnonzero(forty.values["held_out"])[0]
    beta[0, held_out] /= 3
    slow = replace(forty, values={**forty.values, "beta_Bps": beta})
    learned = learn_from_few(slow)
    source, target = (forty.hosts[host] for host in forty.pairs[held_out])
    assert [(each.source, each.target) for each in learned.network.exceptions] == [(source, target)]
    check = learned.check
    assert check is not None
    assert (check.off, check.worst) == (1, (source, target))
    assert learned.network.checked is not None
    assert learned.network.checked.off == 1


def test_hosts_without_any_answer_are_left_out(forty: PairHistory) -> None:
    beta = forty.beta_Bps.copy()
    beta[:, (forty.pairs == 3).any(axis=1)] = np.nan
    # This one still receives.
    beta[:, forty.pairs[:, 0] == 7] = np.nan
    learned = learn_from_few(replace(forty, values={**forty.values, "beta_Bps": beta}))
    assert learned.network.names == [name for name in forty.hosts if name not in ("h3", "h7")]
    assert learned.warnings == ("h3 and h7 are left out: no path was measured in one of the directions",)
    assert learned.check is not None
    assert learned.check.off == 0
    nothing = replace(forty, values={**forty.values, "beta_Bps": np.full_like(beta, np.nan)})
    with pytest.raises(GavotteError, match="no host is left"):
        learn_from_few(nothing)
    with pytest.raises(GavotteError, match="unknown method `magic`"):
        learn_from_few(forty, method="magic")


@pytest.mark.slow
def test_many_hosts_are_measured_and_modelled_without_matrices(
    many: Measurement, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = len(many.pairs.hosts)
    assert size > MOST_IN_MATRICES
    assert are_few(many.pairs)
    assert in_fitting_form(many.pairs) is many.pairs
    write_history(tmp_path / "h.npz", many.pairs)
    assert read_pairs(tmp_path / "h.npz").answered == many.answered
    measurement.print_result(many)
    printed = capsys.readouterr()
    assert "history" not in vars(many)  # the matrices, which are made on first use
    rows = [line.split() for line in printed.out.splitlines()]
    assert sum(row[:1] == [f"rack-{number}"] for row in rows for number in range(11)) == 11
    assert "share" in printed.out
    assert f"at most {100 * 3 / (2 * size):.1f} % of the pairs are off" in printed.err
    document = measurement.document(many, "train", None)
    assert len(document["pairs"]) == many.answered  # type: ignore[arg-type]
    assert "rate_bps" not in document
    assert json.dumps(document)

    done = gavotte("model", "h.npz", "-o", "n.network.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "learned from 1 snapshot by the method median" in done.stderr
    network = read_network(tmp_path / "n.network.json")
    assert network.compact
    assert network.rate_bps == []
    assert network.checked is not None
    assert network.checked.off == 0
    oracle = Oracle(racks(11, 26, 3.0))
    chosen = np.random.default_rng(0).integers(0, size, (400, 2))
    chosen = chosen[chosen[:, 0] != chosen[:, 1]]
    limits = limits_bps(Tree(network.hosts, network.groups, sharing=network.sharing), chosen[:, 0], chosen[:, 1])
    true = np.array([oracle.rates([(int(i), int(j))])[0] for i, j in chosen]) * GOODPUT_PER_WIRE
    assert np.abs(limits / true - 1).max() < 0.05

    documented = gavotte("model", "h.npz", "--json", "--method", "min", cwd=tmp_path)
    assert json.loads(documented.stdout)["constant"]["method"] == "min"
    for words, reason in (
        (("--plot", "p.png"), "--plot draws each pair, and few of them were measured"),
        (("--no-fill",), "--no-fill needs a rate of each pair"),
        (("--for", "trees"), "--for compares methods on all pairs of some hosts"),
        (("--for", "luck"), "unknown purpose `luck`"),
        (("--method", "magic"), "unknown method `magic`"),
    ):
        refused = gavotte("model", "h.npz", *words, cwd=tmp_path)
        assert refused.returncode == 1
        assert reason in refused.stderr


def test_pairs_and_matrices_have_the_same_limits(forty: PairHistory) -> None:
    network = learn_from_few(forty).network
    tree = Tree(network.hosts, network.groups, network.exceptions, network.sharing)
    every = limits_bps(tree, *every_pair(len(network.hosts)))
    source, target = forty.pairs.T
    np.testing.assert_array_equal(limits_bps(tree, source, target), every[source, target])
