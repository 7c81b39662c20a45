"""Entry point: exit status, signals and error messages."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import sys
import threading
from typing import Any, NoReturn

import typer

from gavotte.cli import elapsed, signals
from gavotte.errors import GavotteError

DONE = 0
CANNOT = 1
USAGE = 2

UNWIND_S = 10.0
"""How long a signalled process may take to release agents and labs."""

NUMBERS = frozenset(
    ["simulate", "place", "sequence", "model", "history", "compare", "collective", "map", "export", "report", "config"]
)
"""Verbs that only compute and start no programs of users, so that their own environment may stay changed."""

SLIM = {"OPENBLAS_NUM_THREADS": "1", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""Variables that make verbs start 50 ms sooner: no linear algebra threads, no search for pydantic plugins.

Libraries read them when they are loaded. Verbs do too little linear algebra for a second thread.
"""

DEAF_S = 2.0
"""How long compiled code may keep Python from acting on a signal before the process leaves without it."""


class _Stopped(BaseException):
    """Raised when a signal asks to end, so that labs and agents are released on the way out."""

    def __init__(self, number: int) -> None:
        self.number = number


def main(collect_after: tuple[int, int, int]) -> NoReturn:
    """Run one verb and exit with its status: 0 done, 1 cannot be met or bad input, 2 usage, 128 + signal.

    Args:
        collect_after: thresholds of the garbage collector for verbs that may run for long, once they are loaded.
    """
    elapsed.begin()
    _open_streams()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    _watch_for_signals()
    status = _status(collect_after)
    with contextlib.suppress(BrokenPipeError, ValueError):
        sys.stdout.flush()
    # Python looks for garbage twice as it ends, among all objects of a large file, whose memory is freed in any case.
    gc.freeze()
    sys.exit(status)


def _open_streams() -> None:
    """Replace streams that the caller closed, so that no file or socket gets their numbers.

    What is printed on a closed stderr is lost. A closed stdout cannot be written, as with the commands of a shell.
    """
    for stream, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if opened != stream:
                os.dup2(opened, stream)
                os.close(opened)
            setattr(sys, name, os.fdopen(stream, "r" if name == "stdin" else "w", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        old, raw = sys.stdout, _Stdout(1, "w", closefd=False)
        # Without a buffer where the user wants none (PYTHONUNBUFFERED), as Python itself does.
        buffer: Any = raw if old.write_through else io.BufferedWriter(raw)
        sys.stdout = io.TextIOWrapper(
            buffer, old.encoding, old.errors, line_buffering=old.isatty(), write_through=old.write_through
        )


class _Stdout(io.FileIO):
    """Standard output whose errors name it, as those of files do."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "stdout") from None


def _status(collect_after: tuple[int, int, int]) -> int:
    computes = next((word for word in sys.argv[1:] if not word.startswith("-")), "") in NUMBERS
    own = {name: value for name, value in SLIM.items() if name not in os.environ}
    os.environ |= own
    if os.environ.get("_GAVOTTE_COMPLETE"):
        from gavotte.cli.completing import complete

        return complete()
    try:
        from gavotte.cli.verbs import command_for

        command = command_for(sys.argv[1:])
        if not computes:
            gc.set_threshold(*collect_after)
            # Programs that this verb starts must not inherit them.
            for name in own:
                del os.environ[name]
        result = command(standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else DONE
    except GavotteError as error:
        return _fail(f"{error}{_origin(str(error))}", CANNOT)
    except typer.TyperException as error:
        message = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(message, err=True)
            return USAGE
        return _fail(f"{message.removesuffix('.')}; {_example(error)}see --help", error.exit_code)
    except typer.Abort:
        return _fail("aborted", CANNOT)
    except _Stopped as stopped:
        return _fail(_how(stopped.number), 128 + stopped.number)
    except BrokenPipeError:
        # The reader (as in `| head`) has gone.
        _drop_output()
        return CANNOT
    except OSError as error:
        if error.filename == "stdout":
            _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", CANNOT)
    except MemoryError:
        return _fail("out of memory", CANNOT)


def _example(error: typer.TyperException) -> str:
    """Return the command's example if an option or argument is missing: it has all that the command needs."""
    context = getattr(error, "ctx", None)
    epilog = "" if context is None else context.command.epilog or ""
    if type(error).__name__ != "MissingParameter" or not epilog:
        return ""
    return f"use e.g. `{epilog.removeprefix('Example: ')}`, or "


def _origin(message: str) -> str:
    """Return which setting of a file an error is about, if a file has set any option."""
    if "gavotte.cli.settings.applying" not in sys.modules:
        return ""
    from gavotte.cli.settings.applying import origin

    return origin(message)


def _drop_output() -> None:
    """Drop what waits to be printed, where stdout accepts nothing more: the flush at exit must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _stop(number: int, _frame: object) -> NoReturn:
    """Unwind the stack once; a second signal, or `UNWIND_S` without an end, exits at once.

    An exception raised from a signal may land in foreign code that drops it. Exiting at once is safe: labs are tied
    to this process by the kernel, and agents free themselves when their budget ends.
    """
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(each, lambda *_: os._exit(128 + number))
    signal.setitimer(signal.ITIMER_REAL, UNWIND_S)
    raise _Stopped(number)


def _watch_for_signals() -> None:
    """End the process if the main thread is in compiled code and cannot act on a signal.

    Python runs handlers between its own instructions, and a simulation of a million flows is a single one. Python
    writes the number of a signal to a pipe at once. A thread reads the pipe, and finds `_stop` still installed if it
    has not run.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def watch() -> None:
        while number := os.read(reader, 1)[0]:
            standing = signal.getsignal(number) is _stop
            if standing and not signals.heard.wait(DEAF_S) and signal.getsignal(number) is _stop:
                _fail(_how(number), 128 + number)
                os._exit(128 + number)

    threading.Thread(target=watch, name="signals", daemon=True).start()


def _how(number: int) -> str:
    return "interrupted" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"


def _fail(message: str, status: int) -> int:
    with contextlib.suppress(OSError):
        if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
            typer.secho("error: ", err=True, nl=False, bold=True, fg=typer.colors.RED)
        else:
            typer.echo("error: ", err=True, nl=False)
        typer.echo(" ".join(message.split()), err=True)
    return status
