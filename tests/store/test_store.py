"""Content of a store is read as it was written, in SQLite and in PostgreSQL."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from tests.store.worlds import same, whole_world, world

from gavotte.formats.history import History
from gavotte.formats.record import Record
from gavotte.store import Span, StoreError, open_store, record_measurement


@pytest.mark.parametrize("proven", [False, True])
def test_a_history_comes_back_to_the_last_bit(url: str, proven: bool) -> None:
    history = world(times=(1.1, 1.2, 1e9 + 1e-7), proven=proven)
    with open_store(url) as store:
        added = store.add("cloud", history)
        assert (added.series, added.snapshots, added.records) == ("cloud", 3, 0)
    with open_store(url, create=False) as store:
        same(store.load("cloud"), history)


def test_every_field_of_a_history_comes_back(url: str) -> None:
    history = whole_world()
    assert all(getattr(history, field.name) is not None for field in fields(history))
    with open_store(url) as store:
        store.add("cloud", history)
        same(store.load("cloud"), history)
        same(store.load("cloud", hosts=["c", "a"]), history.of_hosts([2, 0]))


def test_mtus_and_routers_are_the_latest_known(url: str) -> None:
    first, second = whole_world(("a", "b"), (1.0,)), whole_world(("b", "a", "c"), (2.0,))
    assert first.mtu_bytes is not None
    assert second.mtu_bytes is not None
    second.mtu_bytes[1, 0] = 0
    with open_store(url) as store:
        for history in (first, world(("a", "c"), (1.5,)), second):
            store.add("cloud", history)
        whole = store.load("cloud")
    assert whole.hosts == ("a", "b", "c")
    assert whole.mtu()[0, 1] == first.mtu_bytes[0, 1]
    assert whole.mtu()[1, 0] == second.mtu_bytes[0, 1]
    assert whole.by_tcp is not None
    assert not whole.by_tcp[1].any()
    assert whole.hop_addresses is not None
    assert second.hop_addresses is not None
    assert whole.hop_addresses[2, 0].tolist() == second.hop_addresses[2, 1].tolist()
    assert len(whole.evidence) == 2


def test_hosts_come_and_go(url: str) -> None:
    first, second = world(("a", "b"), (1.0,)), world(("c", "b"), (2.0,), seed=1, method="bulk", proven=True)
    with open_store(url) as store:
        store.add("cloud", first)
        store.add("cloud", second)
        whole = store.load("cloud")
        assert whole.hosts == ("a", "b", "c")
        assert whole.proof is not None
        assert second.proof is not None
        assert np.isnan(whole.proof.low_Bps[0]).all()
        assert whole.proof.verdict[1, 2, 1] == second.proof.verdict[0, 0, 1]
        assert whole.method == "choreo, bulk"
        np.testing.assert_array_equal(whole.beta_Bps[0, :2, :2], first.beta_Bps[0])
        assert np.isnan(whole.beta_Bps[0, 2]).all()
        assert whole.beta_Bps[1, 2, 1] == second.beta_Bps[0, 0, 1]
        assert whole.cpus.tolist() == [first.cpus[0], second.cpus[1], second.cpus[0]]
        assert whole.hops[2, 1] == second.hops[0, 1]
        assert whole.hops[0, 1] == first.hops[0, 1]
        summary = store.summary("cloud")
        assert summary.hosts == ("a", "b", "c")
        assert summary.paths == 4
        assert summary.answered == int(np.isfinite(first.beta_Bps).sum() + np.isfinite(second.beta_Bps).sum())


def test_a_part_by_time_and_host(url: str) -> None:
    history = world(("a", "b", "c", "d"), tuple(float(i) for i in range(10)))
    with open_store(url) as store:
        store.add("cloud", history)
        assert store.load("cloud", Span(since_s=3, until_s=6)).time_s.tolist() == [3, 4, 5]
        assert store.load("cloud", Span(last=2)).time_s.tolist() == [8, 9]
        assert store.load("cloud", Span(until_s=5, last=1)).time_s.tolist() == [4]
        path = store.load("cloud", hosts=["d", "b"])
        assert path.hosts == ("d", "b")
        np.testing.assert_array_equal(path.beta_Bps[:, 0, 1], history.beta_Bps[:, 3, 1])
        np.testing.assert_array_equal(path.alpha_s[:, 1, 0], history.alpha_s[:, 1, 3])
        assert path.hops[0, 1] == history.hops[3, 1]
        assert path.cpus[1] == history.cpus[1]


@pytest.mark.parametrize(
    ("hosts", "span", "message"),
    [
        (["x"], None, "no host `x` in these snapshots; use one of: a, b, c"),
        (["a", "a"], None, "named twice"),
        ([], None, "no host named"),
        (None, Span(since_s=99), "no snapshot in that time"),
    ],
)
def test_what_is_not_there_is_said(tmp_path: Path, hosts: list[str] | None, span: Span | None, message: str) -> None:
    with open_store(tmp_path / "s") as store:
        store.add("cloud", world())
        with pytest.raises(StoreError, match=message):
            store.load("cloud", span, hosts=hosts)
        with pytest.raises(StoreError, match="no series `clown`; use one of: cloud"):
            store.load("clown")


@pytest.mark.slow
def test_more_snapshots_than_one_query_takes(url: str) -> None:
    history = world(("a", "b"), tuple(float(i) for i in range(1203)))
    with open_store(url) as store:
        store.add("cloud", history)
        same(store.load("cloud"), history)
        assert [each.time_s for each in store.snapshots("cloud", Span(last=3))] == [1200, 1201, 1202]


def test_a_time_is_stored_once(url: str) -> None:
    with open_store(url) as store:
        store.add("cloud", world(times=(1.0, 2.0)))
        with pytest.raises(StoreError, match=r"has a snapshot at 2\.0 s already"):
            store.add("cloud", world(times=(0.5, 2.0)))
        assert store.summary("cloud").snapshots == 2
        assert store.add("cloud", world(times=(0.5, 2.0)), skip_existing=True).snapshots == 1
        assert store.load("cloud").time_s.tolist() == [0.5, 1.0, 2.0]
        with pytest.raises(StoreError):
            store.add("twice", world(times=(3.0, 3.0)))
        assert [each.name for each in store.series()] == ["cloud"]


@pytest.mark.parametrize(
    "change",
    [
        {"beta_Bps": np.zeros((2, 3, 3))},
        {"beta_Bps": np.full((2, 3, 3), -1.0)},
        {"alpha_s": np.full((2, 3, 3), np.inf)},
        {"alpha_s": np.ones((2, 2, 2))},
        {"hops": np.full((3, 3), 1 << 40)},
        {"cpus": np.zeros(3)},
        {"mtu_bytes": np.full((3, 3), 1 << 20)},
        {"by_tcp": np.full((2, 3, 3), 7)},
        {"several_Bps": np.ones((2, 2, 2))},
        {"ipv6": np.ones(2, dtype=np.bool_)},
        {"hosts": ("a", "a", "b")},
        {"hosts": ("a", "b", "c\0")},
        {"hosts": ("a", "b", "\ud800")},
        {"time_s": np.array([1.0, np.nan])},
        {"method": "\n"},
    ],
)
def test_an_unsound_history_is_refused_whole(tmp_path: Path, change: dict[str, object]) -> None:
    with open_store(tmp_path / "s") as store:
        history: History = replace(world(), **change)  # type: ignore[arg-type]
        with pytest.raises(StoreError) as caught:
            store.add("cloud", history)
        assert "\n" not in str(caught.value)
        assert caught.value.hint
        assert store.series() == []


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 129, "a\nb"])
def test_a_bad_series_name_is_refused(tmp_path: Path, name: str) -> None:
    with open_store(tmp_path / "s") as store, pytest.raises(StoreError, match="is not a valid name"):
        store.add(name, world())


def test_summary_and_heads(url: str) -> None:
    history = world(times=(10.0, 20.0), missing=0)
    with open_store(url) as store:
        store.add("cloud", history)
        (summary,) = store.series()
        assert (summary.snapshots, summary.first_s, summary.last_s) == (2, 10.0, 20.0)
        assert summary.answered == summary.paths == 12
        assert summary.methods == ("choreo",)
        heads = store.heads("cloud")
        assert heads[0].beta_median_Bps == np.nanmedian(history.beta_Bps[0])
        assert summary.alpha_median_s == np.mean([np.nanmedian(matrix) for matrix in history.alpha_s])


def test_a_snapshot_without_any_answer(url: str) -> None:
    history = world(missing=1.0)
    with open_store(url) as store:
        store.add("cloud", history)
        same(store.load("cloud"), history)
        assert store.summary("cloud").beta_median_Bps is None


def test_delete(url: str) -> None:
    with open_store(url) as store:
        store.add("cloud", world(times=(1.0, 2.0, 3.0)))
        store.add("other", world())
        assert store.delete("cloud", before_s=2.5) == 2
        assert store.load("cloud").time_s.tolist() == [3.0]
        assert store.delete("cloud", before_s=99) == 1
        assert [each.name for each in store.series()] == ["other"]
        assert store.delete("other") == 2
        assert store.series() == []
        with pytest.raises(StoreError, match="none has been stored yet"):
            store.delete("other")


def test_deleted_space_goes_back_to_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with open_store(path) as store:
        store.add("cloud", world(tuple(f"h{i}" for i in range(40)), tuple(map(float, range(40)))))
    whole = path.stat().st_size
    with open_store(path) as store:
        store.delete("cloud")
    assert path.stat().st_size < whole / 2


def test_a_path_takes_its_sixteen_bytes_and_little_more(tmp_path: Path) -> None:
    path = tmp_path / "s"
    hosts = tuple(f"h{i}" for i in range(128))
    full = world(hosts, tuple(map(float, range(8))), missing=0)
    with open_store(path) as store:
        store.add("full", full)
    raw = full.alpha_s.nbytes + full.beta_Bps.nbytes
    size = path.stat().st_size
    assert size < 1.1 * raw
    with open_store(path) as store:
        store.add("silent", replace(full, alpha_s=full.alpha_s * np.nan, beta_Bps=full.beta_Bps * np.nan))
    assert path.stat().st_size - size < 0.1 * raw


def sample(value: float = 1.0, time_s: float = 5.0, **labels: str | int | float | bool | None) -> Record:
    return Record(kind="run", metric="completion_s", value=value, time_s=time_s, labels=labels)


def test_records(url: str) -> None:
    first, second = sample(host="a", seed=3), sample(2.5, 6.0, host="b", ok=True, note=None, share=0.1, text="\0é\n")
    third = Record(kind="campaign", metric="rate_bps", value=1e9, time_s=1.0)
    with open_store(url) as store:
        assert store.add_records([first, second, third]).records == 3
        assert store.add_records([second, third, first]).records == 0
        assert store.records() == [third, first, second]
        assert store.records("run") == [first, second]
        assert store.records(metric="rate_bps") == [third]
        assert store.records(span=Span(since_s=5.5)) == [second]
        assert store.records(span=Span(last=1)) == [second]
        assert store.records(labels={"host": "a"}) == [first]
        assert store.records(labels={"ok": 1}) == []
        assert store.records(labels={"note": None}) == [second]
        assert [(each.kind, each.records, each.metrics) for each in store.kinds()] == [
            ("campaign", 1, ("rate_bps",)),
            ("run", 2, ("completion_s",)),
        ]
        assert store.delete_records("run", before_s=5.5) == 1
        assert store.delete_records("run") == 1
        with pytest.raises(StoreError, match="no Records of kind `run`; use one of: campaign"):
            store.delete_records("run")


@pytest.mark.slow
def test_records_of_equal_time_keep_their_order(url: str) -> None:
    records = [sample(float(i), task=f"t{i}") for i in range(2500)]
    with open_store(url) as store:
        assert store.add_records(records).records == 2500
        assert store.records("run") == records


def test_a_nul_in_a_kind_is_refused(url: str) -> None:
    with open_store(url) as store, pytest.raises(StoreError, match="NUL"):
        store.add_records([sample(), Record(kind="a\0", metric="b", value=1.0, time_s=1.0)])
    with open_store(url) as store:
        assert store.kinds() == []


def test_one_call_records_a_measurement(url: str) -> None:
    added = record_measurement("cloud", world(), store=url, records=[sample()])
    assert (added.snapshots, added.records) == (2, 1)
    with pytest.raises(StoreError):  # a refused call leaves nothing, not even its Records
        record_measurement("cloud", world(), store=url, records=[sample(7.0)])
    with open_store(url) as store:
        assert store.records() == [sample()]


def test_more_than_this_machine_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "s") as store:
        store.add("cloud", world())
        monkeypatch.setattr("os.sysconf", lambda _name: 10)
        with pytest.raises(StoreError, match="ask for fewer"):
            store.load("cloud")
