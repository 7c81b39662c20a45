"""npz, Parquet, CSV and jsonl: exact both ways, and each mistake is named by its place in the file."""

from __future__ import annotations

import contextlib
import csv
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.store.worlds import same, world

from gavotte.errors import FormatError
from gavotte.formats.history import write_history
from gavotte.formats.record import Record, read_records, write_records
from gavotte.store import Span, Store, StoreError, export_records, export_series, import_file, open_store
from gavotte.store.csvfile import read_csv
from gavotte.store.parquetfile import read_parquet

HEADER = "source,target,time_s,alpha_s,beta_Bps,hops,cpus,memory_bytes,method"


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store.sqlite3") as opened:
        yield opened


@pytest.mark.parametrize("form", ["npz", "parquet", "csv"])
def test_a_series_round_trips_exactly(store: Store, tmp_path: Path, form: str) -> None:
    history = world(times=(1.1, 1e9 + 1e-7), missing=0.4)
    history.alpha_s[0, 0, 1] = 5e-324
    history.beta_Bps[0, 0, 1] = 99999999999999984.0
    history.beta_Bps[1, 1, 1] = 3.0  # a diagonal with a value is kept, too
    store.add("cloud", history)
    path = tmp_path / f"cloud.{form}"
    assert export_series(store, "cloud", path) == 2
    assert import_file(store, path, "back").snapshots == 2
    same(store.load("back"), history)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_hosts_that_come_and_go_round_trip(store: Store, tmp_path: Path, form: str) -> None:
    store.add("cloud", world(("a", "b"), (1.0,)))
    store.add("cloud", world(("c", "b", "a"), (2.0,), seed=1, method="bulk"))
    store.add("cloud", replace(world(("z",), (3.0,), missing=1.0), method=""))
    path = tmp_path / f"cloud.{form}"
    export_series(store, "cloud", path)
    import_file(store, path, "back")
    for left, right in zip(store.snapshots("cloud"), store.snapshots("back"), strict=True):
        for key, value in vars(left).items():
            np.testing.assert_array_equal(getattr(right, key), value)


def test_only_a_span_is_written(store: Store, tmp_path: Path) -> None:
    store.add("cloud", world(times=(1.0, 2.0, 3.0)))
    assert export_series(store, "cloud", tmp_path / "x.csv", span=Span(last=1)) == 1
    assert [each.time_s for each in read_csv(tmp_path / "x.csv")] == [3.0]


def test_the_csv_is_what_is_documented(store: Store, tmp_path: Path) -> None:
    history = world(("a", "b"), (2.0,), missing=0)
    history.alpha_s[0, 0, 1], history.beta_Bps[0, 0, 1] = 0.00025, 12500000.0
    history.beta_Bps[0, 1, 0] = np.nan
    store.add(
        "cloud", replace(history, hops=np.array([[0, 2], [4, 0]]), cpus=np.ones(2), memory_bytes=np.array([0, 9]))
    )
    export_series(store, "cloud", tmp_path / "c.csv")
    lines = (tmp_path / "c.csv").read_text().splitlines()
    alpha = repr(float(history.alpha_s[0, 1, 0]))
    assert lines == [
        HEADER,
        "a,b,2.0,0.00025,12500000.0,2,1.0,0,choreo",
        f"b,a,2.0,{alpha},,4,1.0,9,choreo",
    ]


def test_other_programs_read_the_parquet(store: Store, tmp_path: Path) -> None:
    store.add("cloud", world(missing=0.5))
    export_series(store, "cloud", tmp_path / "c.parquet")
    table = pq.read_table(tmp_path / "c.parquet")
    assert table.num_rows == 12
    assert {field.name: str(field.type) for field in table.schema} == {
        "source": "string", "target": "string", "time_s": "double", "alpha_s": "double", "beta_Bps": "double",
        "hops": "int32", "cpus": "double", "memory_bytes": "int64", "method": "string",
    }  # fmt: skip
    assert table["beta_Bps"].null_count == 12 - store.summary("cloud").answered


