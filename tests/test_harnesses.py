"""What the harnesses of faults and damaged files count as a defect."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests import builders
from tests.fuzzing.__main__ import attempt
from tests.shell import one_line_of_error

from gavotte.formats.app import write_app

REPOSITORY = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("command", "message", "fine"),
    [
        ("hosts check --hosts i.hosts.toml", "5 of 6 hosts can be used\n", True),
        ("hosts check --hosts i.hosts.toml", "error: i.hosts.toml: no such file\n", True),
        ("hosts check --hosts i.hosts.toml", "", False),
        ("measure --hosts i.hosts.toml", "5 of 6 hosts can be used\n", False),
        ("guarantee clear --hosts lab", "guarantees removed from 5 hosts\n", True),
        ("profile diff a b", "different: 50.0% of the bytes moved, threshold 10.0%; volume times 1\n", False),
        ("model h.npz", "error: a\nerror: b\n", False),
    ],
)
def test_exit_status_1_is_an_error_or_a_verdict(command: str, message: str, fine: bool) -> None:
    assert one_line_of_error(command.split(), message) == fine


def test_a_verdict_is_no_defect(tmp_path: Path) -> None:
    for name, pair in (("a", ("x", "y")), ("b", ("y", "x"))):
        write_app(tmp_path / f"{name}.app.toml", builders.app("a", (*pair, 10**6)))
    status, message, wrong = attempt(["profile", "diff", *map(str, sorted(tmp_path.glob("*.app.toml")))])
    assert (status, wrong) == (3, "")
    assert message.startswith("different: ")
    status, _, wrong = attempt(["profile", "pcap", str(tmp_path / "a.app.toml")])
    assert (status, wrong) == (1, "")


def test_fuzz_tells_how_much_it_fed(tmp_path: Path) -> None:
    """With stand-ins for the programs that it runs, because a build would take minutes."""
    cargo = "#!/bin/sh\necho 'Done' >&2\nprintf 'stat::number_of_executed_units: 700\\n' >&2\n"
    python = "#!/bin/sh\necho '500 files, 25 commands, 0 defects, seed 1'\n"
    stands = {"bin/cargo": cargo, "bin/cargo-fuzz": "#!/bin/sh\n", "bin/c++": "#!/bin/sh\n", ".venv/bin/python": python}
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/fuzz").symlink_to(REPOSITORY / "tools/fuzz")
    for name, script in stands.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    line = [str(tmp_path / "tools/fuzz"), "1", "commands", "packets", "flows"]
    done = subprocess.run(line, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "fuzz: 1925 inputs in all"
    (tmp_path / ".venv/bin/python").write_text(python + "exit 1\n")
    done = subprocess.run(line, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "fuzz: 525 inputs in all"


def test_few_cases_of_a_test_are_the_first_the_last_and_some_between(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "from tests.conftest import cases_left_out, pytest_addoption, pytest_collection_modifyitems\n"
    )
    pytester.makeini("[pytest]\nmarkers =\n    lab\n    each_case\n")
    pytester.makepyfile("""
        import pytest
        @pytest.mark.lab
        @pytest.mark.parametrize("n", range(9))
        def test_many(n): pass
        @pytest.mark.lab
        @pytest.mark.parametrize("n", range(3))
        def test_three(n): pass
        @pytest.mark.lab
        @pytest.mark.each_case
        @pytest.mark.parametrize("n", range(5))
        def test_each(n): pass
        @pytest.mark.parametrize("n", range(5))
        def test_without_packets(n): pass
    """)
    done = pytester.runpytest_inprocess("--collect-only", "-q", "--most-cases", "3", "-p", "no:cacheprovider")
    chosen = [line.partition("::")[2] for line in done.outlines if "::" in line]
    assert [name for name in chosen if "many" in name] == [f"test_many[{n}]" for n in (0, 4, 8)]
    assert len(chosen) == 3 + 3 + 5 + 5
