"""Two profiles of one run: which to believe."""

from __future__ import annotations

import json
from pathlib import Path

from tests.profile.frames import A, B, pcap_bytes, tcp, write
from tests.shell import gavotte

from gavotte.profile import EXACTNESS, SOURCES, Witness, belief, read_witness


def test_every_source_has_a_rank() -> None:
    assert set(EXACTNESS) == set(SOURCES)


def test_the_more_exact_source_is_believed_unless_it_lost_something() -> None:
    exact, sample = Witness("a.json", "pcap", (0.0, 10.0)), Witness("b.json", "sflow", (1.0, 11.0))
    line = belief(sample, exact)
    assert line == ("both saw one run: believe a.json, because pcap counts captured packets; sflow is a sample")
    assert belief(exact, sample) == line
    lossy = Witness("a.json", "pcap", (0.0, 10.0), ("9 packets came faster than they were read",))
    line = belief(lossy, sample)
    assert line is not None
    assert line.startswith("both saw one run: believe b.json, because sflow is a sample; a.json reports: 9 packets")


def test_two_runs_or_one_source_are_not_judged() -> None:
    first = Witness("a.json", "pcap", (0.0, 10.0))
    assert belief(first, Witness("b.json", "sflow", (9.0, 19.0))) is None
    assert belief(first, Witness("b.json", "pcap", (0.0, 10.0))) is None
    assert belief(first, Witness("b.app.toml")) is None
    unknown = belief(first, Witness("b.json", "pmpi"))
    assert unknown is not None
    assert unknown.startswith("if both saw one run: believe b.json, because pmpi counts what the program itself")
    equal = belief(first, Witness("b.json", "live", (0.0, 10.0)))
    assert equal is not None
    assert "equally exact" in equal


def test_diff_prints_which_profile_to_believe(tmp_path: Path) -> None:
    path = write(tmp_path, pcap_bytes([tcp(A, B, 60000)[:60]], snap=60, wire=60040))
    result = gavotte("profile", "pcap", path, "--json")
    assert result.returncode == 0, result.stderr
    (tmp_path / "a.json").write_text(result.stdout)
    content = json.loads(result.stdout)
    assert (content["source"], content["start_s"]) == ("pcap", 1_700_000_000)
    content |= {"source": "sflow", "report": {"lost_samples": 7}}
    (tmp_path / "b.json").write_text(json.dumps(content))
    assert read_witness(tmp_path / "b.json").losses[0].startswith("7 samples were lost")
    result = gavotte("profile", "diff", "a.json", "b.json", cwd=tmp_path)
    assert "both saw one run: believe a.json, because pcap counts captured packets; b.json reports: 7" in result.stderr
