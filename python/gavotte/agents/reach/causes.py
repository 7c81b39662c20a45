"""Explain in one line why a host cannot be reached: the message of ssh, the host or TLS, and what to do about it."""

from __future__ import annotations

import re

_SSH: tuple[tuple[str, str], ...] = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key has changed; find out why, then renew it in known_hosts"),
    (r"Host key verification failed", "its host key is not known; connect once with `{ssh}` and check it"),
    (r"UNPROTECTED PRIVATE KEY FILE", "ssh ignores a private key that others can read; give it mode 600"),
    (r"Permission denied \(([^)]*)\)", "permission denied ({0}); make `{ssh} true` work without a question"),
    (r"Too many authentication failures", "too many authentication failures; choose one with IdentityFile"),
    (r"Could not resolve hostname (\S+): ([^\n\r]+)", "no address for {0} ({1}); correct the name"),
    (r"Connection refused", "connection refused; is an SSH server up at that port?"),
    (r"(?:Connection|Operation) timed out", "timed out; is it up, and does a firewall let SSH through?"),
    (r"(No route to host|Network is unreachable)", "{0}; check its address"),
    (r"Timeout, server [^\n]* not responding", "no longer answers"),
    (r"No space left on device", "no space left for the agent in its cache folder"),
    (r"data port[^\n]*ddress (?:already )?in use", "its data port is in use; is another run using the host?"),
    (r"Connection (?:to \S+ )?(?:closed|reset)|kex_exchange_identification", "its SSH server closed the connection"),
    (r"(Bad configuration option[^\n\r]*|Bad owner or permissions[^\n\r]*)", "{0}"),
)

NO_FORWARD = "its SSH server does not forward Unix sockets; it needs `AllowStreamLocalForwarding yes`"
"""The reason when a channel fails to open though the agent listens."""

_TLS: tuple[tuple[str, str], ...] = (
    (
        r"Hostname Verification|Peer name .* is not in peer certificate",
        "its certificate is not for {place}; create one with `gavotte hosts keys`",
    ),
    (r"certificate has expired|CERTIFICATE_EXPIRED", "a certificate has expired; renew it with `gavotte hosts keys`"),
    (r"CERTIFICATE_VERIFY_FAILED", "its certificate is from another authority than that of {keys}"),
    (
        r"ALERT_(?:CERTIFICATE_REQUIRED|UNKNOWN_CA|BAD_CERTIFICATE|DECRYPT_ERROR|CERTIFICATE_UNKNOWN|ACCESS_DENIED)|"
        # With TLS 1.3 a client is done before the server checks its certificate; gRPC calls the alert garbage.
        r"alert.*(?:unknown ca|certificate|decrypt)|TSI_DATA_CORRUPTED",
        "it rejects this controller's certificate; use the keys that were created with its own",
    ),
    (r"WRONG_VERSION_NUMBER|HTTP_REQUEST|Cannot check peer", "what listens there does not speak TLS"),
    (r"Connection refused", "connection refused; is its agent up with --tls?"),
    (r"No route to host|Network is unreachable", "no route to it; check its address"),
    (r"imed out|FD shutdown|Deadline", "timed out; is it up, and does a firewall let the port through?"),
    (r"(?:DNS resolution|Domain name|Name or service)[^\n]*", "no address for {place}; correct the name"),
)

LONGEST = 200


def ssh_cause(stderr: str, *, destination: str, status: int | None) -> str:
    """Return in one line why ssh, or the program that it ran, ended.

    Args:
        stderr: all of stderr.
        destination: as a user would type it.
        status: exit status; None while it runs.
    """
    cause = _matched(_SSH, stderr, ssh=f"ssh {destination}")
    if cause is not None:
        return cause
    last = last_line(stderr)
    if status == 255 or status is None:
        return f"ssh failed: {last}" if last else "ssh failed without a message"
    how = f"was killed by signal {status - 128}" if 128 < status < 192 else f"exited with status {status}"
    return f"its agent {how}" + (f": {last}" if last not in ("", "Killed") else "")


def tls_cause(details: str, *, place: str, keys: str) -> str | None:
    """Return in one line why a TLS connection failed; None when the text is about something else.

    Args:
        details: gRPC's details.
        place: host and port.
        keys: the folder of this controller's keys.
    """
    return _matched(_TLS, details, place=place, keys=keys)


def last_line(text: str) -> str:
    """Return the last line that is not empty, printable and not too long."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    messages = [line for line in lines if line and not line.startswith("Warning: Permanently added")]
    last = messages[-1] if messages else ""
    return "".join(letter for letter in last if letter.isprintable())[:LONGEST]


def _matched(table: tuple[tuple[str, str], ...], text: str, **words: str) -> str | None:
    for pattern, cause in table:
        match = re.search(pattern, text)
        if match:
            return cause.format(*(last_line(group or "") for group in match.groups()), **words)
    return None
