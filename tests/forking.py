"""A process that has loaded the command and forks itself for each call.

Loading takes 0.4 s of processor time, a fork 0.02 s. Each call is still a process with its own arguments, environment,
folder, streams and exit status. It begins where Python's own script begins, after the imports. `Forks.fits` says which
calls need a fresh process instead.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

READ_WHEN_LOADED = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC", "OPENBLAS", "OMP_", "GRPC", "PYDANTIC", "GLIBC", "SSL_")
"""Beginnings of the names of variables that Python and libraries read when they are loaded."""

LEFT_OUT = ("gavotte.mpi", "gavotte.transfer.dask", "gavotte.campaign.drivers", "gavotte.store.parquetfile")
"""Modules that start threads or need optional packages. A fork loads them itself, as the command does."""

LIBRARIES = ("matplotlib.figure", "psycopg", "rich.console", "rich.progress", "rich.table", "scipy.special", "tomli_w")
"""Modules that verbs load where they need them."""


class Forks:
    """A process that forks itself for each call of the command."""

    def __init__(self) -> None:
        self._asking, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._loaded_with = _loading(os.environ)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-c", f"from tests.forking import serve; serve({theirs.fileno()})"],
                pass_fds=[theirs.fileno()],
                cwd=Path(__file__).parents[1],
                stdin=subprocess.DEVNULL,
            )

    def fits(self, env: Mapping[str, str]) -> bool:
        """Report whether a fork does in this environment what a fresh process does."""
        return _loading(env) == self._loaded_with

    def close(self) -> None:
        """End the process."""
        self._asking.close()
        self._server.wait()

    def run(
        self, line: Sequence[str], cwd: str | Path, env: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end; what it prints is captured as text.

        Raises:
            subprocess.TimeoutExpired: after the command was killed.
        """
        request = os.memfd_create("request")
        os.write(request, json.dumps([list(line), str(cwd), dict(env)]).encode())
        ends, theirs = socket.socketpair()
        pipes = [os.pipe() for _ in range(2)]
        given = [theirs.fileno(), request, 0, *(writer for _, writer in pipes)]
        socket.send_fds(self._asking, [b"run"], given)
        theirs.close()
        for fd in (request, *(writer for _, writer in pipes)):
            os.close(fd)
        printed: list[str] = ["", ""]

        def read(number: int) -> None:
            with open(pipes[number][0]) as stream:  # noqa: PTH123
                printed[number] = stream.read()

        readers = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(2)]
        for reader in readers:
            reader.start()
        with ends, ends.makefile() as answers:
            pid = int(answers.readline())
            ends.settimeout(timeout_s)
            try:
                status = int(answers.readline())
                for reader in readers:
                    reader.join(timeout_s)
                    if reader.is_alive():
                        raise TimeoutError
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(line), timeout_s, *printed) from None
        return subprocess.CompletedProcess(list(line), status, *printed)


def serve(number: int) -> NoReturn:
    """Fork for each request, and report the number and the status of each fork."""
    with socket.socket(fileno=number) as asking:
        _load()
        waiting: dict[int, tuple[int, socket.socket]] = {}
        poll = select.poll()
        poll.register(asking, select.POLLIN)
        while True:
            for ready, _ in poll.poll():
                if ready in waiting:
                    pid, end = waiting.pop(ready)
                    poll.unregister(ready)
                    os.close(ready)
                    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    with suppress(OSError), end:
                        end.sendall(f"{status}\n".encode())
                    continue
                message, fds, _, _ = socket.recv_fds(asking, 16, 5)
                if not message:
                    sys.exit()
                pid = os.fork()
                if pid == 0:
                    _become(*fds[1:])
                    asking.detach()
                    for _, end in waiting.values():
                        end.detach()
                    _run()
                for fd in fds[1:]:
                    os.close(fd)
                end = socket.socket(fileno=fds[0])
                with suppress(OSError):
                    end.sendall(f"{pid}\n".encode())
                handle = os.pidfd_open(pid)
                waiting[handle] = (pid, end)
                poll.register(handle, select.POLLIN)


def _loading(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_WHEN_LOADED)}


def _load() -> None:
    """Load what most verbs load."""
    import gavotte

    root = Path(gavotte.__file__).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not name.startswith(LEFT_OUT) and not name.endswith("_child"):
            import_module(name)
    for name in LIBRARIES:
        import_module(name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a module has started a thread, which forks would lack"
    gc.collect()
    gc.freeze()


def _run() -> NoReturn:
    """Run the command and end as Python does, except for freeing each of its objects: this takes as long as loading."""
    from gavotte.cli import main

    status = 1
    try:
        main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _become(request: int, *streams: int) -> None:
    """Make this fork what the request asks for."""
    with open(request) as file:
        file.seek(0)
        line, folder, env = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1024)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = line
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    # Without a buffer where the user wants none (PYTHONUNBUFFERED), as Python itself does.
    direct = isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.write_through
    streams_out = []
    for number, errors in ((1, "strict"), (2, "backslashreplace")):
        raw = io.FileIO(number, "w", closefd=False)
        buffer: Any = raw if direct else io.BufferedWriter(raw)
        streams_out.append(io.TextIOWrapper(buffer, errors=errors, line_buffering=number == 2, write_through=direct))
    sys.stdout, sys.stderr = streams_out
    random.seed()
