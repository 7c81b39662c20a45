"""Settings of `gavotte.toml`: which file holds, which option it may set, and what a mistake in it says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.shell import GAVOTTE, gavotte

from gavotte.cli.settings import files, rules
from gavotte.cli.verbs import NAMES, load
from gavotte.formats.app import write_app
from gavotte.formats.network import write_network
from gavotte.store.location import STORE_VARIABLE

HOSTS = 'format = "gavotte/hosts/1"\n[[host]]\nname = "{0}"\naddress = "127.0.0.1"\nagent = "unix:/nowhere/{0}"\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home with a project that has folders, and hosts in files of the same name."""
    project = tmp_path / "project"
    (project / "deep" / "er").mkdir(parents=True)
    (tmp_path / ".config" / "gavotte").mkdir(parents=True)
    for folder in (tmp_path, project, project / "deep"):
        (folder / "my.hosts.toml").write_text(HOSTS.format(folder.name.replace(tmp_path.name, "home")))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", files.VARIABLE, STORE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def settings(folder: Path, text: str) -> Path:
    path = folder / "gavotte.toml"
    path.write_text(text)
    path.chmod(0o644)
    return path


def shown(cwd: Path, **variables: str) -> dict[str, str]:
    """Return the settings that hold in a folder, each with its source."""
    done = gavotte("config", "--json", cwd=cwd, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    return {each["setting"]: each["source"] for each in json.loads(done.stdout)["settings"]}


def hosts_in(cwd: Path, *words: str, **variables: str) -> str:
    """Return the name of the host that `gavotte hosts list` finds."""
    done = gavotte("hosts", "list", "--json", *words, cwd=cwd, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["host"][0]["name"])


def error(cwd: Path, *words: str) -> str:
    done = gavotte(*words, cwd=cwd)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("error: ").rstrip()


@pytest.mark.slow
def test_the_line_beats_the_nearest_file_which_beats_the_users_own(home: Path) -> None:
    project = home / "project"
    (home / ".config/gavotte/my.hosts.toml").write_text(HOSTS.format("own"))
    settings(home / ".config" / "gavotte", '[all]\nhosts = "my.hosts.toml"\n')
    assert hosts_in(project / "deep") == "own"
    settings(home, '[all]\nhosts = "my.hosts.toml"\n')
    assert hosts_in(project / "deep") == "home"
    settings(project, '[all]\nhosts = "my.hosts.toml"\n')
    assert hosts_in(project / "deep" / "er") == "project"
    assert hosts_in(project) == "project"
    assert hosts_in(project / "deep", "--hosts", "my.hosts.toml") == "deep"
    settings(project, '[hosts.list]\nhosts = "deep/my.hosts.toml"\n')
    assert hosts_in(project / "deep" / "er") == "deep"
    settings(project, '[all]\nhosts = "nowhere"\n[hosts]\nhosts = "deep/my.hosts.toml"\n[hosts.check]\nhosts = "lab"\n')
    assert hosts_in(project) == "deep"


@pytest.mark.slow
def test_the_search_ends_at_the_home(home: Path) -> None:
    settings(home, '[all]\nhosts = "my.hosts.toml"\n')
    done = gavotte("hosts", "list", cwd=home / "project", env={**os.environ, "HOME": str(home / "project")})
    assert done.returncode == 2
    assert "Missing option '--hosts'" in done.stderr


@pytest.mark.slow
def test_the_environment_beats_files(home: Path) -> None:
    project = home / "project"
    settings(project, '[all]\nstore = "project.sqlite3"\n')
    assert shown(project) == {"all.store": str(project / "gavotte.toml")}
    done = gavotte("history", "list", cwd=project / "deep")
    assert str(project / "project.sqlite3") in done.stderr
    variables = {STORE_VARIABLE: f"{project}/other.sqlite3"}
    assert shown(project, **variables) == {"all.store": STORE_VARIABLE}
    done = gavotte("history", "list", cwd=project / "deep", env={**os.environ, **variables})
    assert "other.sqlite3" in done.stderr


def test_the_variables_of_options_are_those_that_rooms_read() -> None:
    assert rules.VARIABLES["store"] == STORE_VARIABLE


@pytest.mark.slow
def test_xdg_and_a_named_file(home: Path) -> None:
    folder = home / "elsewhere" / "gavotte"
    folder.mkdir(parents=True)
    settings(folder, "[all]\nseed = 1\n")
    settings(home / "project", "[all]\nseed = 2\n[measure]\ncount = 3\n")
    assert shown(home, XDG_CONFIG_HOME=str(folder.parent)) == {"all.seed": str(folder / "gavotte.toml")}
    assert shown(home / "project", GAVOTTE_CONFIG=f"{folder}/gavotte.toml") == {"all.seed": f"{folder}/gavotte.toml"}
    assert shown(home / "project", GAVOTTE_CONFIG="/dev/null") == {}


@pytest.mark.slow
def test_values_reach_the_verb_as_from_a_command_line(home: Path) -> None:
    project = home / "project"
    write_network(project / "n.network.json", builders.network(["a", "b"], 1e8, 1e-4, cpus=4.0))
    write_app(project / "a.app.toml", builders.app("a", ("x", "y", 1e6)))
    settings(project, '[all]\nseed = 7\n[place]\ntime-limit = "500ms"\nrepeatable = true\nonly = ["x=a", "y=a"]\n')
    line = ("place", "n.network.json", "a.app.toml", "--json")
    placed = json.loads(gavotte(*line, cwd=project).stdout)
    assert (placed["seed"], placed["assignment"]) == (7, {"x": "a", "y": "a"})
    placed = json.loads(gavotte(*line, "--seed", "8", "--only", "x=b", "--only", "y=b", cwd=project).stdout)
    assert (placed["seed"], placed["assignment"]) == (8, {"x": "b", "y": "b"})


@pytest.mark.slow
def test_a_network_goes_with_the_hosts_of_its_file(home: Path) -> None:
    project = home / "project"
    for name, hosts in (("n", ["a", "b"]), ("m", ["c", "d"])):
        write_network(project / f"{name}.network.json", builders.network(hosts, 1e8, 1e-4, cpus=4.0))
    settings(project, '[all]\nhosts = "my.hosts.toml"\nnetwork = "n.network.json"\n')
    ranks = gavotte("ranks", "--pattern", "ring", "-n", "2", cwd=project)
    assert sorted(ranks.stdout.split()) == ["a", "b"]
    ranks = gavotte("ranks", "--pattern", "ring", "-n", "2", "--network", "m.network.json", cwd=project)
    assert sorted(ranks.stdout.split()) == ["c", "d"]
    ranks = gavotte("ranks", "--pattern", "ring", "--hosts", "deep/my.hosts.toml", cwd=project)
    assert ranks.returncode == 1
    assert "a single host has no path to measure" in ranks.stderr


MISTAKES = [
    ("[measur]\ncount = 2\n", "measur: is not a verb; did you mean `measure`?"),
    ("[measure]\ncuont = 2\n", "measure.cuont: is not an option of `measure`; did you mean `count`?"),
    ("[measure.shring]\nseed = 2\n", "measure.shring: is not a verb; did you mean `sharing`?"),
    ("[all]\nhots = 'lab'\n", "all.hots: is not an option that verbs share; did you mean `hosts`?"),
    ("hosts = 'lab'\n", "hosts: is in no table; write [all] above it"),
    ("count = 2\n", "count: is in no table; write it in the table of a verb, e.g. [measure]"),
    ("[all]\nquux = 2\n", "all.quux: is not an option that verbs share; write it in the table of a verb, e.g. [meas"),
    ("measure = 'lab'\n", "measure: is a verb; begin a table with [measure]"),
    ("[measure]\ncount = 0\n", "measure.count: Input should be greater than or equal to 1"),
    ("[measure]\ncount = [1, 2]\n", "measure.count: has one value only; write it without brackets"),
    ("[measure]\ncount = true\n", "measure.count: takes a value; write a number or a text in quotes"),
    ("[measure]\nagain = 1\n", "measure.again: is on or off; write true or false"),
    ("[measure]\nno-pilot = true\n", "measure.no-pilot: is not a key; write `pilot = false`"),
    ("[measure]\nevery = '5x'\n", "measure.every: `5x` is not a duration; use e.g. 5, 5s or 10min; correct it there"),
    ("[measure]\ndry-run = true\n", "measure.dry-run: is only for the command line; leave it out, and use --dry-run"),
    ("[measure]\noutput = 'x.npz'\n", "measure.output: is only for the command line"),
    ("[measure\n", "is not TOML"),
]


@pytest.mark.slow
@pytest.mark.parametrize("words", [("measure",), ("config",)], ids=" ".join)
@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_is_named_with_file_key_and_remedy(
    home: Path, text: str, message: str, words: tuple[str, ...]
) -> None:
    path = settings(home / "project", text)
    assert error(home / "project", *words).startswith(f"{path}: {message}")


@pytest.mark.slow
def test_an_error_about_a_value_names_the_file_that_set_it(home: Path) -> None:
    path = settings(home / "project", '[all]\nhosts = "gone.hosts.toml"\n')
    assert error(home / "project", "hosts", "list").endswith(
        f"no such file; check the path (`all.hosts` is from {path})"
    )


@pytest.mark.slow
def test_help_and_versions_work_in_a_folder_with_a_mistake(home: Path) -> None:
    settings(home / "project", "[[[\n")
    for words in (["--help"], ["measure", "--help"], ["--version"], ["--version", "-v"]):
        assert gavotte(*words, cwd=home / "project").returncode == 0


@pytest.mark.slow
def test_a_folder_starts_no_command(home: Path) -> None:
    text = '[watch]\nexec = "touch {placement}"\n'
    path = settings(home / "project", text)
    own = home / ".config/gavotte/gavotte.toml"
    refusal = f"{path}: watch.exec: starts a program or sends data; move it to your own {own}"
    assert error(home / "project", "watch", "n.network.json") == refusal
    path.unlink()
    settings(own.parent, text)
    assert shown(home / "project") == {"watch.exec": str(own)}


def test_every_option_that_starts_a_command_is_one_of_those() -> None:
    command: Any = load(NAMES)
    commands = [
        key
        for sub in below(command)
        for key, option in rules.options_of(sub).items()
        if option.metavar in ("COMMAND", "URL")
    ]
    assert {*commands} == rules.OWN | {"store"}


def below(command: Any) -> list[Any]:
    return [command, *(each for sub in getattr(command, "commands", {}).values() for each in below(sub))]


def test_rules_name_options_that_exist() -> None:
    command: Any = load(NAMES)
    keys = {key for sub in below(command) for key in [*rules.options_of(sub), "force", "help"]}
    assert rules.HERE - keys == set()
    assert {*rules.SHARED} - keys == set()
    names = {" ".join(path) for path in paths(command)}
    assert {verb for verbs in rules.SHARED.values() for verb in verbs or ()} <= names


def paths(command: Any, *names: str) -> list[tuple[str, ...]]:
    subs = getattr(command, "commands", {})
    return [names, *(path for name, sub in subs.items() for path in paths(sub, *names, name))]


def test_no_option_of_a_group_has_the_name_of_a_verb_in_it() -> None:
    for group in below(load(NAMES)):
        names = {option.name for option in group.params}
        assert not names & {*getattr(group, "commands", {})}


def test_shared_options_mean_the_same_everywhere() -> None:
    command: Any = load(NAMES)
    kinds: dict[str, set[tuple[str, str]]] = {}
    for path in paths(command):
        sub = command
        for name in path:
            sub = sub.commands[name]
        for key, option in rules.options_of(sub).items():
            if rules.is_shared(key, " ".join(path), option):
                kinds.setdefault(key, set()).add((str(option.metavar), str(option.type_descriptor.annotation)))
    assert {*kinds} == {*rules.SHARED}
    assert {key: each for key, each in kinds.items() if len(each) > 1} == {}


TRUST = [
    (0o664, 0o755, "can be written by other users"),
    (0o646, 0o755, "can be written by other users"),
    (0o644, 0o777, "is in a folder that other users can write to"),
    (0o644, 0o1777, ""),
    (0o600, 0o700, ""),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "folder_mode", "problem"), TRUST)
