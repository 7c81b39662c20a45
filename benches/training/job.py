"""A training of PyTorch in a lab: started by `gavotte launch`, or by torchrun on hosts in a given order."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from examples.programs.loop import GAVOTTE

from gavotte import lab
from gavotte.campaign.drivers.cgroups import Groups
from gavotte.formats.inventory import read_inventory
from gavotte.launch.launchers import Wanted, recognise
from gavotte.launch.nodes import Node, run_nodes

TRAIN = Path(__file__).with_name("train.py")
LIMIT_S = 600.0


class Training:
    """The job in a lab."""

    def __init__(self, session: lab.Session, folder: Path, groups: Groups, *, steps: int, width: int) -> None:
        self.session, self.folder = session, folder
        limited_torchrun = folder / "torchrun"
        # Torchrun itself would take `$$` in a command line for an escaped dollar.
        joining = shlex.join(groups.joining_by_name([shutil.which("torchrun") or "torchrun"]))
        limited_torchrun.write_text(f'#!/bin/sh\nexec {joining} "$@"\n')
        limited_torchrun.chmod(0o755)
        # Debian's 1.13 on Python 3.11 finds no meaning of 0, the default of both options, and 1 is stdout.
        output = ["--redirects", "1", "--tee", "1"]
        self.words = [
            str(limited_torchrun),
            "--nproc_per_node",
            "1",
            *output,
            str(TRAIN),
            str(steps),
            str(width),
        ]
        self.environment = {
            **session.environment(),
            "OMP_NUM_THREADS": "1",
            "XDG_CACHE_HOME": str(folder / "cache"),
        }

    def launch(self) -> tuple[dict[str, Any], float]:
        """Run `gavotte launch`; return its result and the seconds of the steps."""
        result = self.folder / "run.json"
        own = ["launch", "--hosts", "lab", "--store", str(self.folder / "store"), "--json", str(result)]
        ran = subprocess.run(
            [GAVOTTE, *own, "--", *self.words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if ran.returncode:
            raise RuntimeError(ran.stderr[-2000:])
        document: dict[str, Any] = json.loads(result.read_text())
        return document, _steps_s(ran.stdout)

    def in_order(self, hosts: Sequence[str]) -> tuple[float, float]:
        """Run it with these hosts as ranks; return the wall time and that of the steps, in seconds."""
        launcher = recognise(self.words)
        addresses = {host.name: host.address for host in read_inventory(self.session.hosts_file).host}
        wanted = Wanted(hosts, dict.fromkeys(hosts, 1), True, "", addresses=addresses)
        start = launcher.start(launcher.read(self.words), wanted)
        output = self.folder / "output"
        nodes = [
            Node(
                host,
                ["sh", "-c", 'exec "$@" >>"$0" 2>&1', str(output), *words],
                partial(self.session.command, host),
                addresses[host],
            )
            for host, words in zip(hosts, start.each, strict=True)
        ]
        output.write_text("")
        ended = run_nodes(nodes, self.environment, python=sys.executable)
        if ended.status:
            raise RuntimeError(output.read_text(errors="replace")[-2000:])
        return ended.wall_s, _steps_s(output.read_text())


def _steps_s(text: str) -> float:
    return float(re.findall(r"seconds ([0-9.]+)$", text, re.MULTILINE)[0])
