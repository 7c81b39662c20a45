"""Runs commands on damaged files until the time is over, and prints the defects.

These are defects:

- an exception that no verb foresees, or an end by a signal;
- an exit status other than 0, 1 and 2, but for verdicts (3, 4) of verbs that compare, or a second error line;
- a control character on the terminal, or more than a minute.

The files of a defect are kept, with the line that shows it again.
"""

from __future__ import annotations

import argparse
import gc
import io
import os
import random
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NoReturn

from tests.fuzzing.cases import COMMANDS, reader_of, write
from tests.fuzzing.mutate import damaged
from tests.shell import one_line_of_error

from gavotte.errors import GavotteError

KEPT = Path("fuzz/target/commands")
FILES = 500
COMMANDS_EACH = 25
LIMIT_S = 60
MEMORY_BYTES = 6 << 30


class _Late(BaseException):
    """Raised when a command takes too long."""


def attempt(words: list[str]) -> tuple[int, str, str]:
    """Run one command in this process; return its status, output, and defect (empty = none)."""
    from gavotte.cli import entry

    def late(*_: object) -> None:
        raise _Late

    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["gavotte", *words]
    signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT_S)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            status = entry._status(gc.get_threshold())
    except _Late:
        return 1, err.getvalue(), f"more than {LIMIT_S} s"
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        return 1, err.getvalue(), traceback.format_exc()
    finally:
        signal.alarm(0)
    output = err.getvalue()
    compares = bool({"compare", "diff"} & set(words[:2]))
    if status not in ((0, 1, 2, 3, 4) if compares else (0, 1, 2)):
        return status, output, f"status {status}"
    if status in (1, 2) and not one_line_of_error(words, output):
        return status, output, "not one line of error"
    if "out of memory" in output:
        return status, output, "a small file takes all memory"
    raw = [letter for letter in output + out.getvalue() if not letter.isprintable() and letter != "\n"]
    return status, output, f"control character {raw[0]!r}" if raw else ""


def read(name: str) -> str:
    """Read one file by the reader of its kind; return the defect (empty = none)."""

    def late(*_: object) -> None:
        raise _Late

    signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT_S)
    try:
        reader_of(name)(name)
    except GavotteError as error:
        if not str(error).isprintable():
            return f"control character in {error!s:.80}"
    except _Late:
        return f"more than {LIMIT_S} s"
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.alarm(0)
    return ""


def nowhere(*_: object, **__: object) -> NoReturn:
    """Resolve no name: no server is asked for damaged ones."""
    raise socket.gaierror(socket.EAI_NONAME, "not asked")


def batch(seed: int, folder: Path, pipe: int) -> None:
    """Run some inputs in a process of its own, which reports before (`?`) and after each through a pipe."""
    os.chdir(folder)
    # These limits keep every input from filling the machine's disk or memory.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    sound = {each.name: each.read_bytes() for each in Path("sound").iterdir()}
    rng = random.Random(seed)
    socket.getaddrinfo = nowhere
    with os.fdopen(pipe, "w", buffering=1) as tell:
        shutil.rmtree("run", ignore_errors=True)
        shutil.copytree("sound", "run")
        os.chdir("run")
        for _ in range(FILES):
            victim = rng.choice(sorted(sound))
            content = damaged(sound[victim], victim, rng)
            Path(victim).write_bytes(content)
            if wrong := read(victim):
                os.chdir("..")
                keep(f"(reads {victim})", wrong, "")
                os.chdir("run")
                tell.write(f"X reads {victim}: {wrong.strip().splitlines()[-1]}\n")
        os.chdir("..")
        tell.write(f"N {FILES}\n")
        for _ in range(COMMANDS_EACH):
            shutil.rmtree("run", ignore_errors=True)
            shutil.copytree("sound", "run")
            command = rng.choice(COMMANDS)
            touched = [
                name for name in sound if any(name.startswith(word.split(":")[-1]) for word in command.split()[1:])
            ]
            if touched:
                victim = rng.choice(touched)
                (Path("run") / victim).write_bytes(damaged(sound[victim], victim, rng))
            tell.write(f"? {command}\n")
            os.chdir("run")
            status, message, wrong = attempt(command.split())
            os.chdir("..")
            last = message.strip().splitlines()[-1:] or [""]
            tell.write(f"! {status} {command.split()[0]}\n")
            if wrong:
                keep(command, wrong, last[0])
                tell.write(f"X {command}: {wrong.strip().splitlines()[-1]}\n")


def keep(command: str, wrong: str, message: str) -> None:
    """Keep a defect's files."""
    place = Path(os.environ["GAVOTTE_FUZZ_KEPT"]) / f"{time.time_ns()}"
    shutil.copytree("run", place)
    (place / "WHY.txt").write_text(f"gavotte {command}\n\n{message}\n\n{wrong}\n")


def main() -> int:
    """Run the fuzzer; the exit status is 1 if there are defects."""
    parser = argparse.ArgumentParser(description="Run commands on damaged files.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    wanted = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    os.environ |= {"GAVOTTE_FUZZ_KEPT": str(KEPT.absolute()), "NO_COLOR": "1", "COLUMNS": "100"}
    print(f"fuzzing: seed {wanted.seed}, {wanted.seconds:.0f} s", flush=True)
    ends = time.monotonic() + wanted.seconds
    counts: Counter[tuple[str, str]] = Counter()
    defects: list[str] = []
    with tempfile.TemporaryDirectory(prefix="gvf-") as name:
        folder = Path(name)
        os.environ["GAVOTTE_RUNTIME_DIR"] = str(folder / "runtime")
        (folder / "sound").mkdir()
        write(folder / "sound")
        import gavotte.cli.verbs  # noqa: F401 - once, for all that are forked

        number = files = 0
        while time.monotonic() < ends:
            seed = wanted.seed + number
            number += 1
            ear, mouth = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(ear)
                try:
                    batch(seed, folder, mouth)
                finally:
                    os._exit(0)
            os.close(mouth)
            command = ""
            with os.fdopen(ear) as heard:
                for line in heard:
                    kind, _, rest = line.rstrip("\n").partition(" ")
                    if kind == "?":
                        command = rest
                    elif kind == "N":
                        files += int(rest)
                    elif kind == "!":
                        status, _, verb = rest.partition(" ")
                        counts[verb, status] += 1
                        command = ""
                    else:
                        defects.append(rest)
                        print(f"defect: {rest}", flush=True)
                    if time.monotonic() > ends and not command:
                        os.kill(child, signal.SIGKILL)
                        break
            _, end = os.waitpid(child, 0)
            if command and not (os.WIFSIGNALED(end) and time.monotonic() > ends):
                defects.append(f"{command}: ended by {end}")
                print(f"defect: {defects[-1]} (seed {seed})", flush=True)
    verbs = sorted({verb for verb, _ in counts})
    print(f"{'verb':<12}{'done':>9}{'refused':>9}{'usage':>9}")
    for verb in verbs:
        print(f"{verb:<12}" + "".join(f"{counts[verb, status]:>9}" for status in "012"))
    print(f"{files} files, {sum(counts.values())} commands, {len(defects)} defects, seed {wanted.seed}")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