def test_a_file_that_others_can_write_is_refused(home: Path, mode: int, folder_mode: int, problem: str) -> None:
    path = settings(home / "project", "[all]\nseed = 1\n")
    status = path.stat()
    if status.st_uid == 0 and mode & 0o020:
        os.chown(path, 0, 1)  # The group of the owner's name has no other members.
    path.chmod(mode)
    path.parent.chmod(folder_mode)
    done = gavotte("config", cwd=path.parent)
    assert done.returncode == (1 if problem else 0)
    if problem:
        assert done.stderr.startswith(f"error: {path}: {problem}; use `chmod go-w ")
    named = gavotte("config", cwd=path.parent, env={**os.environ, files.VARIABLE: str(path)})
    assert named.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(home: Path) -> None:
    path = settings(home / "project", "[all]\nseed = 1\n")
    os.chown(path, 65534, 65534)
    assert error(path.parent, "config").startswith(f"{path}: belongs to another user (65534); make it yours with chown")
    sudo = gavotte("config", cwd=path.parent, env={**os.environ, "SUDO_UID": "65534"})
    assert sudo.returncode == 0
    own = settings(home, "[all]\nseed = 1\n")
    path.unlink()
    path.symlink_to(own)
    os.chown(path, 65534, 65534, follow_symlinks=False)
    assert "belongs to another user" in error(path.parent, "config")


