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


@examples(200)
@given(at=st.integers(0, len(MPIP_REPORT)), cut=st.integers(0, 40), put=st.text(max_size=12))
def test_any_damage_is_one_line(tmp_path: Path, at: int, cut: int, put: str) -> None:
    result = ""
    try:
        profile("mpip", write(tmp_path, MPIP_REPORT[:at] + put + MPIP_REPORT[at + cut :]), name="ring", min_bytes=0)
    except GavotteError as error:
        result = str(error)
    except UnicodeEncodeError:  # a lone surrogate has an impossible rank or size in a file
        return
    assert "\n" not in result


@pytest.mark.skipif(not REAL.is_dir(), reason="the real reports are not on this machine")
def test_real_reports_have_64_ranks_and_sums_that_agree() -> None:
    for path in sorted(REAL.glob("*.mpiP")):
        app = profile("mpip", path, name="real", min_bytes=0).app
        assert len(app.task) == 64
        text = path.read_text()
        rows = [line.split() for line in text.splitlines() if line.count("\t") == 3 and line[:1].isdigit()]
        assert app.total_bytes == sum(int(row[2]) for row in rows if row[0] == row[1]), path.name


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
