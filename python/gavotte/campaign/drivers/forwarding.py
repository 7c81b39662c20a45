"""Forwarding of local ports to pods through the API server, as `kubectl port-forward` does."""

from __future__ import annotations

import logging
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 16


class Forward:
    """Local port that is forwarded to a port of a pod.

    Attributes:
        port: the local port, on 127.0.0.1.
    """

    def __init__(
        self, settings: Any, namespace: str, pod: str, remote_port: int, report: Callable[[str], None]
    ) -> None:
        """Listen on a free port of this machine and forward its connections to the pod.

        Args:
            settings: settings of the Kubernetes client.
            namespace: the pod's namespace.
            pod: the pod's name.
            remote_port: port of the pod.
            report: is called with a line that says why the pod cannot be reached, once per reason.
        """
        self._settings = settings
        self._place = namespace, pod
        self._remote_port = remote_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._report = report
        self._last = ""
        self._open: list[Any] = []
        threading.Thread(target=self._accept, daemon=True, name=f"forward-{pod}").start()

    def close(self) -> None:
        """Stop listening and end all forwarded connections."""
        # `close` alone does not wake a thread that accepts.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            _end(each)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(near,), daemon=True, name="forwarded").start()

    def _join(self, near: socket.socket) -> None:
        from kubernetes import client
        from kubernetes.stream import portforward

        namespace, pod = self._place
        try:
            # Each thread has its own client: no other thread can use a client while it opens a stream.
            core = client.CoreV1Api(client.ApiClient(self._settings))
            joined = portforward(
                core.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(self._remote_port)
            )
            far = joined.socket(self._remote_port)
            far.setblocking(True)
        except Exception as error:  # a WebSocket can raise errors of many types
            self._report_once(f"no way to pod {pod}: {reason_of(error)}")
            _end(near)
            return
        self._open += [near, far]
        back = threading.Thread(target=_pour, args=(far, near), daemon=True, name="forwarded-back")
        back.start()
        _pour(near, far)
        back.join()
        if problem := joined.error(self._remote_port):
            self._report_once(f"the way to pod {pod} ended: {problem}")
        for each in (near, far):
            self._open.remove(each)
            each.close()

    def _report_once(self, line: str) -> None:
        logger.info("%s", line)
        if line != self._last:
            self._report(line)
        self._last = line


def reason_of(error: Exception) -> str:
    """Return why a stream failed: the API server's message if the client's text contains one, else that text."""
    text = " ".join(str(error).split())
    within = re.search(r'"message": ?"((?:[^"\\]|\\.)*)"', text)
    return (within[1] if within else text or type(error).__name__)[:300]


def _pour(source: Any, target: Any) -> None:
    """Copy data from one socket to another until either ends, then end both."""
    with suppress(OSError):
        while chunk := source.recv(CHUNK_BYTES):
            target.sendall(chunk)
    _end(source)
    _end(target)


def _end(each: Any) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
