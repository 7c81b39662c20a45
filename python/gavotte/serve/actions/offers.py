"""Offer the command lines that pages can start. A page names an offer and its subject, never the words of a command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gavotte.errors import GavotteError

if TYPE_CHECKING:
    from gavotte.serve.pages.catalogue import Catalogue
    from gavotte.serve.question import ServeQuestion

STORE = "GAVOTTE_STORE"
MOST_NAME = 128
"""Most characters of a subject."""


@dataclass(frozen=True)
class Offer:
    """A command line that can be started.

    Attributes:
        title: words of its button.
        words: the command line after `gavotte`.
        variables: environment variables that it needs.
        shown: those of them that people may see.
        folder: where it starts; empty = the server's own folder.
    """

    title: str
    words: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    @property
    def line(self) -> str:
        """The command line as a shell would read it, without any password."""
        before = [f"{name}={shlex.quote(value)}" for name, value in self.shown.items()]
        return " ".join([*before, "gavotte", shlex.join(self.words)])


class Offers:
    """All offers of a server.

    Args:
        question: what the server was given: offers about hosts need hosts, and so on.
        stored: the served store; None = no store is served.
    """

    def __init__(self, question: ServeQuestion, stored: Catalogue | None) -> None:
        self._question = question
        self._stored = stored
        self._hosts = ["--hosts", _absolute(question.hosts)] if question.hosts else []
        self._makers: dict[str, Callable[[str], Offer | None]] = {"cancel": self._cancel}
        if stored is not None:
            self._makers["launch"] = self._launch
            if question.hosts:
                self._makers["measure"] = self._measure
        self.fixed = self._without_subject() if question.hosts else {}
        """The offers that need no subject, by name."""

    @property
    def can_measure(self) -> bool:
        """Whether a network of any name can be measured."""
        return "measure" in self._makers

    def get(self, name: str, subject: str = "") -> Offer | None:
        """Return an offer; None = this server has none of the name, or none for the subject.

        Args:
            name: `measure`, `check`, `slow`, `watch`, `carry`, `cancel`, `launch`, `apply` or `clear`.
            subject: the network's name for `measure`, the transfer's number for `cancel`, and the job's key for
                `launch`; empty for all others.
        """
        if name in self._makers:
            return self._makers[name](subject)
        return None if subject else self.fixed.get(name)

    def _without_subject(self) -> dict[str, Offer]:
        hosts, network, guarantee = self._hosts, self._question.network, self._question.guarantee
        offers = {
            "check": Offer("Check the hosts", ["hosts", "check", *hosts]),
            "slow": Offer("Find slow hosts", ["hosts", "slow", *hosts]),
        }
        if network is not None:
            watch = ["watch", str(network), *hosts]
            if self._stored is None:
                offers["watch"] = Offer("Watch the network", watch)
            else:
                offers["watch"] = self._in_store("Watch the network", watch)
                carry = ["transfers", "serve", *hosts, "--network", str(network), *self._socket()]
                offers["carry"] = self._in_store("Carry out queued transfers", carry)
        if guarantee is not None:
            offers["apply"] = Offer("Apply the guarantees", ["guarantee", "apply", str(guarantee), *hosts])
        offers["clear"] = Offer("Remove all guarantees", ["guarantee", "clear", *hosts])
        return offers

    def _in_store(self, title: str, words: Sequence[str], after: Sequence[str] = (), folder: str = "") -> Offer:
        """Return an offer that uses the served store. A URL that may have a password goes into a variable."""
        assert self._stored is not None
        url = self._question.store or os.environ.get(STORE, "")
        if not url:
            return Offer(title, [*words, *after], folder=folder)
        file = url.removeprefix("sqlite:///")
        if "://" in file:
            return Offer(title, [*words, *after], {STORE: url}, {STORE: self._stored.name}, folder)
        return Offer(title, [*words, "--store", str(Path(file).absolute()), *after], folder=folder)

    def _socket(self) -> list[str]:
        return [] if self._question.socket is None else ["--socket", str(self._question.socket)]

    def _measure(self, series: str) -> Offer | None:
        if not 0 < len(series) <= MOST_NAME or not series.isprintable():
            return None
        return self._in_store("Measure", ["measure", *self._hosts, f"--series={series}"])

    def _cancel(self, transfer: str) -> Offer | None:
        if not transfer.isascii() or not transfer.isdecimal() or len(transfer) > MOST_NAME:
            return None
        return Offer("Cancel", ["transfers", "cancel", transfer, *self._socket()])

    def _launch(self, key: str) -> Offer | None:
        """Return the newest run's command line, as it was typed; None = it is not known."""
        assert self._stored is not None
        try:
            job = self._stored.job(key)
            typed = shlex.split(job.typed)
        except (GavotteError, ValueError):
            return None
        if not typed:
            return None
        return self._in_store("Run it again", ["launch", *self._hosts], ["--", *typed], job.folder)


def _absolute(hosts: str) -> str:
    """Return hosts that mean the same in any folder: `my.hosts.toml`, `mpi:hostfile` or others that name a file."""
    kind, colon, name = hosts.rpartition(":")
    file = Path(name)
    return f"{kind}{colon}{file.absolute()}" if file.is_file() else hosts
