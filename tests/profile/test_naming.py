from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gavotte.errors import FormatError, GavotteError
from gavotte.profile import parse_task, read_tasks


def test_a_hosts_file_keeps_its_order(tmp_path: Path) -> None:
    path = tmp_path / "ranks.hosts"
    path.write_text("# ranks\n10.0.0.2  rank-0 vm7  # first\n\nfd00:0::1\trank-1\n10.0.0.1 rank-0\n")
    assert list(read_tasks(path).items()) == [("10.0.0.2", "rank-0"), ("fd00::1", "rank-1"), ("10.0.0.1", "rank-0")]


def test_an_inventory_names_a_task_for_each_host(tmp_path: Path) -> None:
    path = tmp_path / "my.hosts.toml"
    hosts = "".join(f'[[host]]\nname = "vm{n}"\naddress = "10.0.0.{n}"\nagent = "unix:/run/{n}"\n' for n in (2, 1))
    path.write_text('format = "gavotte/hosts/1"\n' + hosts)
    assert list(read_tasks(path).items()) == [("10.0.0.2", "vm2"), ("10.0.0.1", "vm1")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10.0.0.1\n", "line 1: `10.0.0.1` has no name"),
        ("\nvm1 10.0.0.1\n", "line 2: `vm1` is not an IP address"),
        ("10.0.0.1 a\n10.0.0.1 b\n", "line 2: 10.0.0.1 is already `a`"),
        ("# nothing\n", "names no address"),
    ],
)
def test_mistakes_name_the_line(tmp_path: Path, text: Any, message: Any) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(FormatError, match=message):
        read_tasks(path)


def test_a_task_on_the_command_line() -> None:
    assert parse_task("rank-0=10.0.0.1") == ("10.0.0.1", "rank-0")
    assert parse_task("a=b=::ffff:10.0.0.1") == ("10.0.0.1", "a=b")
    for wrong in ("rank-0", "=10.0.0.1", "rank-0=", "rank-0=vm1"):
        with pytest.raises(GavotteError, match="does not name a task"):
            parse_task(wrong)
