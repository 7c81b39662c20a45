"""The file of samples: appended to, cut where it is torn, never written by two."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaign.studies import repeated, sample
from tests.examples import examples

from gavotte.campaign import Journal, write_samples
from gavotte.campaign.journal import read_journal
from gavotte.errors import FormatError, GavotteError
from gavotte.formats.record import read_records, read_samples


def test_a_sample_is_a_record_with_the_fields_that_others_rely_on(tmp_path: Path) -> None:
    write_samples(tmp_path / "r.jsonl", repeated("near", [1e8, 2e8], low=9e7, high=3e8))
    assert [each.value for each in read_records(tmp_path / "r.jsonl")] == [1e8, 2e8]
    fields = {"format", "campaign", "scenario", "repetition", "sample", "metric", "value", "unit", "low", "high"}
    fields |= {"time_s", "source", "target", "connections", "metadata"}
    import json

    for line in (tmp_path / "r.jsonl").read_text().splitlines():
        assert fields <= json.loads(line).keys()


@given(st.integers(0, 3), st.data())
@examples(60)
def test_whatever_is_cut_off_the_whole_lines_stay(
    tmp_path_factory: pytest.TempPathFactory, whole: int, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("torn") / "r.jsonl"
    write_samples(path, repeated("near", [1e8] * (whole + 1)))
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    least = len(b"".join(lines[:whole]))
    kept = data.draw(st.integers(least, len(content)), label="bytes kept")
    path.write_bytes(content[:kept])
    with Journal(path, resume=True) as journal:
        present = len(journal.samples)
        assert present == (whole + 1 if kept == len(content) else whole)
        assert journal.cut_bytes == (0 if kept == len(content) else kept - least)
        journal.append(sample("far", 0, 5.0))
    assert len(read_samples(path)) == present + 1


def test_damage_that_is_no_torn_end_is_told(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_samples(path, repeated("near", [1e8] * 3))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[1][:50] + "\n" + lines[2])
    with pytest.raises(FormatError, match=r"r.jsonl:2"):
        Journal(path, resume=True)
    path.write_text(lines[0] + lines[0])
    with pytest.raises(FormatError, match="occurs twice"):
        Journal(path, resume=True)


def test_a_file_with_samples_wants_resume_and_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Journal(path, resume=False) as journal:
        journal.append(sample("near", 0, 1.0))
        with pytest.raises(GavotteError, match="another campaign writes it"):
            Journal(path, resume=True)
    with pytest.raises(GavotteError, match="holds samples already"):
        Journal(path, resume=False)
    with Journal(path, resume=True) as again:
        assert len(again.samples) == 1


ON_A_FULL_DISK = """
import sys
from tests.campaign.studies import sample
from gavotte.campaign import Journal
from gavotte.errors import FormatError
with Journal(sys.argv[1], resume=False) as journal:
    try:
        for number in range(1000):
            journal.append(sample("near", number, 1.0, metadata={"long": "x" * 500}))
    except FormatError as error:
        print(len(journal.samples), error)
"""


def test_a_full_disk_names_the_file_and_leaves_it_sound(tmp_path: Path) -> None:
    script = f"mount -t tmpfs -o size=16k none '{tmp_path}' && exec '{sys.executable}' -c \"$1\" '{tmp_path}/r.jsonl' "
    script = script.replace("exec ", "") + f"&& cp '{tmp_path}/r.jsonl' \"$2\""
    with tempfile.TemporaryDirectory() as outside:
        copy = Path(outside) / "r.jsonl"
        done = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", ON_A_FULL_DISK, str(copy)],
            capture_output=True,
            text=True,
            check=False,
        )
        if "unshare" in done.stderr or "mount:" in done.stderr:
            pytest.skip(done.stderr)
        written, _, message = done.stdout.strip().partition(" ")
        assert f"{tmp_path}/r.jsonl" in message, done.stderr
        assert "No space left on device" in message
        samples, torn_bytes = read_journal(copy, resume=True)
        assert (len(samples), torn_bytes) == (int(written), 0)
        assert samples
