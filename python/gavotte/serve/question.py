"""What to serve, and who may ask."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import GavotteError

PORT = 8788
"""Default port. Clients of Topograph expect 49021."""

LOOPBACK = "127.0.0.1"

LEAST_PASSWORD = 12
"""Fewest characters of a password."""


@dataclass(frozen=True)
class ServeQuestion:
    """What to serve, and who may ask.

    Attributes:
        network: file of the Network.
        placement: file of a Placement that schedulers are to follow; None = none.
        apps: files of the Placement's Apps, whose bytes say which other host is next best.
        address: address to listen at. Other ones than loopback need TLS and a password.
        port: port to listen at; 0 = any free one.
        certificate: certificate for TLS, in PEM; None = no TLS.
        key: its private key.
        password_file: file with the password that clients must give by HTTP's basic authentication.
        label_nodes: whether to keep the labels of a Kubernetes cluster's nodes current.
        context: the cluster's context in the kubeconfig; empty = the current one, or the cluster of this process's pod.
    """

    network: Path
    placement: Path | None = None
    apps: Sequence[Path] = ()
    address: str = LOOPBACK
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None
    password_file: Path | None = None
    label_nodes: bool = False
    context: str = ""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can ask."""
        return ipaddress.ip_address(self.address).is_loopback

    def check(self) -> None:
        """Refuse what cannot be served.

        Raises:
            GavotteError: naming the field and a remedy.
        """
        try:
            ipaddress.ip_address(self.address)
        except ValueError:
            raise GavotteError(f"`{self.address}` is not an address", hint=f"use one such as {LOOPBACK}") from None
        if not 0 <= self.port <= 65535:
            raise GavotteError(f"{self.port} is not a port", hint="use 0 to 65535")
        if (self.certificate is None) != (self.key is None):
            raise GavotteError("TLS needs a certificate and its key", hint="give both")
        if not self.is_local and (self.certificate is None or self.password_file is None):
            raise GavotteError(
                f"others can reach {self.address}, so it needs TLS and a password",
                hint=f"give a certificate, its key and a password file, or serve at {LOOPBACK}",
            )
        if self.context and not self.label_nodes:
            raise GavotteError("a context is only used to label nodes", hint="add --label-nodes")
        if self.apps and self.placement is None:
            raise GavotteError("applications are only used with a Placement", hint="name the Placement")

    def password(self) -> str:
        """Return the password; empty = none is needed.

        Raises:
            GavotteError: when its file cannot be read, or has too short a password.
        """
        if self.password_file is None:
            return ""
        try:
            text = self.password_file.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "is not text"
            raise GavotteError(f"{self.password_file}: {reason}", hint="name a file with one password") from None
        if len(text) < LEAST_PASSWORD or "\n" in text:
            raise GavotteError(
                f"{self.password_file}: has no password of {LEAST_PASSWORD} characters or more on one line",
                hint="e.g. openssl rand -hex 16 > FILE",
            )
        return text
