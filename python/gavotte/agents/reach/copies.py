"""The copies of the agent that hosts keep: which versions, where, and how they are removed, over SSH."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection
from dataclasses import dataclass

from gavotte.agents.binary import AGENT
from gavotte.agents.reach.causes import ssh_cause
from gavotte.agents.reach.client import CONNECT_LIMIT_S, ssh_line
from gavotte.agents.reach.script import FOLDERS, IS_MINE, MARK
from gavotte.errors import AgentError
from gavotte.formats.parts.routes import SshRoute

LIMIT_S = CONNECT_LIMIT_S + 30.0
"""Limit for one host: connection, login scripts, and `--version` of each copy."""

_COPY = re.compile(rf"{re.escape(MARK)}(kept|removed|stuck) (?:{AGENT} )?([\w.+-]*) at (/[^\x00-\x1f\x7f-\x9f]*)")
"""Of what a host prints, only this is shown: it may be hostile."""


@dataclass(frozen=True)
class Copy:
    """A file of the agent on a host.

    Attributes:
        path: the file.
        version: its version; empty = it does not run there.
        state: `kept`, `removed`, or `stuck` = it could not be removed.
    """

    path: str
    version: str
    state: str


def copies_line(keep: Collection[str] | None) -> str:
    """Return the command for ssh that lists the copies of the agent on a host, and removes some.

    Args:
        keep: names of files that stay; None = all stay.
    """
    kept = "*" if keep is None else "|".join(f"*/{name}" for name in sorted(keep)) or "none"
    folders = " ".join(f'"{folder}"' for folder in FOLDERS)
    state = f'case "$file" in {kept}) state=kept;; *) rm -f "$file" 2>/dev/null && state=removed || state=stuck;; esac'
    empty = ":" if keep is None else 'rmdir "$dir" 2>/dev/null'
    each = [
        '[ -f "$file" ] || continue',
        'version=$("$file" --version </dev/null 2>/dev/null)',
        state,
        'say "$state $version at $file"',
    ]
    steps = [
        "uid=$(id -u)",
        f'say() {{ echo "{MARK}$*"; }}',
        IS_MINE,
        f'for dir in {folders}; do mine "$dir" || continue; for file in "$dir"/{AGENT}-*; do {"; ".join(each)}; done; '
        f"{empty}; done",
        "say end",
    ]
    line = "; ".join(steps)
    assert not set(line) & set("'\\!\n"), "the line must survive csh and fish"
    return f"exec sh -c '{line}'"


def ask_copies(route: SshRoute, config: str | None, keep: Collection[str] | None = None) -> list[Copy]:
    """Return the copies of the agent on a host, after those that are not to be kept were removed.

    Args:
        route: the host.
        config: ssh configuration; None = the user's own.
        keep: names of files that stay; None = all stay.

    Raises:
        AgentError: when the host cannot be reached, with the reason.
    """
    line = [*ssh_line(route, config), copies_line(keep)]
    try:
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise AgentError(f"did not answer within {LIMIT_S:.0f} s") from None
    printed = done.stdout.decode(errors="replace").splitlines()
    if f"{MARK}end" not in printed:
        destination = f"{route.user}@{route.host}" if route.user else route.host
        raise AgentError(
            ssh_cause(done.stderr.decode(errors="replace"), destination=destination, status=done.returncode)
        )
    matches = (_COPY.fullmatch(text) for text in printed)
    return [Copy(match[3], match[2], match[1]) for match in matches if match]