def test_what_other_programs_write(store: Store, tmp_path: Path) -> None:
    """Another order of rows and columns, a byte order mark, NaN, floats for hops, unknown and missing columns."""
    path = tmp_path / "c.csv"
    path.write_text(
        "\ufefftime_s,note,target,source,beta_Bps,alpha_s,hops\r\n2,x,b,a,5,,3.0\r\n1,,a,b,nan,1e-3,\r\n\r\n1,,b,a,7,,\r\n"
    )
    import_file(store, path)
    history = store.load("c")
    assert history.hosts == ("b", "a")
    assert history.time_s.tolist() == [1, 2]
    assert history.beta_Bps[:, 1, 0].tolist() == [7, 5]
    assert history.alpha_s[0, 0, 1] == 1e-3
    assert history.hops[1, 0] == 3
    table = pa.table(
        {
            "source": pa.array(["a", "b"]).dictionary_encode(),
            "target": pa.array(["b", "a"], pa.large_string()),
            "time_s": pa.array([1, 1], pa.int32()),
            "alpha_s": pa.array([None, float("nan")]),
            "beta_Bps": pa.array([5, None], pa.int64()),
            "hops": pa.array([2.0, None]),
        }
    )
    pq.write_table(table, tmp_path / "p.parquet")
    import_file(store, tmp_path / "p.parquet")
    assert store.load("p").hops.tolist() == [[0, 2], [0, 0]]


ROW = "a,b,1,0.001,5,2,1,0,bulk"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ": is empty"),
        (HEADER, ": contains no row"),
        ("source,target,time_s,alpha_s,beta_bps\na,b,1,,5", r"column beta_Bps: is missing \(it has `beta_bps`\)"),
        (f"{HEADER},hops\n", "column hops: appears twice"),
        (f"{HEADER}\n{ROW}\na,b", "line 3: has 2 cells where the header has 9"),
        (f"{HEADER}\n\n{ROW}\n" + ROW.replace("0.001", "fast"), "line 4, column alpha_s: is `fast`"),
        (f"{HEADER}\n" + ROW.replace("0.001", "-1"), "line 2, column alpha_s: is negative"),
        (f"{HEADER}\n" + ROW.replace(",5,", ",0,"), "line 2, column beta_Bps: is a zero rate"),
        (f"{HEADER}\n" + ROW.replace(",5,", ",inf,"), "line 2, column beta_Bps: is infinite"),
        (f"{HEADER}\n" + ROW.replace(",5,", ",1_0,"), "line 2, column beta_Bps: is `1_0`"),
        (f"{HEADER}\n" + ROW.replace("b,1,", "b,,"), "line 2, column time_s: is not a time"),
        (f"{HEADER}\n" + ROW.replace(",2,", ",2.5,"), "line 2, column hops: is `2.5`"),
        (f"{HEADER}\n" + ROW.replace(",2,", ",-2,"), "line 2, column hops: is not a count"),
        (f"{HEADER}\n" + ROW.replace(",2,", f",{2**70},"), "line 2, column hops: is"),
        (f"{HEADER}\n" + ROW.replace(",2,1,", ",2,0,"), "line 2, column cpus: is not a number of cores"),
        (f"{HEADER}\n" + ROW.replace("a,b", ",b"), "line 2, column source: is ``"),
        (f"{HEADER}\n" + ROW.replace("a,b", '"a\nc",b'), "line 3, column source: is `a.nc`"),
        (f"{HEADER}\n{ROW}\n{ROW}", "line 3, column target: gives `a` to `b` twice at one time"),
        (f"{HEADER}\n{ROW}\na,c,1,,,,2,0,bulk", "line 3, column cpus: is 2.0, unlike an earlier row of this host"),
        (f"{HEADER}\n{ROW}\nb,a,1,,,,1,0,x", "line 3, column method: is 'x', unlike an earlier row of this snapshot"),
        (f'{HEADER}\n"a,b', "is not CSV"),
        (b"\xff\xfe" + HEADER.encode("utf-16-le"), "is not UTF-8"),
        (f"{HEADER}\n".encode() + b"a\xff,b,1,,,,,,", "is not UTF-8"),
        (f"{HEADER}\n" + "x" * 200_000 + ",b,1,,,,,,", "line 2"),
    ],
)
def test_a_mistake_in_a_csv_is_named(store: Store, tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "c.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FormatError, match=message) as caught:
        import_file(store, path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    assert store.series() == []


def table(**change: Any) -> pa.Table:
    columns: dict[str, Any] = {
        "source": ["a", "b"], "target": ["b", "a"], "time_s": [1.0, 1.0], "alpha_s": [0.1, 0.1], "beta_Bps": [5.0, 5.0],
    }  # fmt: skip
    return pa.table({key: value for key, value in (columns | change).items() if value is not None})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (table(beta_Bps=None), "column beta_Bps: is missing"),
        (table(source=[1, 2]), "column source: is of type int64"),
        (table(time_s=["x", "y"]), "column time_s: is of type string"),
        (table(time_s=pa.array([1, 2], pa.timestamp("s"))), "column time_s: is of type timestamp"),
        (table(time_s=[1.0, None]), "row 2, column time_s: is not a time"),
        (table(source=["a", None]), "row 2, column source: is null"),
        (table(beta_Bps=[5.0, -5.0]), "row 2, column beta_Bps: is negative"),
        (table(hops=[1.5, 2.0]), "row 1, column hops: is 1.5"),
        (table(hops=pa.array([2**64 - 1, 0], pa.uint64())), "row 1, column hops"),
        (table(source=["a", "a"], target=["b", "b"]), "row 2, column target: gives `a` to `b` twice"),
        (table().slice(0, 0), "contains no row"),
    ],
)
def test_a_mistake_in_a_parquet_is_named(store: Store, tmp_path: Path, content: pa.Table, message: str) -> None:
    path = tmp_path / "c.parquet"
    pq.write_table(content, path)
    with pytest.raises(FormatError, match=message) as caught:
        import_file(store, path)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    assert store.series() == []


