"""Completion of command lines, by the function that a real bash calls, and as zsh and fish ask for it."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests import builders
from tests.shell import GAVOTTE

from gavotte.cli import lists
from gavotte.cli.completing import VARIABLE
from gavotte.cli.verbs import NAMES
from gavotte.formats.history import write_history
from gavotte.formats.network import write_network
from gavotte.place import METHODS

pytestmark = pytest.mark.slow

PATH = f"{GAVOTTE.parent}:{os.environ['PATH']}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with files of several kinds."""
    hosts = "".join(
        f'[[host]]\nname = "{name}"\naddress = "127.0.0.{at}"\nagent = "unix:/nowhere/{at}"\n'
        for at, name in enumerate(("vm0", "vm1", "web1"), 1)
    )
    (tmp_path / "my.hosts.toml").write_text(f'format = "gavotte/hosts/1"\n{hosts}')
    (tmp_path / "data").mkdir()
    write_network(tmp_path / "data" / "far.network.json", builders.network(["far0", "far1"], 1e8, 1e-4))
    write_network(tmp_path / "near.network.json", builders.network(["near0", "near1"], 1e8, 1e-4))
    write_history(tmp_path / "cloud.npz", builders.history(np.full((2, 3, 3), 1e7)))
    (tmp_path / "sort.app.toml").write_text("")
    (tmp_path / "with space.network.json").write_text("")
    (tmp_path / "bad.hosts.toml").write_text("= [[")
    return tmp_path


def in_bash(folder: Path, line: str, **variables: str) -> list[str]:
    """Return what bash offers for the last word of a line, which may be empty."""
    words = line.split(" ")
    # Bash splits words at `=`, too.
    words = [part for word in words for part in (word.replace("=", " = ").split(" ") if "=" in word else [word])]
    script = (
        f"source <({VARIABLE}=source_bash gavotte)\n"
        f"COMP_WORDS=({' '.join(map(shlex.quote, words))}) COMP_CWORD={len(words) - 1}\n"
        '_gavotte_completion gavotte\nprintf "%s\\n" "${COMPREPLY[@]}"'
    )
    env = {**os.environ, "PATH": PATH, "HOME": str(folder), **variables}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=folder, env=env, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("gavotte ", list(NAMES)),
        ("gavotte me", ["measure"]),
        ("gavotte -v me", ["measure"]),
        ("gavotte hosts ch", ["check"]),
        ("gavotte measure s", ["sharing"]),
        ("gavotte place --time", ["--time-limit"]),
        ("gavotte place --method ", list(METHODS)),
        ("gavotte place --method=gr", ["greedy"]),
        ("gavotte place n", ["near.network.json"]),
        ("gavotte place d", ["data/", "data/far.network.json"]),
        ("gavotte place near.network.json s", ["sort.app.toml"]),
        (
            "gavotte measure --hosts ",
            [
                "lab",
                "slurm",
                "ssh-config:",
                "mpi:",
                "listing:",
                "kubeconfig",
                "bad.hosts.toml",
                "data/",
                "my.hosts.toml",
            ],
        ),
        ("gavotte measure --hosts=my", ["my.hosts.toml"]),
        ("gavotte broadcast f --hosts my.hosts.toml --from v", ["vm0", "vm1"]),
        ("gavotte broadcast f --hosts=my.hosts.toml --from=W", ["web1"]),
        ("gavotte broadcast f --hosts my.hosts.toml --to vm0,v", ["vm0,vm1"]),
        ("gavotte collective near.network.json --root ", ["near0", "near1"]),
        ("gavotte place near.network.json sort.app.toml --only x=n", ["near0", "near1"]),
        ("gavotte model cloud.npz --without ", ["h0", "h1", "h2"]),
        ("gavotte profile trace --format ", ["goal", "smpi"]),
        ("gavotte schema top", ["topology"]),
        ("gavotte broadcast f --hosts bad.hosts.toml --from ", []),
        ("gavotte broadcast f --hosts gone.hosts.toml --from ", []),
        ("gavotte no-such-verb --", ["--version", "--verbose", "--install-completion", "--show-completion", "--help"]),
        ("gavotte place --method nothing-like-it", []),
        ("gavotte launch --hosts my.hosts.toml -- mpirun --", []),
        ("gavotte --version m", [name for name in NAMES if name.startswith("m")]),
        ("gavotte model cloud.npz -o - --se", ["--seed"]),
    ],
)
def test_bash_completes(folder: Path, line: str, values: list[str]) -> None:
    assert in_bash(folder, line) == values


