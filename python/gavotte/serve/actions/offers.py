"""Offer the command lines that pages can start. A page names an offer and its subject, never the words of a command."""

from __future__ import annotations

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
        hosts, network, guarantee = question.hosts, question.network, question.guarantee
        self._makers: dict[str, Callable[[str], Offer | None]] = {"cancel": self._cancel}
        if stored is not None:
            self._makers["launch"] = self._launch
        if hosts:
            to_hosts = ["--hosts", hosts]
            self._fixed("check", "Check the hosts", ["hosts", "check", *to_hosts])
            self._fixed("slow", "Find slow hosts", ["hosts", "slow", *to_hosts])
            if stored is not None:
                self._makers["measure"] = self._measure
            if network is not None:
                known = str(network)
                if stored is not None:
                    words = ["transfers", "serve", *to_hosts, "--network", known, *self._socket()]
                    self._fixed("carry", "Carry out queued transfers", words, in_store=True)
                self._fixed("watch", "Watch the network", ["watch", known, *to_hosts], in_store=stored is not None)
            if guarantee is not None:
                self._fixed("apply", "Apply the guarantees", ["guarantee", "apply", str(guarantee), *to_hosts])
            self._fixed("clear", "Remove all guarantees", ["guarantee", "clear", *to_hosts])

    def names(self) -> list[str]:
        """Return the names of offers without a subject."""
        return [name for name in self._makers if name not in ("cancel", "launch", "measure")]

    def get(self, name: str, subject: str = "") -> Offer | None:
        """Return an offer; None = this server has none of the name, or none for the subject.

        Args:
            name: `measure`, `check`, `slow`, `watch`, `carry`, `cancel`, `launch`, `apply` or `clear`.
            subject: the network's name for `measure`, the transfer's number for `cancel`, and the job's key for
                `launch`; empty for all others.
        """
        make = self._makers.get(name)
        return None if make is None else make(subject)

    def _fixed(self, name: str, title: str, words: list[str], *, in_store: bool = False) -> None:
        offer = self._in_store(title, words) if in_store else Offer(title, words)
        self._makers[name] = lambda subject: None if subject else offer

    def _in_store(self, title: str, words: Sequence[str], after: Sequence[str] = (), folder: str = "") -> Offer:
        """Return an offer that uses the served store. A URL that may have a password goes into a variable."""
        assert self._stored is not None
        url, name = self._question.store or "", self._stored.name
        if not url:
            return Offer(title, [*words, *after], folder=folder)
        if "://" in url:
            return Offer(title, [*words, *after], {STORE: url}, {STORE: name}, folder)
        return Offer(title, [*words, "--store", str(Path(url).absolute()), *after], folder=folder)

    def _socket(self) -> list[str]:
        return [] if self._question.socket is None else ["--socket", str(self._question.socket)]

    def _measure(self, series: str) -> Offer | None:
        if not 0 < len(series) <= MOST_NAME or not series.isprintable():
            return None
        return self._in_store("Measure", ["measure", "--hosts", self._question.hosts, f"--series={series}"])

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
        hosts = ["--hosts", self._question.hosts] if self._question.hosts else []
        return self._in_store("Run it again", ["launch", *hosts], ["--", *typed], job.folder)
