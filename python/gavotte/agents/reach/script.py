"""The command that prepares a host and starts its agent, as one line that any login shell accepts.

1. The line looks for a folder that can be written and whose programs may be run: the user's cache, then the others of
   `FOLDERS`. `skips FOLDER: REASON` names each folder that cannot be used.
2. If the agent's file is missing in it, or has another SHA-256, the line asks for its bytes on stdin and checks them.
3. Where no folder will do, Python on the host keeps the agent in memory (`memfd_create`) and runs it from there.
4. The agent starts with the rest of stdin as its lifeline.

Every step is reported on stdout after `MARK`, so that the output of login scripts does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping

from gavotte.agents.binary import Binary

MARK = "gavotte-agent: "
"""Start of each line that is meant for the controller. The agent itself prints `ready` after it."""

LIFELINE_S = 60
"""The agent ends when stdin ends, or carries nothing for this long: its controller is cut off."""

MEMORY = "memory"
"""Written instead of the folder when the agent runs from memory."""

_KEEP_DAYS = 30

FOLDERS = (
    "${XDG_CACHE_HOME:-$HOME/.cache}/gavotte",
    "${XDG_RUNTIME_DIR:-/run/user/$uid}/gavotte",
    "/var/tmp/gavotte-$uid",
    "/tmp/gavotte-$uid",
    "/dev/shm/gavotte-$uid",
)
"""Folders that may hold the agent, best first."""

_SOCKET_FOLDERS = "/tmp ${XDG_RUNTIME_DIR:-/run/user/$uid} /var/tmp /dev/shm $HOME"

_MEMORY_PROGRAM = "; ".join(
    [
        "import os, sys, hashlib",
        "size, want, mark, name, start = sys.argv[1:6]",
        "content = sys.stdin.buffer.read(int(size))",
        "got = hashlib.sha256(content).hexdigest()",
        "got == want or sys.exit(print(mark, got) or 1)",
        "kept = os.memfd_create(name)",
        "os.write(kept, content) == len(content) or sys.exit(1)",
        "print(start, flush=True)",
        "os.execve(kept, sys.argv[6:], os.environ)",
    ]
)
"""Python program that receives the agent and runs it, for a host on which no folder will do."""


def remote_line(binaries: Mapping[str, Binary], *, socket: str, data_port: int, start: bool) -> str:
    """Return the command for ssh.

    Args:
        binaries: agents by architecture.
        socket: where the agent shall listen, a path that needs no quoting.
        data_port: port of its data plane.
        start: whether to start the agent, or only to install it.
    """
    kinds = [
        f"{machine}) name={binary.file_name} want={binary.sha256} size={len(binary.content)};;"
        for machine, binary in binaries.items()
    ]
    folders = " ".join(f'"{folder}"' for folder in FOLDERS)
    serve = f"serve --socket {socket} --data-port {data_port} --lifeline {LIFELINE_S}"
    steps = [
        "umask 077",
        f'say() {{ echo "{MARK}$*"; }}',
        'sum() { sha256sum "$1" 2>/dev/null | cut -c 1-64; }',
        "machine=$(uname -m)",
        f"case $machine in {' '.join(kinds)} *) say machine $machine; exit 1;; esac",
        "command -v sha256sum >/dev/null || { say lacks sha256sum; exit 1; }",
        "uid=$(id -u)",
    ]
    if start:
        steps.append(_find_socket_folder(socket))
    steps += [
        _CHECKS,
        "at= has=",
        f"for dir in {folders}; do {_LOOK}; done",
        'bin="$at/$name"',
        'if [ "$has" = y ]; then say has $machine $at; '
        f'elif [ -n "$at" ]; then {_receive()}; '
        f"else {_run_from_memory(serve, start=start)}; fi",
    ]
    if start:
        steps += [
            "say starts $SSH_CONNECTION",
            f'"$bin" {serve}',
            "code=$?",
            f"rm -f {socket}",
            "exit $code",
        ]
    line = "; ".join(steps)
    # These letters mean something inside single quotes to one shell or another.
    assert not set(line) & set("'\\!\n"), "the line must survive csh and fish"
    return f"exec sh -c '{line}'"


IS_MINE = 'mine() { case "$1" in */gavotte-$uid) [ -O "$1" ] || return 1; [ -L "$1" ] && return 1; return 0;; esac; }'
"""Shell function: other users may write to the parent folders of those with a user id in their name."""

_CHECKS = "; ".join(
    [
        IS_MINE,
        'runs() { "$1/$name" --version </dev/null >/dev/null 2>&1; [ $? -ne 126 ]; }',
        'holds() { mine "$1" && [ "$(sum "$1/$name")" = $want ] && runs "$1"; }',
        'try() { { echo exit 0 > "$1"; } 2>/dev/null || { why="cannot be written"; return 1; }; '
        # A file without an interpreter line is run by the shell itself, unless the kernel forbids running it.
        'chmod 700 "$1"; ("$1") 2>/dev/null || { why="is mounted noexec, or may not run programs"; return 1; }; '
        'head -c $size /dev/zero 2>/dev/null > "$1"; [ "$(wc -c < "$1")" -eq $size ] || '
        '{ why="lacks room for $size bytes"; return 1; }; }',
        'fits() { mkdir -p "$1" 2>/dev/null || { why="cannot be created"; return 1; }; '
        'mine "$1" || { why="belongs to another user"; return 1; }; '
        'try "$1/.try-$$"; code=$?; rm -f "$1/.try-$$"; return $code; }',
    ]
)
"""Shell functions of the line: whether a folder is safe, holds a copy that runs, or has room for one."""

_LOOK = "; ".join(
    [
        'if holds "$dir"; then at="$dir" has=y; break; fi',
        'if fits "$dir"; then at="$dir"; break; fi',
        'say skips "$dir: $why"',
    ]
)


def _find_socket_folder(socket: str) -> str:
    """Return steps that end the line with `socket FOLDER` when the socket's own folder accepts no files."""
    free = 'mkdir "$1/$2" 2>/dev/null && rmdir "$1/$2"'
    own, _, name = socket.rpartition("/")
    return (
        f"free() {{ {free}; }}; free {own} {name}.try || {{ for dir in {_SOCKET_FOLDERS}; do "
        f'if free "$dir" {name}.try; then say socket "$dir"; exit 1; fi; done; '
        "say lacks-socket; exit 1; }"
    )


def _receive() -> str:
    return "; ".join(
        [
            "say wants $machine $at",
            f'find "$at" -name "*gavotte-agent-*" -mtime +{_KEEP_DAYS} -exec rm -f {{}} + 2>/dev/null',
            'new="$at/.gavotte-agent-$$"',
            'head -c $size > "$new"',
            'got=$(sum "$new")',
            '[ "$got" = $want ] || { rm -f "$new"; say mismatch $got; exit 1; }',
            'chmod 700 "$new" && mv -f "$new" "$bin" || exit 1',
        ]
    )


def _run_from_memory(serve: str, *, start: bool) -> str:
    has_python = 'python3 -c "import os; os.memfd_create" 2>/dev/null || { say nowhere; exit 1; }'
    if not start:
        return f"{has_python}; say has $machine {MEMORY}"
    run = (
        f'python3 -c "{_MEMORY_PROGRAM}" $size $want "{MARK}mismatch" $name '
        f'"{MARK}starts $SSH_CONNECTION" $name {serve}'
    )
    return f"{has_python}; say wants $machine {MEMORY}; exec {run}"
