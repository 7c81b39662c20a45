"""`gavotte history` as a user meets it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.store.worlds import same, world

from gavotte.cli import main
from gavotte.formats.history import read_history, write_history
from gavotte.formats.record import Record, write_records

if TYPE_CHECKING:
    from tests.store.conftest import Server


@dataclass(frozen=True)
class Told:
    """A command's output and status."""

    stdout: str
    stderr: str
    returncode: int


@dataclass(frozen=True)
class Shell:
    """Run the command inside this process, in a folder and an environment of the test's own."""

    folder: Path
    patch: pytest.MonkeyPatch
    output: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str | Path, store: str = "") -> Told:
        self.patch.setenv("GAVOTTE_STORE", store)
        self.patch.setattr(sys, "argv", ["gavotte", "history", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        output = self.output.readouterr()
        return Told(output.out, output.err, int(left.value.code or 0))


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("signal.signal", lambda _number, _handler: None)
    return Shell(tmp_path, monkeypatch, capfd)


def test_from_import_to_delete(tmp_path: Path, history: Shell) -> None:
    empty = history("list", "--json")
    assert json.loads(empty.stdout)["series"] == []
    assert not (tmp_path / "data").exists()  # reading makes no file
    measured = world(times=(1e9, 1e9 + 60))
    write_history(tmp_path / "cloud.npz", measured)
    write_records(tmp_path / "r.jsonl", [Record(kind="run", metric="x_s", value=1.0, time_s=2.0)])
    added = json.loads(history("import", "cloud.npz", "--json").stdout)
    assert (added["series"], added["snapshots"]) == ("cloud", 2)
    assert added["store"] == str(tmp_path / "data" / "gavotte" / "gavotte.sqlite3")
    assert "added 1 new Records" in history("import", "r.jsonl").stderr
    listed = history("list")
    assert "cloud" in listed.stdout
    assert "2001-09-09 01:47:40Z" in listed.stdout
    assert "1 series and 1 Records in" in listed.stderr
    shown = json.loads(history("show", "cloud", "--pairs", "--json").stdout)
    assert shown["hosts"] == ["a", "b", "c"]
    assert len(shown["pairs"]) == 6
    assert shown["answered"] == sum(each["answered"] for each in shown["pairs"])
    one = json.loads(history("show", "cloud", "--host", "c", "--host", "a", "--json").stdout)
    assert [(each["source"], each["target"]) for each in one["pairs"]] == [("c", "a"), ("a", "c")]
    text = history("show", "cloud", "--last", "1")
    assert "2001-09-09 01:47:40Z" in text.stdout
    assert "2001-09-09 01:46:40Z" not in text.stdout
    assert history("export", "cloud", "-o", "back.npz").returncode == 0
    same(read_history(tmp_path / "back.npz"), measured)
    piped = history("export", "cloud", "-o", "/dev/stdout", "--format", "csv", "--since", "2001-09-09T01:47:00Z")
    assert piped.stdout.startswith("source,target,time_s,alpha_s,beta_Bps,hops")
    assert len(piped.stdout.splitlines()) == 7
    assert history("export", "-o", "all.jsonl").returncode == 0
    assert "deleted 1 snapshot of cloud" in history("delete", "cloud", "--before", "1000000001").stderr
    assert json.loads(history("delete", "run", "--records", "--json").stdout) == {"name": "run", "records": 1}
    assert json.loads(history("list", "--json").stdout)["series"][0]["snapshots"] == 1


def test_the_store_is_named_by_option_or_variable(tmp_path: Path, history: Shell) -> None:
    write_history(tmp_path / "cloud.npz", world())
    assert history("import", "cloud.npz", "--store", "sqlite:///one").returncode == 0
    assert history("import", "cloud.npz", "--series", "x", store="two").returncode == 0
    assert "x" in history("list", store="two").stdout
    assert json.loads(history("list", "--json", "--store", "one", store="two").stdout)["store"] == "one"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("show", "cloud"), 1, "no such store"),
        (("list", "--store", "missing"), 1, "missing: no such store"),
        (("list", "--store", "notes.txt"), 1, "notes.txt: is not an SQLite database"),
        (("import", "missing.npz"), 1, "missing.npz: no such file"),
        (("import", "bad.csv"), 1, "bad.csv: line 2, column beta_Bps: is `fast`"),
        (("import", "notes.txt"), 1, "its suffix tells no format"),
        (("import", "bad.csv", "--series", "a b"), 1, "is not a valid name"),
        (("import", "r.jsonl", "--series", "x"), 2, "Records do not belong to a series"),
        (("export", "-o", "x.csv"), 2, "name a series"),
        (("export", "cloud"), 2, "--output"),
        (("show", "cloud", "--since", "yesterday"), 2, "is not a time"),
        (("import", "bad.csv", "--store", "postgresql://u:WrongSecret@127.0.0.1:1/b"), 1, "no connection"),
        (("import", "bad.csv", "--store", "postgresql://u:Wrong/Secret@127.0.0.1:1/b"), 1, "URL"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, history: Shell, arguments: tuple[str, ...], status: int, message: str
) -> None:
    (tmp_path / "notes.txt").write_text("notes\n" * 100)
    (tmp_path / "bad.csv").write_text("source,target,time_s,alpha_s,beta_Bps\na,b,1,,fast\n")
    result = history(*arguments)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Secret" not in result.stderr
    assert result.stdout == ""
    assert result.returncode == status


@pytest.mark.slow
def test_with_a_server(server: Server, tmp_path: Path, history: Shell) -> None:
    write_history(tmp_path / "cloud.npz", world())
    base = server.new_database()
    url = server.tcp_url(base)
    added = history("import", "cloud.npz", "--store", url)
    assert added.stderr == f"added 2 snapshots to cloud in postgresql://gavotte@127.0.0.1:{server.port}/{base}\n"
    assert history("export", "cloud", "-o", "back.npz", store=url).returncode == 0
    same(read_history(tmp_path / "back.npz"), world())
