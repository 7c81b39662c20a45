"""Nouns on matplotlib's axes: what is drawn, with which units, and on whose axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from tests import builders
from tests.builders import MB, MBIT

from gavotte import plot
from gavotte.errors import GavotteError
from gavotte.formats.history import History
from gavotte.formats.network import Network
from gavotte.place import place


def drawn(axes: Any) -> Any:
    """Return the matrix that is drawn, NaN where nothing is."""
    return np.ma.filled(axes.images[0].get_array(), np.nan)


RATES = np.array([[np.nan, 80 * MBIT, 40 * MBIT], [20 * MBIT, np.nan, 60 * MBIT], [10 * MBIT, np.nan, np.nan]])


@pytest.fixture(autouse=True)
def unseen() -> Iterator[None]:
    from matplotlib import pyplot

    before = mpl.get_backend()
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")
    pyplot.switch_backend(before)


def test_a_networks_rates_are_a_matrix() -> None:
    axes = plot.network(Network.from_numpy(["a", "b", "c"], RATES))
    np.testing.assert_allclose(drawn(axes), RATES / MBIT)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b", "c"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("receiver", "sender")
    assert axes.images[0].colorbar is not None
    assert axes.images[0].colorbar.ax.get_ylabel() == "TCP goodput [Mbit/s]"
    with pytest.raises(GavotteError, match="no rates of pairs"):
        plot.network(builders.network(["a", "b"], None))


def test_it_draws_on_the_given_axes() -> None:
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2)
    app = builders.app("x", ("map", "reduce", 30 * MB), ("map", "reduce", 20 * MB, 1), ("reduce", "map", MB))
    assert plot.app(app, ax=left) is left
    np.testing.assert_allclose(drawn(left), [[np.nan, 50], [1, np.nan]])
    assert not right.images
    assert figure.axes[:2] == [left, right]


def test_a_history_is_a_median_with_a_band() -> None:
    rng = np.random.default_rng(0)
    beta = 1e7 * rng.uniform(1, 2, (5, 4, 4))
    beta[:, range(4), range(4)] = np.nan
    beta[2] = np.nan  # nothing was measured then
    history = History(
        alpha_s=np.full_like(beta, 1e-4),
        beta_Bps=beta,
        time_s=3600.0 * np.arange(5, dtype=np.float64),
        hosts=("a", "b", "c", "d"),
        hops=np.zeros((4, 4), dtype=np.int64),
        cpus=np.ones(4),
        memory_bytes=np.zeros(4, dtype=np.int64),
    )
    axes = plot.history(history)
    (line,) = axes.get_lines()
    assert list(np.asarray(line.get_xdata())) == [0, 1, 3, 4]
    np.testing.assert_allclose(np.asarray(line.get_ydata()), 8 * np.nanmedian(beta[[0, 1, 3, 4]], axis=(1, 2)) / MBIT)
    assert "[Mbit/s]" in axes.get_ylabel()


def test_a_placement_is_what_hosts_send_and_receive() -> None:
    app = builders.app("x", ("a", "b", 30 * MB), ("a", "c", 10 * MB), ("b", "c", 5 * MB))
    network = builders.network(["vm0", "vm1", "vm2"], np.full((3, 3), 100 * MBIT))
    placed = place(network, app, "round-robin")
    axes = plot.placement(placed, app)
    sends, receives = (np.array([bar.get_width() for bar in bars]) for bars in axes.containers)
    by_host = [text.get_text() for text in axes.get_yticklabels()]
    at = {host: row for row, host in enumerate(by_host)}
    assert sends[at[placed.assignment["a"]]] == 40
    assert receives[at[placed.assignment["c"]]] == 15
    assert "predicted" in axes.get_title()
