"""Names from an ssh configuration; the real client resolves them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavotte.agents import resolve_hosts
from gavotte.agents.reach.client import CONFIG_VARIABLE
from gavotte.agents.sources.ssh_config import aliases, from_ssh_config
from gavotte.errors import GavotteError

needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")

CONFIG = """\
Include {folder}/more.d/*.conf
Host web1 "web 2"
    HostName 10.1.0.1
host=db !db9 db* # a comment
    HostName=10.1.0.3
    Port 2222
Match host elsewhere
    User guest
Host *.example web?
    User ada
Host *
    User root
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "more.d").mkdir()
    (tmp_path / "more.d" / "a.conf").write_text("Host inner\n  HostName 10.1.0.%h\n")
    (tmp_path / "more.d" / "b.conf").write_text("Host web1\n  HostName 10.1.0.9\nHost web7\n HostName 10.1.0.7\n")
    path = tmp_path / "config"
    path.write_text(CONFIG.replace("{folder}", str(tmp_path)))
    return path


def test_names_are_those_of_host_lines_that_are_no_patterns(config: Path) -> None:
    assert aliases(config.read_text(), str(config)) == ["inner", "web1", "web7", "web 2", "db"]


@needs_ssh
def test_the_client_says_what_a_name_means(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = from_ssh_config("web?,db", file=config)
    # The included file comes first, so its value counts.
    assert {host.name: host.address for host in inventory.host} == {
        "web1": "10.1.0.9", "web7": "10.1.0.7", "db": "10.1.0.3",
    }  # fmt: skip
    # The alias stays: user, port, keys and jumps are the client's business.
    assert inventory.host[0].agent == "ssh://web1"
    assert inventory.ssh_config == str(config)
    monkeypatch.setenv(CONFIG_VARIABLE, str(config))
    assert resolve_hosts("ssh-config:web?,db") == inventory


@needs_ssh
def test_a_name_without_a_host_line_is_taken_as_it_is(config: Path) -> None:
    assert from_ssh_config("10.1.0.77", file=config).host[0].address == "10.1.0.77"


@pytest.mark.parametrize(
    ("text", "match", "message"),
    [
        ("Host a\n", "z*", "no Host line matches `z*`"),
        ('Host "a\n', "*", "line 1: has an unclosed quote"),
        ("Host a\n", "", "needs a pattern"),
        ("Include {path}\n", "*", "includes too many levels"),
        ("Include **x\n", "*", "no Host line matches"),
        ("Include ~nouser/x\n", "*", "no Host line matches"),
        ("Host a\n  HostName b\0c\n", "a", "line 2: holds a NUL character"),
        pytest.param("Host a\n  Porty 7\n", "a", "Bad configuration option: porty", marks=needs_ssh),
        pytest.param("Host a\n  HostName x.invalid\n", "a", "Host a: `x.invalid` does not resolve", marks=needs_ssh),
        pytest.param("Host a b\n  HostName 10.1.0.1\n", "*", "Host b: `b` and `a` are both 10.1.0.1", marks=needs_ssh),
    ],
)
def test_errors_are_one_line(tmp_path: Path, text: str, match: str, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(text.replace("{path}", str(path)))
    with pytest.raises(GavotteError) as raised:
        from_ssh_config(match, file=path)
    assert message in str(raised.value)
    assert raised.value.hint
    assert "\n" not in str(raised.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(GavotteError, match="no such file"):
        from_ssh_config("*", file=tmp_path / "none")


@given(st.text(alphabet='Hostincldeu "=\n#*?!\\ab', max_size=80) | st.text(max_size=40))
def test_fuzz(text: str) -> None:
    try:
        names = aliases(text, "config")
    except GavotteError as error:
        assert "\n" not in str(error)
    else:
        assert not any(set(name) & set("*?!") or name.startswith("-") for name in names)
