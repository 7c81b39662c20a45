"""Standard streams that are closed or full, and files that are written to them or over others."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests import builders
from tests.shell import GAVOTTE, gavotte

from gavotte.formats.app import read_app, write_app
from gavotte.formats.files.reading import write_text
from gavotte.formats.network import read_network, write_network
from gavotte.formats.placement import read_placement

VERBS = ("--version", "schema network", "place n.network.json a.app.toml", "place n.network.json a.app.toml -o -")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a Network and an App."""
    write_network(tmp_path / "n.network.json", builders.network(["a", "b"], 1e8, 1e-4, cpus=4.0))
    write_app(tmp_path / "a.app.toml", builders.app("a", ("x", "y", 1e6)))
    return tmp_path


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in a folder."""
    return subprocess.run(
        ["sh", "-c", f'"$0" {line}', GAVOTTE], capture_output=True, text=True, timeout=60, check=False, cwd=folder
    )


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("redirection", "reason"), [(">&-", "Bad file descriptor"), ("> /dev/full", "No space left on device")]
)
def test_output_that_is_lost_is_one_line_and_status_1(verb: str, redirection: str, reason: str, folder: Path) -> None:
    done = shell(f"{verb} {redirection}", folder)
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if "error" in line or "Traceback" in line]
    assert len(errors) == 1, done.stderr
    assert "stdout" in errors[0]
    assert reason in errors[0]


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_closed_stderr_or_stdin_changes_nothing(verb: str, folder: Path) -> None:
    normal = shell(f"{verb} --untimed" if "place" in verb else verb, folder).stdout
    for redirection in ("2>&-", "<&-", "<&- 2>&-"):
        done = shell(f"{verb} {'--untimed' if 'place' in verb else ''} {redirection}", folder)
        assert (done.returncode, done.stdout) == (0, normal)


def test_messages_to_a_closed_stderr_do_not_go_to_stdout(folder: Path) -> None:
    done = shell("place missing.json a.app.toml 2>&-", folder)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.slow
@pytest.mark.parametrize("redirection", ["> out.json", ">> out.json", "| cat > out.json"])
def test_a_dash_writes_the_file_alone_to_stdout(redirection: str, folder: Path) -> None:
    kept = "kept\n" if ">>" in redirection else ""
    (folder / "out.json").write_text(kept)
    done = shell(f"place n.network.json a.app.toml -o - {redirection}", folder)
    assert done.returncode == 0
    text = (folder / "out.json").read_text()
    assert text.startswith(kept)
    assert json.loads(text.removeprefix(kept))["format"] == "gavotte/placement/1"
    assert "a" in done.stderr
    assert not (folder / "-").exists()


@pytest.mark.slow
def test_a_verb_does_not_replace_what_it_reads(folder: Path) -> None:
    (folder / "link.json").symlink_to("n.network.json")
    for name in ("n.network.json", "./n.network.json", "link.json"):
        done = gavotte("place", "n.network.json", "a.app.toml", "-o", name, "--force", cwd=folder)
        assert done.returncode == 1
        assert (
            done.stderr == f"error: {Path(name)}: is read or written by the same command; name another file to write\n"
        )
    read_network(folder / "n.network.json")


@pytest.mark.slow
def test_a_file_of_another_kind_is_replaced_by_force_only(folder: Path) -> None:
    write_app(folder / "p.json", read_app(folder / "a.app.toml"))
    write_text(folder / "notes", "Buy milk.\n")
    for name, kind in (("p.json", "is an App"), ("notes", "is not a Placement")):
        line = ("place", "n.network.json", "a.app.toml", "-o", name)
        before = (folder / name).read_text()
        done = gavotte(*line, cwd=folder)
        remedy = "name another file to write, or use --force to replace it"
        assert (done.returncode, done.stderr) == (1, f"error: {name}: exists and {kind}; {remedy}\n")
        assert (folder / name).read_text() == before
        assert gavotte(*line, "--force", cwd=folder).returncode == 0
        read_placement(folder / name)
        assert gavotte(*line, cwd=folder).returncode == 0


@pytest.mark.slow
def test_a_report_does_not_replace_a_noun(folder: Path) -> None:
    done = gavotte("report", "--network", "n.network.json", "-o", "a.app.toml", cwd=folder)
    assert done.returncode == 1
    assert "a.app.toml: exists and is an App" in done.stderr
    for _ in range(2):
        assert gavotte("report", "--network", "n.network.json", "-o", "r.html", cwd=folder).returncode == 0


def test_a_file_that_grows_is_not_stdout(folder: Path) -> None:
    done = gavotte("watch", "n.network.json", "--hosts", "lab", "-o", "-", cwd=folder)
    assert (done.returncode, done.stderr) == (1, "error: -: is stdout, which cannot be read; name a file\n")


def test_a_long_list_of_names_is_no_file(folder: Path) -> None:
    line = ["place", "n.network.json", "a.app.toml", "-o", "p.json", "--sharing", "x" * 5000]
    done = gavotte(*line, cwd=folder)
    assert done.returncode != 0
    assert "x" * 20 in done.stderr
    assert "File name too long" not in done.stderr
