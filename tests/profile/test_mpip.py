"""mpiP reports: the matrix, the diagonal left out, damage named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import MPIP_REPORT
from tests.examples import examples
from tests.shell import gavotte

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.app import read_app
from gavotte.profile import profile

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "mpip-proxyapps"


def write(folder: Path, text: str) -> Path:
    path = folder / "ring.mpiP"
    path.write_text(text)
    return path


def test_ranks_are_tasks_and_the_diagonal_is_no_transfer(tmp_path: Path) -> None:
    app = profile("mpip", write(tmp_path, MPIP_REPORT), name="ring", cpus=2.0).app
    assert [task.name for task in app.task] == ["rank0", "rank1", "rank2"]
    assert all(task.cpus == 2.0 for task in app.task)
    values = {(t.source, t.target): t.bytes for t in app.transfer}
    assert values == {("rank0", "rank1"): 5_000_000, ("rank1", "rank2"): 7000, ("rank2", "rank0"): 6000}
    whole = profile("mpip", write(tmp_path, MPIP_REPORT), name="ring", min_bytes=0).app
    assert whole.total_bytes == 5_000_000 + 4 + 7000 + 6000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", "is not an mpiP report"),
        ("@ mpiP\n", "has no communication matrix"),
        (MPIP_REPORT.replace("0\t2\t4\t1", "0\t2\t4"), "line 13.*is not `source target bytes count`"),
        (MPIP_REPORT.replace("0\t2\t4\t1", "0\t3\t4\t1"), "line 13.*has an impossible rank or size"),
        (MPIP_REPORT.split("2\t0")[0], "ends inside"),
    ],
)
def test_damage_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        profile("mpip", write(tmp_path, text), name="ring")


def test_nothing_to_place_for_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GavotteError, match="no transfer has 6000000 bytes"):
        profile("mpip", write(tmp_path, MPIP_REPORT), name="ring", min_bytes=6_000_000)


def stating(*calls: tuple[str, str], sites: tuple[str, ...] = ()) -> str:
    """Return the report of the ring of 5.013 MB, with what its calls sent and with further call sites."""
    rows = "".join(f"{call:17} {at}    *   320   6000   6000   6000 {size}\n" for at, (call, size) in enumerate(calls))
    all_sites = "".join(f"  {at}   0 ring.c   7 main   {call}\n" for at, call in enumerate(sites, 1))
    section = "@--- Callsite Message Sent statistics (all, sent bytes) -------------------"
    before, after = MPIP_REPORT.split("-------", 1)
    return f"{before}@--- Callsites: {len(sites)} ---\n{all_sites}{section}\n{rows}-------{after}"


@examples(200)
@given(share=st.floats(0, 1), cut=st.integers(0, 40), put=st.text(max_size=12), states=st.booleans())
def test_any_damage_is_one_line(tmp_path: Path, share: float, cut: int, put: str, states: bool) -> None:
    result = ""
    text = stating(("Isend", "5.013e+06"), ("Bcast", "2e+04"), sites=("Isend",)) if states else MPIP_REPORT
    at = round(share * len(text))
    try:
        profile("mpip", write(tmp_path, text[:at] + put + text[at + cut :]), name="ring", min_bytes=0)
    except GavotteError as error:
        result = str(error)
    except UnicodeEncodeError:  # a lone surrogate has an impossible rank or size in a file
        return
    assert "\n" not in result


@pytest.mark.skipif(not REAL.is_dir(), reason="the real reports are not on this machine")
def test_real_reports_have_64_ranks_and_sums_that_agree() -> None:
    for path in sorted(REAL.glob("*.mpiP")):
        if path.name.startswith(("ep.", "is.")):
            continue
        app = profile("mpip", path, name="real", min_bytes=0).app
        assert len(app.task) == 64
        text = path.read_text()
        rows = [line.split() for line in text.splitlines() if line.count("\t") == 3 and line[:1].isdigit()]
        assert app.total_bytes == sum(int(row[2]) for row in rows if row[0] == row[1]), path.name


@pytest.mark.skipif(not REAL.is_dir(), reason="the real reports are not on this machine")
@pytest.mark.parametrize(
    ("name", "words"), [("ep", "252 B in its matrix, without 6.66 kB of Allreduce"), ("is", "92.2 MB of Alltoallv")]
)
def test_a_real_report_whose_matrix_lacks_its_collectives_is_refused(name: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        profile("mpip", next(REAL.glob(f"{name}.*.mpiP")), name="real", min_bytes=0)


def test_a_matrix_without_a_kind_of_messages_is_refused_by_name(tmp_path: Path) -> None:
    whole = profile("mpip", write(tmp_path, stating(("Isend", "5.013e+06"), ("Bcast", "2e+04"))), name="ring")
    assert (whole.traffic.seen["stated_bytes"], whole.traffic.warnings) == (5_033_000, [])
    text = stating(("Isend", "5.013e+06"), ("Sendrecv", "1.716e+11"), ("Allreduce", "800"))
    with pytest.raises(FormatError, match=r"5.01 MB in its matrix, without 172 GB of Sendrecv, 800 B of Allreduce"):
        profile("mpip", write(tmp_path, text), name="ring")
    with pytest.raises(FormatError, match="without 155 kB of Send"):
        profile("mpip", write(tmp_path, stating(("Isend", "5.013e+06"), ("Send", "1.55e+05"))), name="ring")
    with pytest.raises(FormatError, match=r"but its calls sent 4\.00 MB"):
        profile("mpip", write(tmp_path, stating(("Isend", "4e+06"))), name="ring")


def test_a_concise_report_is_compared_with_its_largest_calls(tmp_path: Path) -> None:
    head = "@--- Aggregate Sent Message Size (top twenty, descending, bytes) ----------\n"
    rows = "".join(f"Sendrecv {at} 100 4e+07 4e+05 5.00\n" for at in range(20))
    before, after = MPIP_REPORT.split("-------", 1)
    with pytest.raises(FormatError, match="without 800 MB of Sendrecv"):
        profile("mpip", write(tmp_path, f"{before}{head}{rows}-------{after}"), name="ring")
    few = rows.replace("4e+07", "2e+05")
    assert "stated_bytes" not in profile("mpip", write(tmp_path, f"{before}{head}{few}-------{after}"), name="r").report


def test_calls_without_bytes_are_named(tmp_path: Path) -> None:
    text = stating(("Isend", "5.013e+06"), sites=("Isend", "Startall", "Wait", "Put"))
    warnings = profile("mpip", write(tmp_path, text), name="ring").traffic.warnings
    assert warnings == ["the report has no bytes of Put, Startall; neither has its matrix"]
    unstated = profile("mpip", write(tmp_path, MPIP_REPORT), name="ring").traffic.warnings
    assert unstated == ["the report does not state what its calls sent, so its matrix may lack some of them"]


def test_ranks_may_have_names_and_what_has_none_is_not_lost(tmp_path: Path) -> None:
    profiled = profile("mpip", write(tmp_path, MPIP_REPORT), {"0": "master", "1": "worker"}, name="ring").traffic
    assert [row["source"] for row in profiled.to_records()] == ["master"]
    assert profiled.unattributed_bytes == 4 + 7000 + 6000
    assert profiled.bytes == profiled.attributed_bytes + profiled.unattributed_bytes == 5_000_000 + 4 + 7000 + 6000


@pytest.mark.slow
@pytest.mark.parametrize("file", ["my run.mpiP", "x" * 200 + ".mpiP", "a'b\"c.mpiP"])
def test_a_files_name_that_is_no_applications_is_made_one(file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(MPIP_REPORT)
    done = gavotte("profile", "mpip", tmp_path / file, "-o", tmp_path / "a.app.toml")
    assert done.returncode == 0, done.stderr
    assert read_app(tmp_path / "a.app.toml").name in ("my-run", "x" * 128, "a-b-c")
