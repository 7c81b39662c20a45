"""What runs on a host before its agent does, as one line for whatever login shell there is.

The line asks for the agent's bytes on stdin only when the file of this version is not there or its SHA-256 is another
one; checks them; and starts the agent with the rest of stdin as its lifeline. Every step is told on stdout behind
`MARK`, so that what login scripts print does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping

from gavotte.agents.binary import Binary

MARK = "gavotte-agent: "
"""Begins each line that is meant for the controller; the agent itself says `ready` behind it."""

LIFELINE_S = 60
"""The agent ends when stdin does, or has brought nothing for so long: its controller is cut off."""

_KEEP_DAYS = 30


def remote_line(binaries: Mapping[str, Binary], *, socket: str, data_port: int, start: bool) -> str:
    """Returns the command for ssh.

    Args:
        binaries: agents by architecture.
        socket: where the agent shall listen, a path that needs no quoting.
        data_port: of its data plane.
        start: whether to start the agent, or only to install it.
    """
    kinds = [
        f"{machine}) name={binary.file_name} want={binary.sha256} size={len(binary.content)};;"
        for machine, binary in binaries.items()
    ]
    steps = [
        "umask 077",
        f'say() {{ echo "{MARK}$*"; }}',
        'sum() { sha256sum "$1" 2>/dev/null | cut -c 1-64; }',
        "machine=$(uname -m)",
        f"case $machine in {' '.join(kinds)} *) say machine $machine; exit 1;; esac",
        "command -v sha256sum >/dev/null || { say lacks sha256sum; exit 1; }",
        'dir="${XDG_CACHE_HOME:-$HOME/.cache}/gavotte"',
        'bin="$dir/$name"',
        f'if [ "$(sum "$bin")" = $want ]; then say has $machine; else {_receive()}; fi',
    ]
    if start:
        steps += [
            "say starts $SSH_CONNECTION",
            f'"$bin" serve --socket {socket} --data-port {data_port} --lifeline {LIFELINE_S}',
            "code=$?",
            f"rm -f {socket}",
            "exit $code",
        ]
    line = "; ".join(steps)
    # These letters mean something inside single quotes to one shell or another.
    assert not set(line) & set("'\\!\n"), "the line must survive csh and fish"
    return f"exec sh -c '{line}'"


def _receive() -> str:
    return "; ".join(
        [
            "say wants $machine",
            'mkdir -p "$dir" || exit 1',
            f'find "$dir" -name "*gavotte-agent-*" -mtime +{_KEEP_DAYS} -exec rm -f {{}} + 2>/dev/null',
            'new="$dir/.gavotte-agent-$$"',
            'head -c $size > "$new"',
            'got=$(sum "$new")',
            '[ "$got" = $want ] || { rm -f "$new"; say mismatch $got; exit 1; }',
            'chmod 700 "$new" && mv -f "$new" "$bin" || exit 1',
        ]
    )
