"""An API server of a few lines that lists and watches pods. A real one: test_scheduler_in_cluster.py."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.api_server import Quiet, listening


class Pods:
    """Pods of the namespace `ns`, and what happened to them."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.changed = threading.Condition()

    def put(self, name: str, labels: dict[str, str], node: str, phase: str = "Running") -> None:
        """Make a pod, or change it."""
        with self.changed:
            metadata = {"name": name, "namespace": "ns", "labels": labels, "creationTimestamp": "2026-11-30T10:00:00Z"}
            pod = {"metadata": metadata, "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase}}
            self.events.append({"type": "MODIFIED" if name in self.pods else "ADDED", "object": pod})
            self.pods[name] = pod
            self.changed.notify_all()

    def remove(self, name: str) -> None:
        """Delete a pod."""
        with self.changed:
            self.events.append({"type": "DELETED", "object": self.pods.pop(name)})
            self.changed.notify_all()

    @contextmanager
    def answering(self, port: int = 0) -> Iterator[int]:
        """Answer at a port until the end of the block, which also ends all watches."""
        owner, ended = self, threading.Event()

        class Handler(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked = parse_qs(urlsplit(self.path).query)
                label = asked["labelSelector"][0]
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                if "watch" in asked:
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    self._watch(label, int(asked["resourceVersion"][0]))
                    return
                with owner.changed:
                    items = [pod for pod in owner.pods.values() if label in pod["metadata"]["labels"]]
                    about = {"resourceVersion": str(len(owner.events))}
                content = json.dumps(
                    {"kind": "PodList", "apiVersion": "v1", "metadata": about, "items": items}
                ).encode()
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def _watch(self, label: str, at: int) -> None:
                while not ended.is_set():
                    with owner.changed:
                        if len(owner.events) == at and not owner.changed.wait(0.1):
                            continue
                        events = owner.events[at:]
                        at = len(owner.events)
                    for event in events:
                        if label in event["object"]["metadata"]["labels"]:
                            line = json.dumps(event).encode() + b"\n"
                            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.close_connection = True

        with listening(Handler, port) as number:
            try:
                yield number
            finally:
                ended.set()
