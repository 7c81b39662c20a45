"""A job, and the key by which the store knows it again: its program, arguments and number of ranks."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

KEY_DIGITS = 12
"""Hexadecimal digits of a key. Two of a million jobs have the same with a chance of 1 in 500."""


@dataclass(frozen=True)
class Job:
    """A job.

    Attributes:
        program: the program and its arguments, as the user wrote them.
        ranks: number of ranks; number of hosts if the launcher is started on each of them.
        options: options of the launcher that make another job of the same program.
    """

    program: Sequence[str]
    ranks: int
    options: Sequence[str] = ()

    @property
    def key(self) -> str:
        """The key: a hash of the program's path, its arguments and the number of ranks."""
        named = [_located(self.program[0]), *self.program[1:], self.ranks]
        text = json.dumps([*named, list(self.options)] if self.options else named)
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:KEY_DIGITS]

    @property
    def text(self) -> str:
        """The program and its arguments as a shell would read them, for people."""
        return text_of(self.program)


def text_of(words: Sequence[str]) -> str:
    """Return words as a shell would read them, without what a store cannot hold."""
    return shlex.join(words).encode("utf-8", "replace").decode().replace("\0", "")


def _located(program: str) -> str:
    """Return the path of a program; its name where this machine does not have it."""
    path = shutil.which(program)
    return program if path is None else str(Path(path).absolute())
