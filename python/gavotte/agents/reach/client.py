"""The system's ssh client: its path, and options that keep a user's own settings from doing harm."""

from __future__ import annotations

import os
import shutil

from gavotte.errors import UnsupportedError
from gavotte.formats.parts.routes import SshRoute

CONFIG_VARIABLE = "GAVOTTE_SSH_CONFIG"
"""Environment variable that names an ssh configuration to use instead of the user's own."""

CONNECT_LIMIT_S = 10
"""Limit for the TCP connection and the greeting of one SSH server."""

ALIVE_INTERVAL_S = 10
ALIVE_MISSES = 3
"""A connection is given up when the server has not answered for 30 s. Trains fill queues for a shorter time."""

_SETTINGS = {
    "BatchMode": "yes",
    "ConnectTimeout": CONNECT_LIMIT_S,
    "ServerAliveInterval": ALIVE_INTERVAL_S,
    "ServerAliveCountMax": ALIVE_MISSES,
    # Use a connection that the user holds (a way past a second factor), but never leave one behind.
    "ControlMaster": "no",
    # A port that the user forwards may be in use already. Whether our own forward works shows on disk.
    "ExitOnForwardFailure": "no",
    "ForkAfterAuthentication": "no",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "LogLevel": "INFO",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "SessionType": "default",
    "StdinNull": "no",
    "StreamLocalBindMask": "0177",
    "StreamLocalBindUnlink": "yes",
}


def ssh_program() -> str:
    """Find the client.

    Raises:
        UnsupportedError: when it is not installed.
    """
    program = shutil.which("ssh")
    if program is None:
        raise UnsupportedError("`ssh` is not installed", hint="install OpenSSH's client")
    return program


def config_file() -> str | None:
    """Return the configuration to use instead of the user's own, if one is named."""
    return os.environ.get(CONFIG_VARIABLE) or None


def ssh_line(route: SshRoute, config: str | None, *extra: str) -> list[str]:
    """Return the client's command line up to and including the destination.

    Args:
        route: the host to connect to.
        config: configuration file; None = the user's own.
        *extra: further options.
    """
    line = [ssh_program(), "-T", *(["-F", config] if config else [])]
    for key, value in _SETTINGS.items():
        line += ["-o", f"{key}={value}"]
    if route.port is not None:
        line += ["-p", str(route.port)]
    if route.user is not None:
        line += ["-l", route.user]
    return [*line, *extra, "--", route.host]
