"""Open connections to all agents of an inventory at the same time, and close them whatever happens."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gavotte.agents.binary import agent_binaries
from gavotte.agents.quiet import grpc
from gavotte.agents.reach import folder, keys
from gavotte.agents.reach.causes import last_line, tls_cause
from gavotte.agents.reach.client import config_file, ssh_program
from gavotte.agents.reach.tunnel import Tunnel
from gavotte.errors import AgentError
from gavotte.formats.inventory import Host, Inventory
from gavotte.formats.parts.routes import SshRoute, TlsRoute, UnixRoute

logger = logging.getLogger(__name__)

AT_ONCE = 32
"""Most SSH connections that are being opened at one time."""

BEAT_S = 15.0
"""Time between two signs to agents that their controller is alive. They allow for 60 s of silence."""

DEATH_PATIENCE_S = 1.0
"""Longest time that ssh may take to notice that the program it ran has ended."""

_OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    # A Unix socket answers at once or not at all: no back-off of 20 s as for a distant server.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.enable_http_proxy", 0),
]
_SOCKET_OPTIONS = [
    *_OPTIONS,
    # A Unix socket has no valid HTTP/2 authority of its own. Never set it for TLS: certificates are checked by it.
    ("grpc.default_authority", "localhost"),
]


class Reach:
    """The connections to an inventory's agents.

    Attributes:
        channels: host to its gRPC channel, for hosts that were reached.
        missing: host to reason, for the others.
        tunnels: host to its SSH tunnel.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.channels: dict[str, grpc.Channel] = {}
        self.missing: dict[str, str] = {}
        self.tunnels: dict[str, Tunnel] = {}
        self._hosts = {host.name: host for host in inventory.host}
        self._keys = str(inventory.keys or "")
        self._config = inventory.ssh_config or config_file()
        self._secure: grpc.ChannelCredentials | None = None
        self._base: Path | None = None
        self._resources: ExitStack | None = None
        self._ended = threading.Event()

    def why(self, name: str, error: grpc.RpcError) -> str:
        """Return in one line why a call to a host failed.

        Args:
            name: the host.
            error: the error that gRPC raised.
        """
        details = (error.details() if isinstance(error, grpc.Call) else str(error)) or ""
        code = error.code() if isinstance(error, grpc.Call) else None
        route = self._hosts[name].route
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED):
            if name in self.tunnels:
                patience_s = DEATH_PATIENCE_S if code is grpc.StatusCode.UNAVAILABLE else 0.0
                cause = self.tunnels[name].why(patience_s)
                if cause:
                    return cause
            if isinstance(route, TlsRoute):
                cause = tls_cause(details, place=route.location, keys=self._keys) or ""
                if cause:
                    return cause
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return "deadline exceeded"
        if code is grpc.StatusCode.UNAVAILABLE:
            return f"nothing listens at {route.path}" if isinstance(route, UnixRoute) else "not reachable"
        return last_line(details) or str(code)

    def open(self, inventory: Inventory, resources: ExitStack, *, start: bool = True) -> None:
        """Open every connection. Hosts whose connections fail are in `missing` afterwards.

        Args:
            inventory: the hosts.
            resources: gets what must be closed at the end.
            start: whether to start agents over SSH, or only to install them.
        """
        self._resources = resources
        over_ssh = [host for host in inventory.host if isinstance(host.route, SshRoute)]
        if over_ssh:
            logger.info("connecting to %d hosts over SSH", len(over_ssh))
            self._open_tunnels(over_ssh, resources, start=start)
        self._secure_for(inventory.host)
        if not start:
            return
        for host in inventory.host:
            if host.name not in self.missing:
                self.channels[host.name] = channel = self._channel(host)
                resources.callback(channel.close)

    def add(self, host: Host) -> None:
        """Add a host, so that `again` can connect to it.

        Raises:
            GavotteError: when the controller itself lacks something: keys, the ssh client, the agent to copy.
        """
        self._hosts[host.name] = host
        self._secure_for([host])
        if isinstance(host.route, SshRoute) and self._base is None and self._resources is not None:
            ssh_program()
            self._keep_tunnels(self._resources)

    def again(self, name: str) -> grpc.Channel:
        """Open a new connection to a host that was missing, or whose agent has disappeared. Any thread may call this.

        Raises:
            AgentError: when it does not open.
        """
        host = self._hosts[name]
        if isinstance(host.route, SshRoute):
            assert self._base is not None
            old = self.tunnels.get(name)
            if old is not None:
                old.close()
            tunnel = Tunnel(host.route, self._base / f"again-{secrets.token_hex(4)}", config=self._config)
            self.tunnels[name] = tunnel
            if self._ended.is_set():
                raise AgentError("gave up")
            try:
                tunnel.open(agent_binaries())
            except OSError as error:
                raise AgentError(f"ssh cannot be run: {error.strerror or error}") from None
        self.missing.pop(name, None)
        # A new channel asks the host again at once. An old one that has failed several times waits up to 2 minutes.
        channel = self._channel(host)
        self.channels[name] = channel
        if self._resources is not None:
            self._resources.callback(channel.close)
        return channel

    def rest(self, name: str) -> None:
        """Close the connection to a host that is seldom called. SSH tunnels stay open: their agents end with them."""
        channel = self.channels.pop(name, None)
        if channel is not None:
            channel.close()

    def reopened(self, name: str) -> grpc.Channel:
        """Return a new connection to a host whose connection was closed. Any thread may call this."""
        channel = self.channels[name] = self._channel(self._hosts[name])
        if self._resources is not None:
            self._resources.callback(channel.close)
        return channel

    def _channel(self, host: Host) -> grpc.Channel:
        route = host.route
        if isinstance(route, TlsRoute):
            # Of gRPC's options, this one alone names the certificate of an address.
            named = [("grpc.ssl_target_name_override", route.name)] if route.name else []
            return grpc.secure_channel(route.location, self._secure, options=[*_OPTIONS, *named])
        path = route.path if isinstance(route, UnixRoute) else str(self.tunnels[host.name].socket)
        return grpc.insecure_channel(f"unix:{path}", options=_SOCKET_OPTIONS)

    def _open_tunnels(self, hosts: list[Host], resources: ExitStack, *, start: bool) -> None:
        ssh_program()
        binaries = agent_binaries()
        base = self._keep_tunnels(resources)
        for index, host in enumerate(hosts):
            assert isinstance(host.route, SshRoute)
            self.tunnels[host.name] = Tunnel(host.route, base / str(index), config=self._config)

        def attempt(host: Host) -> None:
            try:
                self.tunnels[host.name].open(binaries, start=start)
            except AgentError as error:
                self.missing[host.name] = error.message
            except OSError as error:
                self.missing[host.name] = f"ssh cannot be run: {error.strerror or error}"

        with ThreadPoolExecutor(min(AT_ONCE, len(hosts))) as pool:
            try:
                for _ in pool.map(attempt, hosts):
                    pass
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for tunnel in self.tunnels.values():
                    tunnel.abort()
                raise

    def _keep_tunnels(self, resources: ExitStack) -> Path:
        """Make a folder for the tunnels' sockets, and have the tunnels closed at the end."""
        self._base = resources.enter_context(folder.claimed())
        resources.callback(self._close_tunnels)
        threading.Thread(target=self._beat, daemon=True, name="lifelines").start()
        return self._base

    def _secure_for(self, hosts: Iterable[Host]) -> None:
        """Read the keys, if a host needs them and they have not been read."""
        if self._secure is None and any(isinstance(host.route, TlsRoute) for host in hosts):
            place = keys.keys_folder(self._keys or None)
            self._keys = str(place)
            self._secure = keys.credentials(place)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_S):
            for tunnel in list(self.tunnels.values()):
                tunnel.beat()

    def _close_tunnels(self) -> None:
        self._ended.set()
        tunnels = list(self.tunnels.values())
        for tunnel in tunnels:
            tunnel.loosen()
        for tunnel in tunnels:
            tunnel.close()


@contextmanager
def reaching(inventory: Inventory, *, start: bool = True) -> Iterator[Reach]:
    """Hold connections to the agents of an inventory.

    All SSH hosts are connected at the same time, each with its own deadlines. A failed host does not affect the others.

    Args:
        inventory: the hosts.
        start: whether to start agents over SSH, or only to install them; then there are no channels.

    Raises:
        GavotteError: when the controller itself lacks something: keys, the ssh client, the agent to copy.
    """
    with ExitStack() as resources:
        reach = Reach(inventory)
        reach.open(inventory, resources, start=start)
        yield reach
