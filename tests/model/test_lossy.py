"""The share of packets that paths lose at random, from the counts of trains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2
from tests import builders

from gavotte._core import chi_squared_quantile
from gavotte.formats.history import Floats, History, Proof
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_rate
from gavotte.model import model
from gavotte.model.lossy import LEAST_LOST, random_loss, uncertain_loss, unseen_loss
from gavotte.terms.loss import connection_bps


def history(shares: Floats, *, packets: int = 700, seed: int = 1) -> History:
    """Return one snapshot of trains that lose each packet with their path's probability."""
    rng = np.random.default_rng(seed)
    size = len(shares)
    sent = np.where(np.eye(size, dtype=bool), 0, packets)
    rates = np.where(np.eye(size, dtype=bool), np.nan, 5e6)
    made = builders.history(rates[None])
    return replace(made, unqueued=sent[None], unqueued_lost=rng.binomial(sent, shares)[None])


def of_hosts(*each: float) -> Floats:
    """Return the shares of paths between hosts that lose this share on either way."""
    shares = np.add.outer(each, each)
    np.fill_diagonal(shares, 0.0)
    return shares


@pytest.mark.parametrize("seed", range(5))
def test_equal_hosts_are_told_apart_by_all_their_paths(seed: int) -> None:
    loss = random_loss(history(of_hosts(0.005, 0.005, 0.005), seed=seed))
    assert loss is not None
    assert loss[~np.eye(3, dtype=bool)] == pytest.approx(0.01, rel=0.5)


@pytest.mark.parametrize("seed", range(5))
def test_one_lossy_host_costs_no_other_path(seed: int) -> None:
    loss = random_loss(history(of_hosts(*[0.0] * 7, 0.01), seed=seed))
    assert loss is not None
    assert not loss[:7, :7].any()
    assert loss[7, :7] == pytest.approx(0.01, rel=0.5)
    assert loss[:7, 7] == pytest.approx(0.01, rel=0.5)


def test_few_lost_packets_are_chance() -> None:
    lost = np.zeros((3, 3))
    lost[0, 1] = 3 / 700
    made = history(np.zeros((3, 3)))
    assert made.unqueued is not None
    assert not np.any(random_loss(replace(made, unqueued_lost=np.rint(700 * lost[None]).astype(np.int64))))


def test_a_lossy_path_between_sound_hosts_counts_alone() -> None:
    shares = np.zeros((6, 6))
    shares[0, 1] = 0.05
    loss = random_loss(history(shares, packets=3000))
    assert loss is not None
    assert loss[0, 1] == pytest.approx(0.05, rel=0.3)
    assert loss[2:, 2:].max() < 1e-3


@pytest.mark.parametrize("chance", [0.025, 0.5, 0.95, 0.975])
def test_quantiles_of_chi_squared_are_scipys(chance: float) -> None:
    for half in (1, 2, 3, 5, 10, 50, 300, 2000, 2499, 2500, 10_000, 1_000_000):
        assert chi_squared_quantile(chance, 2 * half) == pytest.approx(chi2.ppf(chance, 2 * half), rel=1e-6)


@pytest.mark.parametrize(("chance", "freedom"), [(0.0, 2), (1.0, 2), (np.nan, 2), (0.5, 0), (0.5, -1), (0.5, np.nan)])
def test_other_chances_and_freedoms_are_errors(chance: float, freedom: float) -> None:
    with pytest.raises(ValueError, match=r"chance|freedom"):
        chi_squared_quantile(chance, freedom)


def test_a_network_has_the_loss_of_its_paths() -> None:
    network = model(history(of_hosts(0.01, 0.01, 0.0)))
    assert network.loss[0][1] == pytest.approx(0.02, rel=0.5)
    assert network.loss[0][0] is None
    assert model(history(np.zeros((3, 3)))).loss == []


def test_no_more_is_lost_at_random_than_at_all() -> None:
    """Few packets met no full queue, and by chance lost twice their share."""
    made = history(of_hosts(0.01, 0.01, 0.01), packets=200)
    assert made.unqueued_lost is not None
    proof = Proof.empty(made.beta_Bps.shape)
    proof.loss[:] = 0.012
    loss = random_loss(replace(made, proof=proof))
    assert loss is not None
    assert loss[~np.eye(3, dtype=bool)].mean() == pytest.approx(0.012)


def test_loss_that_the_counts_cannot_show_is_named_on_far_paths() -> None:
    made = history(np.zeros((3, 3)), packets=300)
    rates, far = np.where(np.eye(3, dtype=bool), np.nan, 40e6), np.full((3, 3), 0.02)
    # None of 1,800 packets was lost: at 95 %, fewer than 3 of them would be.
    (note,) = unseen_loss(made, rates, far)
    least_bps = float(connection_bps(-np.log(0.05) / 1800, 0.04, 1448))
    assert note.startswith(f"{counted(1800, 'packet')} cannot show a loss below 0.17 %.")
    assert f"gets {format_rate(least_bps)} of {format_rate(40e6)} from" in note
    assert "on 6 paths" in note
    network = model(replace(made, alpha_s=np.where(np.eye(3, dtype=bool), np.nan, 0.02)[None]))
    assert any("cannot show a loss" in each for each in network.notes)
    # Nearby, on slow paths, after many packets and where loss is known, there is nothing to add.
    assert not unseen_loss(made, rates, np.full((3, 3), 0.0001))
    assert not unseen_loss(made, rates / 100, far)
    assert not unseen_loss(history(np.zeros((3, 3)), packets=10**7), rates, far)
    assert not unseen_loss(history(of_hosts(0.005, 0.005, 0.005)), rates, far)


def test_few_lost_packets_leave_one_connection_uncertain() -> None:
    made = history(of_hosts(0.005, 0.005, 0.005), packets=100)
    assert made.unqueued_lost is not None
    rates, far = np.where(np.eye(3, dtype=bool), np.nan, 40e6), np.full((3, 3), 0.02)
    lost, shares = int(made.unqueued_lost.sum()), random_loss(made)
    assert LEAST_LOST <= lost < 12
    assert shares is not None
    (note,) = uncertain_loss(made, rates, far)
    assert note.startswith(f"{lost} of 600 packets were lost at random, which shows a loss between ")
    # Garwood's interval of seven counts is 2.8 to 14.4.
    low, high = (float(chi2.ppf(share, 2 * count)) / 2 / 600 for share, count in ((0.025, lost), (0.975, lost + 1)))
    assert f"between {100 * low:.2g} and {100 * high:.2g} %" in note
    usual_bps = float(connection_bps(shares[0, 1], 0.04, 1448))
    assert f"where predictions assume {format_rate(usual_bps)}; 6 paths as uncertain" in note
    network = model(replace(made, alpha_s=np.where(np.eye(3, dtype=bool), np.nan, 0.02)[None]))
    assert any("were lost at random" in each for each in network.notes)
    assert not uncertain_loss(made, rates, np.full((3, 3), 0.0001))
    assert not uncertain_loss(history(of_hosts(0.005, 0.005, 0.005), packets=10**6), rates, far)
    assert not uncertain_loss(history(np.zeros((3, 3)), packets=300), rates, far)
