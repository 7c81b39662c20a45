"""Parts of API servers of a few lines: how they listen, how they send JSON, and the kubeconfig that names them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Quiet(BaseHTTPRequestHandler):
    """A handler that sends JSON and logs nothing."""

    def send_json(self, document: object, status: int = 200) -> None:
        """Send a document, or bytes as they are."""
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler], port: int = 0) -> Iterator[int]:
    """Answer requests on loopback until the end of the block; give the port."""
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def write_kubeconfig(path: Path, ports: Mapping[str, int], current: str = "") -> None:
    """Write a kubeconfig with a context for each port; the first one is the current one unless another is named."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current or next(iter(ports)),
        "clusters": [{"name": name, "cluster": {"server": f"http://127.0.0.1:{port}"}} for name, port in ports.items()],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in ports],
        "users": [{"name": "u", "user": {}}],
    }
    path.write_text(json.dumps(config))