def test_hosts_of_settings_are_known(folder: Path) -> None:
    settings = folder / "gavotte.toml"
    settings.write_text('[all]\nhosts = "my.hosts.toml"\n')
    assert in_bash(folder, "gavotte broadcast f --from w") == ["web1"]
    settings.write_text("[[[")
    assert in_bash(folder, "gavotte broadcast f --fr") == ["--from"]


def test_nothing_is_done_but_completing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    folder.chmod(0o500)
    assert in_bash(folder, "gavotte model cloud.npz -o new.network.json --meth") == ["--method"]
    assert sorted(folder.rglob("*")) == before


def asked(folder: Path, shell: str, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, VARIABLE: f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line, **variables}
    return subprocess.run([GAVOTTE], cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_zsh_and_fish_complete(folder: Path) -> None:
    line = "gavotte broadcast f --hosts my.hosts.toml --from v"
    assert asked(folder, "zsh", line).stdout == """_arguments '*: :(("vm0"\n"vm1"))'\n"""
    assert asked(folder, "fish", line, _TYPER_COMPLETE_FISH_ACTION="get-args").stdout == "vm0\nvm1\n"
    assert asked(folder, "fish", line, _TYPER_COMPLETE_FISH_ACTION="is-args").returncode == 0
    nothing = asked(folder, "fish", f"{line}z", _TYPER_COMPLETE_FISH_ACTION="is-args")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (1, "", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(folder: Path, shell: str) -> None:
    env = {**os.environ, VARIABLE: f"source_{shell}"}
    done = subprocess.run([GAVOTTE], cwd=folder, env=env, capture_output=True, text=True, check=True)
    assert f"{VARIABLE}=complete_{shell}" in done.stdout


@pytest.mark.parametrize("instruction", ["complete_bash", "complete_tcsh", "nonsense", "complete_"])
def test_what_no_shell_asks_prints_nothing(folder: Path, instruction: str) -> None:
    env = {**os.environ, VARIABLE: instruction}
    done = subprocess.run([GAVOTTE], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")


def test_every_value_of_a_registry_is_completed(folder: Path) -> None:
    """Two of them, one of a group: the rest follow the same way."""
    for line, registry in (
        ("gavotte transfers serve --policy ", lists.REGISTRIES["transfers serve"]["policy"]),
        ("gavotte measure --method ", lists.REGISTRIES["measure"]["method"]),
    ):
        assert in_bash(folder, line) == lists.names_in(registry)


def test_a_verb_is_completed_without_loading_others(folder: Path) -> None:
    script = (
        "import atexit, sys\nfrom gavotte.cli import main\n"
        "atexit.register(lambda: print([n for n in ('gavotte.cli.place', 'gavotte.cli.run', 'gavotte.agents')"
        " if n in sys.modules], file=sys.stderr))\nsys.argv[1:] = []\nmain()"
    )
    for words, loaded in (("gavotte pla", "[]"), ("gavotte place --time", "['gavotte.cli.place']")):
        current = str(len(words.split()) - 1)
        env = {**os.environ, VARIABLE: "complete_bash", "COMP_WORDS": words, "COMP_CWORD": current}
        python: list[str | Path] = [GAVOTTE.with_name("python"), "-c", script]
        done = subprocess.run(python, cwd=folder, env=env, capture_output=True, text=True, check=True)
        assert done.stderr.strip() == loaded
