"""The system's ssh client: which, and how it is called so that a user's own settings do no harm."""

from __future__ import annotations

import os
import shutil

from gavotte.errors import UnsupportedError
from gavotte.formats.routes import SshRoute

CONFIG_VARIABLE = "GAVOTTE_SSH_CONFIG"
"""Environment variable that names an ssh configuration to use instead of the user's own."""

CONNECT_LIMIT_S = 10
"""For the TCP connection and the greeting of one SSH server."""

ALIVE_INTERVAL_S = 10
ALIVE_MISSES = 3
"""A connection is given up when the server has not answered for 30 s: trains fill queues, but not so long."""

_SETTINGS = {
    "BatchMode": "yes",
    "ConnectTimeout": CONNECT_LIMIT_S,
    "ServerAliveInterval": ALIVE_INTERVAL_S,
    "ServerAliveCountMax": ALIVE_MISSES,
    # Joins a connection that the user holds (the way past a second factor), but never leaves one behind.
    "ControlMaster": "no",
    # A forward of the user's own may be taken already; whether ours stands is seen on disk.
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
    """Finds the client.

    Raises:
        UnsupportedError: when it is not installed.
    """
    found = shutil.which("ssh")
    if found is None:
        raise UnsupportedError("`ssh` is not installed", hint="install OpenSSH's client")
    return found


def config_file() -> str | None:
    """Returns the configuration that stands in for the user's own, if one is named."""
    return os.environ.get(CONFIG_VARIABLE) or None


def ssh_line(route: SshRoute, config: str | None, *extra: str) -> list[str]:
    """Returns the client's command line up to and with the destination.

    Args:
        route: where to.
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