@pytest.mark.slow
def test_outside_the_home_the_search_ends_before_a_folder_of_others(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = tmp_path_factory.mktemp("shared")
    (shared / "mine" / "deep").mkdir(parents=True)
    path = settings(shared / "mine", "[all]\nseed = 1\n")
    assert shown(shared / "mine" / "deep") == {"all.seed": str(path)}
    path.unlink()
    path = settings(shared, "[all]\nseed = 1\n")
    assert shown(shared / "mine" / "deep") == {"all.seed": str(path)}
    shared.chmod(0o1777)
    assert shown(shared / "mine" / "deep") == {}
    assert shown(shared) == {"all.seed": str(path)}


@pytest.mark.slow
def test_passwords_are_not_printed(home: Path) -> None:
    settings(home / "project", '[all]\nstore = "postgresql://me:hush@db/x?password=hush"\n')
    done = gavotte("config", cwd=home / "project")
    assert "postgresql://me:***@db/x?password=***" in done.stdout
    assert "hush" not in done.stdout


@pytest.mark.slow
def test_without_a_file_no_settings_are_loaded(home: Path) -> None:
    script = (
        "import atexit, sys\nfrom gavotte.cli import main\n"
        "atexit.register(lambda: print('gavotte.cli.settings.applying' in sys.modules, file=sys.stderr))\n"
        "sys.argv[1:] = ['schema', 'topology']\nmain()"
    )
    python = GAVOTTE.with_name("python")
    for expected in ("False", "True"):
        done = subprocess.run([python, "-c", script], cwd=home, capture_output=True, text=True, check=True)
        assert done.stderr.strip() == expected
        settings(home, "[all]\nseed = 1\n")


def test_a_group_that_is_only_the_owners_is_no_other(tmp_path: Path) -> None:
    path = settings(tmp_path, "")
    path.chmod(0o664)
    assert files._others_write(path.stat()) == (path.group() != path.owner())
