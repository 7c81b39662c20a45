"""Tables without rich, which loads for longer than many a verb runs, are the same to the letter."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import app as app_of
from tests.builders import inventory, network
from tests.examples import examples
from typer.testing import CliRunner

from gavotte.cli import entry, output, progress
from gavotte.cli.verbs import app
from gavotte.formats.app import write_app
from gavotte.formats.inventory import write_inventory
from gavotte.formats.network import write_network

CELLS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
TABLES = st.integers(1, 4).flatmap(
    lambda width: st.tuples(
        st.lists(st.from_regex(r"[a-z][a-z ]{0,10}", fullmatch=True), min_size=width, max_size=width, unique=True),
        st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=5),
    )
)


def printed(columns: list[str], rows: list[list[str]], words: list[str], *, plain: bool) -> str:
    """The table, by rich unless `plain`."""
    output.stdout.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        stream = io.StringIO()
        patch.setattr(sys, "stdout", stream)
        patch.delenv("FORCE_COLOR", raising=False)
        patch.delenv("TTY_COMPATIBLE", raising=False)
        if plain:
            assert output._is_plain(columns, rows)
        else:
            patch.setattr(output, "_is_plain", lambda *_: False)
        output.emit_table(columns, rows, words=words)
    output.stdout.cache_clear()
    return stream.getvalue()


@pytest.mark.skipif(int(version("rich").partition(".")[0]) < 15, reason="older versions pad the last column")
@given(TABLES, st.data())
@examples(60)
def test_plain_tables_are_those_of_rich(table: tuple[list[str], list[list[str]]], data: st.DataObject) -> None:
    columns, rows = table
    words = data.draw(st.lists(st.sampled_from(columns), unique=True))
    assert printed(columns, rows, words, plain=True) == printed(columns, rows, words, plain=False)


@pytest.mark.parametrize("cell", ["ä", "漢", "a\tb", "two\nlines", "\x1b[1m", "x" * (output.PIPE_WIDTH + 1)])
def test_what_rich_would_change_is_left_to_it(cell: str) -> None:
    assert not output._is_plain(["name"], [[cell]])


@pytest.mark.slow
def test_a_simulation_starts_slim(tmp_path: Path) -> None:
    """Without rich, and with one thread for linear algebra, unless users say otherwise."""
    hosts = "".join(f'[[host]]\nname = "{name}"\nswitch = "core"\nrate = "8mbit"\n' for name in "ab")
    (tmp_path / "t.topology.toml").write_text(f'format = "gavotte/topology/1"\n[[switch]]\nname = "core"\n{hosts}')
    (tmp_path / "f.csv").write_text("id,source,target,bytes,start_s\n0,a,b,1000000,0\n")
    script = (
        "import atexit, os, sys\n"
        "from gavotte.cli import main\n"
        "known = lambda: print('rich' in sys.modules, *map(os.environ.get, NAMES))\n"
        f"NAMES = {list(entry.SLIM)}\n"
        "atexit.register(known)\n"
        "main()\n"
    )
    own = {key: value for key, value in os.environ.items() if key not in {*entry.SLIM, "FORCE_COLOR"}}

    def last_line(words: list[str], **more: str) -> str:
        command = [sys.executable, "-c", script, *words]
        done = subprocess.run(command, cwd=tmp_path, env=own | more, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[-1]

    simulated = ["simulate", "t.topology.toml", "f.csv"]
    assert last_line(simulated) == "False 1 __all__"
    assert last_line(["-v", *simulated], OPENBLAS_NUM_THREADS="2") == "False 2 __all__"
    assert last_line(["schema", "topology"]) == "False None None"


def test_verbs_that_start_programs_change_nothing_for_them() -> None:
    assert entry.NUMBERS.isdisjoint({"lab", "demo", "run", "watch", "campaign", "hosts", "profile", "shim", "measure"})


@pytest.mark.parametrize(("rows", "flows"), [("a,b,8\n", "1 flow"), ("a,b,8\nb,a,8\n", "2 flows")])
def test_a_number_and_its_noun_agree(rows: str, flows: str, tmp_path: Path) -> None:
    write_inventory(tmp_path / "x.hosts.toml", inventory("ab"))
    write_network(tmp_path / "n.network.json", network("ab", 8e6))
    (tmp_path / "bytes.csv").write_text(f"source,target,bytes\n{rows}")
    words = ["shuffle", "bytes.csv", "--hosts", "x.hosts.toml", "--network", "n.network.json", "--dry-run"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        done = CliRunner().invoke(app, words)
    assert done.stderr.startswith(f"{flows}, ")


def test_rows_without_information_are_counted_and_listed_with_v(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = [287, 0, 0]
    assert output.with_information(rates, bool, "path", "without an answer") == [287]
    assert capsys.readouterr().err == "2 paths without an answer are left out (-v lists them)\n"
    monkeypatch.setattr(output, "verbose", lambda: True)
    assert output.with_information(rates, bool, "path", "without an answer") == rates
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_placement_starts_without_what_it_does_not_use(tmp_path: Path) -> None:
    """Neither gRPC, which guarantees and agents need, nor solvers for a placement that the bound proves."""
    hosts: list[dict[str, object]] = [{"name": name, "egress_bps": 8e6} for name in "ab"]
    write_network(tmp_path / "n.network.json", network(hosts, None))
    write_app(tmp_path / "a.app.toml", app_of("copy", ("from", "to", 1_000_000)))
    script = (
        "import atexit, sys\n"
        "from gavotte.cli import main\n"
        "names = ('grpc', 'gavotte.agents', 'gavotte.place.explaining', 'gavotte.place.exact.cpsat', 'rich')\n"
        "atexit.register(lambda: print([name for name in names if name in sys.modules], file=sys.stderr))\n"
        "main()"
    )
    words = [sys.executable, "-c", script, "place", "n.network.json", "a.app.toml"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stderr.splitlines()[-1] == "[]"


def test_a_method_that_has_placed_only_computes_a_bound() -> None:
    assert progress.search_line(10.0, (1.25, 0.5, 0.3), 3.0) == (
        "searching for up to 10 s, 30 % after 3 s: best so far 1.25 s, at least 0.5 s"
    )
    assert progress.bound_line("greedy", 0.0, 3.0) == (
        "greedy has placed; computing a bound on the time of any placement (3 s so far; Ctrl-C stops it)"
    )
