"""What `compare` says of clouds whose changes are known: how often it is wrong, and which hosts it names."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests import builders
from tests.compare.clouds import CALM, SIZE, Weather, cloud, proved, rates

from gavotte.compare import MARGIN, compare
from gavotte.errors import GavotteError
from gavotte.terms.equivalence import ALIKE, DIFFERENT, SIGNIFICANCE

SEEDS = 60
MOST_FALSE = SEEDS * SIGNIFICANCE + 3 * (SEEDS * SIGNIFICANCE * (1 - SIGNIFICANCE)) ** 0.5

WEATHERS = {
    "calm": CALM,
    "noisy": Weather(0.3),
    "uneven": Weather(0.05, uneven=1.0),
    "loaded": Weather(0.02, load=0.15),
    "spikes": Weather(0.03, spikes=0.1),
    "all": Weather(0.05, uneven=0.7, load=0.1, spikes=0.05),
}


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("snapshots", [1, 2, 5])
@pytest.mark.parametrize("weather", WEATHERS)
def test_a_network_that_has_not_changed_seldom_differs(weather: str, snapshots: int) -> None:
    """A single snapshot shows no load of its own, and therefore only a moment: `load` is left out for it."""
    disturbed = WEATHERS[weather] if snapshots > 1 else replace(WEATHERS[weather], load=0.0)
    verdicts: Counter[str] = Counter()
    for seed in range(SEEDS):
        true = rates(seed)
        one, other = (cloud(true, 1000 * seed + n, snapshots=snapshots, weather=disturbed) for n in (1, 2))
        verdicts[compare(one, other).verdict] += 1
    assert verdicts["different"] <= MOST_FALSE


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("change", [MARGIN, -MARGIN, -0.2])
@pytest.mark.parametrize("weather", WEATHERS)
def test_alike_is_said_of_no_path_that_changed(weather: str, change: float) -> None:
    """One path of thirty is at the margin or beyond it."""
    missed = 0
    for seed in range(SEEDS):
        true = rates(seed)
        after = true.copy()
        after[0, 1] *= 1 + change
        one, other = (cloud(each, 1000 * seed + n, weather=WEATHERS[weather]) for n, each in enumerate((true, after)))
        missed += compare(one, other).verdict == "alike"
    assert missed <= MOST_FALSE


def test_calm_days_are_alike() -> None:
    verdicts = Counter(compare(cloud(rates(seed), seed), cloud(rates(seed), 500 + seed)).verdict for seed in range(40))
    assert verdicts["alike"] >= 38


def test_noise_is_not_taken_for_equality() -> None:
    comparison = compare(cloud(rates(1), 1, weather=Weather(0.3)), cloud(rates(1), 2, weather=Weather(0.3)))
    assert comparison.verdict == "cannot tell"
    path = comparison.paths[0]
    assert (path.reason, path.verdict) == ("noise", "cannot tell")
    assert path.detectable is not None
    assert path.detectable > 0.3
    assert path.snapshots is not None
    assert path.snapshots > 5


def slower(host: int, factor: float, *, ends: tuple[int, ...] = (0,)) -> np.ndarray:
    after = rates(1).copy()
    for end in ends:
        after[(host, slice(None)) if end == 0 else (slice(None), host)] /= factor
    return after


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((0,), "h3 sends 2.1 times slower than before (5 of 5 paths)"),
        ((1,), "h3 receives 2.1 times slower than before (5 of 5 paths)"),
        ((0, 1), "h3 sends and receives 2.1 times slower than before (10 of 10 paths)"),
    ],
)
def test_the_host_that_changed_is_named(ends: tuple[int, ...], words: str) -> None:
    comparison = compare(cloud(rates(1), 1), cloud(slower(3, 2.1, ends=ends), 2))
    assert comparison.findings == (words,)
    assert comparison.counts["different"] == 5 * len(ends)
    assert comparison.counts["alike"] == 30 - 5 * len(ends)


def test_one_path_and_a_whole_network_are_named_as_such() -> None:
    after = rates(1)
    after[2, 4] = rates(1)[2, 4] / 3
    (finding,) = compare(cloud(rates(1), 1), cloud(after, 2)).findings
    assert finding.startswith("h2 to h4 is 3.0 times slower: ")
    assert "before" in finding
    (finding,) = compare(cloud(rates(1), 1), cloud(1.4 * rates(1), 2)).findings
    assert finding == "the whole network is 40 % faster than before (30 of 30 paths)"


def test_hosts_that_come_and_go_differ() -> None:
    whole = cloud(rates(1), 1)
    comparison = compare(whole.of_hosts([0, 1, 2, 3, 4]), cloud(rates(1), 2).of_hosts([5, 2, 1, 0, 4]))
    assert (comparison.vanished, comparison.appeared, comparison.verdict) == (("h3",), ("h5",), "different")
    assert comparison.findings == ("h3 is gone", "h5 is new")
    assert (comparison.rate.judgement.verdict == ALIKE).all(), "paths are matched by their hosts' names"
    with pytest.raises(GavotteError, match="one host in common"):
        compare(whole.of_hosts([0, 1]), whole.of_hosts([1, 2]))


def test_names_match_without_regard_to_case() -> None:
    other = replace(cloud(rates(1), 2), hosts=tuple(f"H{n}" for n in range(SIZE)))
    assert compare(cloud(rates(1), 1), other).verdict == "alike"


def test_latencies_and_mtus_are_compared() -> None:
    one, other = cloud(rates(1), 1), cloud(rates(1), 2, alpha_s=2e-2)
    sizes = np.full((SIZE, SIZE), 9000)
    smaller = sizes.copy()
    smaller[2, :] = smaller[:, 2] = 1500
    comparison = compare(replace(one, mtu_bytes=sizes), replace(other, mtu_bytes=smaller))
    assert comparison.counts["different"] == 0
    assert comparison.verdict == "different"
    assert len(comparison.mtus) == 10
    latency, mtu = comparison.findings
    assert latency.startswith("latency of the whole network is 39.")
    assert mtu == "MTU of 10 paths of h2: 9000 bytes before, 1500 now"


def test_a_tenth_of_a_millisecond_of_latency_never_matters() -> None:
    one, other = cloud(rates(1), 1, alpha_s=2e-5), cloud(rates(1), 2, alpha_s=8e-5)
    assert compare(one, other).verdict == "alike"


def test_single_snapshots_show_hosts_that_changed_and_no_path_alone() -> None:
    one, other = cloud(rates(1), 1, snapshots=1), cloud(slower(3, 2.1), 2, snapshots=1)
    comparison = compare(one, other)
    assert comparison.findings == ("h3 sends 2.1 times slower than before (5 of 5 paths)",)
    assert "show a moment" in comparison.warnings[0]
    after = rates(1).copy()
    after[2, 4] /= 4
    comparison = compare(one, cloud(after, 2, snapshots=1))
    assert comparison.verdict == "cannot tell"
    (path,) = [each for each in comparison.paths if each.reason == "one snapshot"]
    assert (path.source, path.target) == ("h2", "h4")
    assert compare(cloud(rates(1), 1), cloud(after, 2)).verdict == "different", "several snapshots show it"


def test_single_snapshots_of_few_paths_have_the_intervals_of_their_probes() -> None:
    true = rates(1, 3)
    one, other = cloud(true, 1, snapshots=1), cloud(true / 2, 2, snapshots=1)
    alone = compare(one, other)
    assert alone.verdict == "cannot tell"
    assert {path.reason for path in alone.paths if path.quantity == "rate_bps"} == {"measured only once"}
    assert compare(proved(one, 0.04), proved(other, 0.04)).verdict == "different"
    assert compare(proved(one, 0.9), proved(other, 0.9)).verdict == "cannot tell"


def test_a_lower_bound_shows_no_loss_of_rate() -> None:
    one, other = cloud(rates(1), 1), cloud(rates(1) / 2, 2)
    host_limited = proved(other, 0.01, verdict=2)
    comparison = compare(one, host_limited)
    assert comparison.verdict == "cannot tell"
    assert {path.reason for path in comparison.paths if path.quantity == "rate_bps"} == {"a rate is a lower bound"}
    assert compare(host_limited, one).verdict == "cannot tell"
    assert compare(replace(one, beta_Bps=one.beta_Bps / 4), host_limited).verdict == "different"


def test_repeated_values_are_no_new_measurements() -> None:
    once = cloud(rates(1), 1, snapshots=1)
    stale = replace(
        once,
        beta_Bps=np.repeat(once.beta_Bps, 5, axis=0),
        alpha_s=np.repeat(once.alpha_s, 5, axis=0),
        time_s=np.arange(5.0),
    )
    comparison = compare(stale, cloud(rates(1), 2))
    assert set(comparison.rate.before.count.tolist()) == {1}


def test_paths_that_one_side_lacks_cannot_be_told() -> None:
    other = cloud(rates(1), 2)
    other.beta_Bps[:, 0, 1] = np.nan
    comparison = compare(cloud(rates(1), 1), other)
    assert comparison.verdict == "cannot tell"
    assert next(path.reason for path in comparison.paths if path.verdict == "cannot tell") == "not measured now"


def test_a_measurement_is_alike_to_itself_with_a_warning() -> None:
    noisy = cloud(rates(1), 1, weather=Weather(0.5))
    comparison = compare(noisy, noisy)
    assert comparison.verdict == "alike"
    assert "the same measurement" in comparison.warnings[0]


def test_networks_are_compared_by_their_intervals() -> None:
    rate = np.full((4, 4), 1e9)
    one = builders.network(4, rate, 1e-4)
    assert compare(one, builders.network(4, 1.09 * rate, 1e-4)).verdict == "alike"
    slow = builders.network(4, rate / 2, 1e-4)
    assert compare(one, slow).verdict == "different"
    low = [[None if i == j else 2e8 for j in range(4)] for i in range(4)]
    assert compare(one, slow.model_copy(update={"rate_low_bps": low})).verdict == "cannot tell"
    with pytest.raises(GavotteError, match="no rate of a pair"):
        compare(one, builders.network(4))


def test_a_history_is_compared_with_a_network() -> None:
    true = rates(1)
    network = builders.network([f"h{n}" for n in range(SIZE)], 8 * true, 5.4e-4)
    assert (compare(network, cloud(true, 1)).rate.judgement.verdict != DIFFERENT).all()
    assert compare(network, cloud(true / 2, 1)).findings[0].startswith("the whole network is 2.0 times slower")


def test_a_comparison_is_a_table() -> None:
    frame = compare(cloud(rates(1), 1), cloud(rates(1), 2)).to_frame()
    assert len(frame) == 60
    assert set(frame["quantity"]) == {"rate_bps", "latency_s"}
