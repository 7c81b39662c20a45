"""The entry point: exit status, signals, and how an error is told."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import NoReturn

import typer

from gavotte.errors import GavotteError

DONE = 0
CANNOT = 1
USAGE = 2

UNWIND_S = 10.0
"""What a signalled process may take to release agents and labs."""


class _Stopped(BaseException):
    """A signal asked to end; raised so that labs and agents are released on the way out."""

    def __init__(self, number: int) -> None:
        self.number = number


def main() -> NoReturn:
    """Runs one verb and leaves with its status: 0 done, 1 cannot be met or bad input, 2 usage, 128 + signal."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    status = _status()
    with contextlib.suppress(BrokenPipeError, ValueError):
        sys.stdout.flush()
    sys.exit(status)


def _status() -> int:
    try:
        from gavotte.cli.verbs import command_for

        result = command_for(sys.argv[1:])(standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else DONE
    except GavotteError as error:
        return _told(str(error), CANNOT)
    except typer.TyperException as error:
        message = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(message, err=True)
            return USAGE
        return _told(f"{message.removesuffix('.')}; see --help", error.exit_code)
    except typer.Abort:
        return _told("aborted", CANNOT)
    except _Stopped as stopped:
        how = "interrupted" if stopped.number == signal.SIGINT else f"stopped by {signal.Signals(stopped.number).name}"
        return _told(how, 128 + stopped.number)
    except BrokenPipeError:
        # The reader (as in `| head`) has gone; what Python flushes at exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CANNOT
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _told(f"{where}{error.strerror or error}", CANNOT)
    except MemoryError:
        return _told("out of memory", CANNOT)


def _stop(number: int, _frame: object) -> NoReturn:
    """Unwinds the stack once; a second signal, or `UNWIND_S` without an end, leaves at once.

    An exception raised from a signal may land in foreign code that drops it. Leaving at once is safe: labs are tied
    to this process by the kernel, and agents free themselves when their budget ends.
    """
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(each, lambda *_: os._exit(128 + number))
    signal.setitimer(signal.ITIMER_REAL, UNWIND_S)
    raise _Stopped(number)


def _told(message: str, status: int) -> int:
    with contextlib.suppress(OSError):
        if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
            typer.secho("error: ", err=True, nl=False, bold=True, fg=typer.colors.RED)
        else:
            typer.echo("error: ", err=True, nl=False)
        typer.echo(" ".join(message.split()), err=True)
    return status
