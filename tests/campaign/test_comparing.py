"""Comparing: what is alike, what differs, what is undecided, and the exit status of each."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tests.campaign.studies import repeated
from tests.shell import gavotte

from gavotte.campaign import compare, report, write_samples
from gavotte.campaign.statistics import mean_interval
from gavotte.errors import GavotteError
from gavotte.formats.record import Quantity, Sample
from gavotte.terms.equivalence import holm, more_than


def study(seed: int, *, share: float = 1.0, noise: float = 0.01, repetitions: int = 5) -> list[Sample]:
    rng = np.random.default_rng(seed)
    items: list[Sample] = []
    for number, connections in enumerate((1, 10, 30, 50)):
        rate = 2.8e8 * (share if number == 2 else 1.0)
        items += repeated("near", list(rate * (1 + noise * rng.standard_normal(repetitions))), connections=connections)
    return items


def test_two_runs_of_one_thing_are_alike_and_a_tenth_is_not() -> None:
    same = Counter(compare(study(seed), study(1000 + seed)).verdict for seed in range(200))
    assert same["different"] <= 2
    assert same["alike"] >= 190
    tenth = Counter(compare(study(seed), study(1000 + seed, share=0.9)).verdict for seed in range(200))
    assert tenth["alike"] == 0
    assert tenth["different"] >= 190


def test_no_difference_matters_below_the_margin_however_sure() -> None:
    one, other = study(1, noise=1e-6, repetitions=50), study(2, noise=1e-6, repetitions=50, share=0.96)
    assert compare(one, other).verdict == "alike"
    assert compare(one, other, margin=0.03).verdict == "different"


def test_noise_is_not_taken_for_equality() -> None:
    """A quarter less on a noisy machine: five repetitions show neither a difference nor that there is none."""
    comparison = compare(study(1, noise=0.2), study(2, noise=0.2, share=0.76))
    assert comparison.verdict == "cannot tell"
    cell = comparison.cells[2]
    assert cell.detectable is not None
    assert cell.detectable > 0.24
    assert cell.repetitions is not None
    assert 5 < cell.repetitions < 500


def test_the_repetitions_that_it_asks_for_decide() -> None:
    """Four scenarios share the level, so that all of them need some luck: most, not four fifths, are decided."""
    comparison = compare(study(3, noise=0.1), study(4, noise=0.1))
    needed = max(cell.repetitions or 0 for cell in comparison.cells)
    with_them = [
        cell.verdict
        for seed in range(30)
        for cell in compare(
            study(seed, noise=0.1, repetitions=needed), study(500 + seed, noise=0.1, repetitions=needed)
        ).cells
    ]
    assert comparison.verdict == "cannot tell"
    assert with_them.count("alike") >= 0.7 * len(with_them)


def test_the_margin_of_zero_is_welchs_test() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.normal(10, 1, 8), rng.normal(10.8, 2, 11)
    assert more_than(list(one), list(other), 0.0) == pytest.approx(
        stats.ttest_ind(one, other, equal_var=False).pvalue, rel=1e-9
    )


def test_holm_is_statsmodels_textbook_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]).size == 0


def test_the_interval_is_students() -> None:
    mean, low, high = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert (high - low) / 2 == pytest.approx(4.302653 / 3**0.5, rel=1e-6)


def test_what_only_one_has_is_different_and_one_value_tells_nothing() -> None:
    one = study(1)
    comparison = compare(one, study(2) + repeated("far", [1.0, 1.1]))
    assert [cell.scenario for cell in comparison.cells if cell.verdict == "different"] == ["far"]
    single = compare(repeated("near", [1.0]), repeated("near", [1.1]))
    assert (single.verdict, single.untested) == ("cannot tell", 1)
    assert single.cells[0].repetitions is None
    with pytest.raises(GavotteError, match="no value of `speed`"):
        compare(one, one, metric="speed")
    with pytest.raises(GavotteError, match="in common"):
        compare(one, repeated("far", [1.0, 1.1]))


def test_a_campaign_is_alike_to_itself_with_a_warning() -> None:
    noisy = study(1, noise=0.5)
    comparison = compare(noisy, noisy)
    assert comparison.verdict == "alike"
    assert "the same samples" in comparison.warnings[0]


@pytest.mark.slow
def test_the_exit_status_is_the_verdict(tmp_path: Path) -> None:
    write_samples(tmp_path / "a.jsonl", study(1))
    write_samples(tmp_path / "b.jsonl", study(2))
    write_samples(tmp_path / "c.jsonl", study(3, share=0.9))
    write_samples(tmp_path / "d.jsonl", study(2, noise=0.2, share=0.76))
    alike = gavotte("campaign", "compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert (alike.returncode, alike.stderr) == (0, "alike: 4 scenarios, each within 5 %\n")
    different = gavotte("campaign", "compare", tmp_path / "a.jsonl", tmp_path / "c.jsonl", "--json")
    assert different.returncode == 3
    assert '"verdict": "different"' in different.stdout
    assert "different: 1 of 4 scenarios by more than 5 %" in different.stderr
    open_ = gavotte("campaign", "compare", tmp_path / "a.jsonl", tmp_path / "d.jsonl", "--margin", "5%")
    assert open_.returncode == 4
    assert re.search(r"cannot tell: \d of 4 scenarios with a margin of 5 %.*could have been seen; about", open_.stderr)
    missing = gavotte("campaign", "compare", tmp_path / "a.jsonl", tmp_path / "none.jsonl")
    assert missing.returncode == 1
    assert missing.stderr.startswith("error: ")


def state(load: float, **more: object) -> dict[str, object]:
    ticks = {"user": 100, "system": 10, "idle": 900, "softirq": 5, "steal": 0, "iowait": 0, "nice": 0, "irq": 0}
    return {"kernel": "Linux 6.1", "cpus": 2, "load_1min": load, "cpu_ticks": ticks, **more}


@pytest.mark.slow
def test_the_page_shows_figures_numbers_and_what_was_unclean(tmp_path: Path) -> None:
    distance = {"distance": Quantity(value=2.0, unit="edges"), "connection_bps": Quantity(value=1e8, unit="bit/s")}
    stolen = state(0.1)["cpu_ticks"] | {"user": 150, "steal": 20}  # type: ignore[operator]
    versions = {"iperf3": "iperf 3.13"}
    busy = {"plan": "x", "before": {"a": state(5.0, versions=versions)}, "after": {"a": state(5.0, cpu_ticks=stolen)}}
    calm = {"plan": "x", "before": {"a": state(0.1, versions={"iperf3": "iperf 3.12"})}, "after": {"a": state(0.1)}}
    near = repeated("near", [1e8, 1.1e8], metrics=distance, metadata=calm)
    loops = repeated("loop", [9e9, 9.1e9], target="a", connections=10, metadata=busy)
    written = report(tmp_path / "r.html", near + loops, near, comparison=compare(near, near), made_s=0.0)
    page = written[0].read_text()
    for text in ("Loopback BTC", "BTC by distance", "Measured under unclean conditions", "p = 1, first", "1970-01-01"):
        assert text in page, text
    assert "a: load before the sample above 0.5 for each core (loop/p10/r0, loop/p10/r1)" in page
    assert "a: more than 1 % of its time stolen by the hypervisor" in page
    assert "version of iperf3 of a changed: iperf 3.12, iperf 3.13" in page
    assert "<script src" not in page
    files = report(tmp_path / "r.md", near + loops, made_s=0.0)
    assert [each.name for each in files] == ["r.md", "r.fig2.svg", "r.fig3.svg"]
    markdown = files[0].read_text()
    assert "![fig3](r.fig3.svg)" in markdown
    assert "| near | a | b | 1 |" in markdown
    before = files[1].read_bytes()
    report(tmp_path / "r.md", near + loops, made_s=0.0)
    assert files[1].read_bytes() == before
