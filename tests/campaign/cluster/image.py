"""Writes a container image as `docker save` does: image.py NAME OUT.tar PATH=FILE... [-- ENTRYPOINT...]"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path


def main() -> None:
    name, out, *rest = sys.argv[1:]
    at = rest.index("--") if "--" in rest else len(rest)
    files, entry = rest[:at], rest[at + 1 :]
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in ("bin", "etc", "tmp", "usr", "usr/bin"):
            made = tarfile.TarInfo(folder)
            made.type, made.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(made)
        for each in files:
            path, _, source = each.partition("=")
            made = tarfile.TarInfo(path.lstrip("/"))
            if source.startswith("@"):
                made.type, made.linkname = tarfile.SYMTYPE, source[1:]
                tar.addfile(made)
                continue
            content = Path(source).read_bytes()
            made.size, made.mode = len(content), 0o755
            tar.addfile(made, io.BytesIO(content))
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/bin:/bin"], "Entrypoint": entry or None},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    text = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(out, "w") as tar:
        for part, content in (
            (config_name, text),
            ("layer.tar", layer.getvalue()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            made = tarfile.TarInfo(part)
            made.size = len(content)
            tar.addfile(made, io.BytesIO(content))


if __name__ == "__main__":
    main()