@pytest.mark.parametrize("name", ["x.npz", "x.csv", "x.parquet", "x.jsonl"])
def test_files_that_are_not_there_or_something_else(store: Store, tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match="no such file"):
        import_file(store, tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(FormatError, match=r"cannot be read|is a folder"):
        import_file(store, tmp_path / name)
    (tmp_path / f"y{name}").write_bytes(bytes(range(256)))
    with pytest.raises(FormatError):
        import_file(store, tmp_path / f"y{name}")


def test_an_export_is_written_whole_or_not_at_all(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("cloud", world())
    path = tmp_path / "c.csv"
    path.write_text("old")
    with pytest.raises(StoreError, match="no series"):
        export_series(store, "none", path)
    assert path.read_text() == "old"
    with pytest.raises(FormatError, match="cannot be written"):
        export_series(store, "cloud", tmp_path / "no" / "c.csv")
    with pytest.raises(FormatError, match="cannot be written"):
        export_series(store, "cloud", Path("/dev/full"), form="csv")
    assert sorted(each.name for each in tmp_path.iterdir() if "store" not in each.name) == ["c.csv"]


@pytest.mark.parametrize("form", ["npz", "parquet", "csv", "jsonl"])
def test_the_link_that_names_standard_output_stays(store: Store, tmp_path: Path, form: str) -> None:
    """With output sent to a file, /dev/stdout names that file; a rename would replace the link instead."""
    store.add("cloud", world(), records=[Record(kind="run", metric="x_s", value=1.0, time_s=1.0)])
    with (tmp_path / "out").open("wb") as stream:
        name = Path(f"/proc/self/fd/{stream.fileno()}")  # the target of /dev/stdout, for another number
        if form == "jsonl":
            export_records(store, name)
        else:
            export_series(store, "cloud", name, form=form)
        assert name.is_symlink()
    (tmp_path / "out").rename(tmp_path / f"out.{form}")
    import_file(store, tmp_path / f"out.{form}", None if form == "jsonl" else "back")
    if form != "jsonl":
        same(store.load("back"), world())


def test_records_round_trip(store: Store, tmp_path: Path) -> None:
    records = [
        Record(kind="run", metric="x_s", value=i / 3, time_s=float(i), labels={"i": i, "é": None}) for i in range(5)
    ]
    write_records(tmp_path / "r.jsonl", records)
    assert import_file(store, tmp_path / "r.jsonl").records == 5
    assert import_file(store, tmp_path / "r.jsonl").records == 0
    assert export_records(store, tmp_path / "back.jsonl", "run") == 5
    assert read_records(tmp_path / "back.jsonl") == records
    with pytest.raises(StoreError, match="no such Records"):
        export_records(store, tmp_path / "back.jsonl", "walk")


def test_a_bad_file_adds_nothing(store: Store, tmp_path: Path) -> None:
    write_history(tmp_path / "h.npz", world(times=(1.0, 2.0)))
    import_file(store, tmp_path / "h.npz")
    with pytest.raises(StoreError, match="already"):
        import_file(store, tmp_path / "h.npz")
    assert import_file(store, tmp_path / "h.npz", skip_existing=True).snapshots == 0
    with pytest.raises(StoreError, match="its suffix tells no format"):
        import_file(store, tmp_path / "h.xlsx")
    assert import_file(store, tmp_path / "h.npz", "g", form="npz").snapshots == 2


cells = st.one_of(
    st.sampled_from(
        ["", "a", "b", "1", "1.5", "nan", "-1", "inf", "1e999", "0", "0x1", '"', "é", "\0", "1_0", "9" * 50]
    ),
    st.text(max_size=8),
    st.floats().map(str),
    st.integers().map(str),
)


@examples(300)
@given(st.lists(st.lists(cells, min_size=8, max_size=10), max_size=6), st.booleans())
def test_any_csv_is_read_or_refused_in_one_line(tmp_path: Path, rows: list[list[str]], quoted: bool) -> None:
    path = tmp_path / "f.csv"
    with path.open("w", newline="", encoding="utf-8", errors="replace") as stream:
        stream.write(f"{HEADER}\n")
        if quoted:
            # Python 3.10 writes no NUL, since it reads none.
            writable = [[cell.replace("\0", "") for cell in row] if sys.version_info < (3, 11) else row for row in rows]
            csv.writer(stream).writerows(writable)
        else:
            stream.writelines(",".join(row) + "\n" for row in rows)
    read_or_refused(read_csv, path)


@examples(200)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    read_or_refused(read_csv, path)
    read_or_refused(read_parquet, path)


def test_damage_anywhere_in_a_parquet_is_one_line(store: Store, tmp_path: Path) -> None:
    store.add("cloud", world())
    export_series(store, "cloud", tmp_path / "c.parquet")
    whole = (tmp_path / "c.parquet").read_bytes()
    rng = random.Random(7)
    path = tmp_path / "damaged.parquet"
    for _ in range(400):
        content = bytearray(whole[: rng.randrange(len(whole) + 1)] if rng.random() < 0.2 else whole)
        for _ in range(rng.randrange(1, 8)):
            if content:
                content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content)
        read_or_refused(read_parquet, path)


def read_or_refused(read: Callable[[Path], Any], path: Path) -> None:
    """Every History that is read must be fit for a store; any other must cause one line with a remedy."""
    error: FormatError | None = None
    with contextlib.suppress(FormatError):
        try:
            for snapshot in read(path):
                snapshot.check("f")
        except FormatError as found:
            error = found
            raise
    if error is not None:
        assert "\n" not in str(error)
        assert error.remedy
