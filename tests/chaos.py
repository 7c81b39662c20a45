"""Random faults in a lab while commands run in it, for a given time: `python -m tests.chaos --seconds 120 --seed 1`.

These hold after each command, after any fault:

- it ended in time with a known status and at most one line of error;
- earlier measurements are still complete, and no file is half written;
- living agents are free again within a lease, and the next command finds them.

At the end nothing is left of the lab.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests import builders, faults
from tests.shell import GAVOTTE, one_line_of_error, processes_of

from gavotte import lab
from gavotte.agents.runtime import RUNTIME_DIR_VARIABLE
from gavotte.errors import GavotteError
from gavotte.formats.app import write_app
from gavotte.formats.history import read_history
from gavotte.formats.inventory import read_inventory
from gavotte.formats.placement import write_placement
from gavotte.hosts import check

HOSTS = [f"h{i}" for i in range(6)]
CLOUD = builders.topology(
    [{"name": name, "switch": f"tor{i // 3}", "egress": "200mbit"} for i, name in enumerate(HOSTS)],
    switches=["core", {"name": "tor0", "up": "1gbit"}, {"name": "tor1", "up": "1gbit"}],
)
COMMANDS = (
    "measure --hosts {hosts} -o h.npz --seed {seed}",
    "measure --hosts {hosts} -o h.npz --count 3 --method bulk --seconds 0.2 --seed {seed}",
    "measure --hosts {hosts} -o h.npz --sharing --seed {seed}",
    "measure sharing h.npz --hosts {hosts} --seed {seed}",
    "measure cross h0 h4 --hosts {hosts} --seconds 2",
    "run p.placement.json a.app.toml --hosts {hosts}",
    "hosts check --hosts {hosts}",
    "broadcast model --hosts {hosts} --from h0 -o {folder}/{{host}}.copy",
    "shuffle bytes.csv --hosts {hosts}",
    "guarantee apply all.guarantee.toml --hosts {hosts}",
    "guarantee status --hosts {hosts}",
    "guarantee clear --hosts {hosts}",
)
GUARANTEES = 'format = "gavotte/guarantee/1"\n' + "".join(
    f'[[guarantee]]\nhost = "{name}"\negress = "50mbit"\ningress = "50mbit"\n' for name in HOSTS
)
LIMIT_S = 150.0
"""Longest time of a command on a loaded machine, every fault's wait included. Sharing experiments take 22 s, 29 with a
host unplugged, and 80 under a guarantee of a quarter of the paths' rates.
"""

FREE_S = 25.0
"""A lease and the time to notice."""

STATUSES = {0, 1, 130, 143, -2, -15, -9, 137}
"""Statuses of a command that ended, failed, or got a signal: negative if the interpreter was ending, after all output
and releases.
"""


class Round:
    """One command and its faults."""

    def __init__(self, session: lab.Session, folder: Path, rng: random.Random) -> None:
        self._session = session
        self._folder = folder
        self._rng = rng
        self._repairs: list[Callable[[], None]] = []
        self._dead: set[str] = set()
        self.faults: list[str] = []

    def run(self) -> list[str]:
        """Run it; return the broken rules."""
        rng = self._rng
        line = rng.choice(COMMANDS)
        words = line.format(hosts=self._session.hosts_file, seed=rng.randrange(1000), folder=self._folder).split()
        output = self._folder / "h.npz"
        before = read_history(output) if output.exists() else None
        full = rng.random() < 0.15
        if full:
            self.faults.append("disk full")
        if (self._folder / "h.npz.partial").exists() and "h.npz" in words and "-o" in words:
            words.append("--resume") if rng.random() < 0.7 else (self._folder / "h.npz.partial").unlink()
        command = subprocess.Popen(
            [*(faults.full_disk(2000) if full else []), GAVOTTE, *words],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        injecting = threading.Thread(target=self._inject, args=(command,))
        injecting.start()
        wrong = []
        try:
            message = command.communicate(timeout=LIMIT_S)[1]
        except subprocess.TimeoutExpired:
            wrong.append(f"still runs after {LIMIT_S:.0f} s")
            command.kill()
            message = command.communicate()[1]
        injecting.join()
        self.words = " ".join(words)
        status = command.returncode
        if status not in STATUSES:
            wrong.append(f"status {status}: {message[-300:]}")
        if "Traceback" in message or (status == 1 and not one_line_of_error(words, message)):
            wrong.append(f"not one line of error: {message[-1500:]}")
        wrong += self._files(output, before)
        for repair in self._repairs:
            repair()
        for host in sorted(self._dead):
            faults.start_agent(self._session, host)
        return wrong + self._freed()

    def _inject(self, command: subprocess.Popen[str]) -> None:
        """Return one to four faults, at random times of the first seconds."""
        rng = self._rng
        time.sleep(0.6)
        for _ in range(rng.choice((1, 2, 3, 4))):
            time.sleep(rng.uniform(0.0, 1.0))
            if command.poll() is not None:
                return
            host = rng.choice([each for each in HOSTS if each not in self._dead] or HOSTS)
            fault = rng.choice(FAULTS)
            self.faults.append(fault.__name__.replace("_", " "))
            fault(self, host, command)

    def _files(self, output: Path, before: object) -> list[str]:
        wrong = []
        if output.exists():
            try:
                history = read_history(output)
                if before is not None and (lacking := history.lacks(before)):  # type: ignore[arg-type]
                    wrong.append(f"lost {lacking} paths that were measured before")
            except GavotteError as error:
                wrong.append(f"left a damaged file: {error}")
        elif before is not None:
            wrong.append("removed what was measured before")
        model = (self._folder / "model").read_bytes()
        for copy in self._folder.glob("*.copy"):
            if copy.read_bytes() != model:
                wrong.append(f"{copy.name} is not what was sent")
            copy.unlink()
        # A command that was killed while it wrote may leave its temporary file, and nothing else.
        for aside in self._folder.glob(".h.npz.*"):
            if "controller killed" not in self.faults:
                wrong.append(f"left {aside.name}")
            aside.unlink()
        return wrong

    def _freed(self) -> list[str]:
        ends = time.monotonic() + FREE_S
        inventory = read_inventory(self._session.hosts_file)
        while True:
            bad = [
                f"{host.name}: {host.verdict}"
                for host in check(inventory).hosts
                if not host.verdict.startswith("ready")
            ]
            if not bad:
                return []
            if time.monotonic() > ends:
                return [f"agents are not free again: {'; '.join(bad)}"]
            time.sleep(1.0)

    def agent_killed(self, host: str, _: object) -> None:
        faults.kill_agent(self._session, host)
        self._dead.add(host)

    def agent_restarted(self, host: str, _: object) -> None:
        faults.kill_agent(self._session, host)
        time.sleep(self._rng.uniform(0.0, 1.0))
        faults.start_agent(self._session, host)
        self._dead.discard(host)

    def agent_stopped_for_a_while(self, host: str, _: object) -> None:
        faults.to_agent(self._session, host, signal.SIGSTOP)
        time.sleep(self._rng.uniform(0.2, 4.0))
        faults.to_agent(self._session, host, signal.SIGCONT)

    def agent_stopped(self, host: str, _: object) -> None:
        faults.to_agent(self._session, host, signal.SIGSTOP)
        self._repairs.append(lambda: faults.to_agent(self._session, host, signal.SIGCONT))

    def all_agents_killed(self, _host: str, _: object) -> None:
        for host in HOSTS:
            faults.kill_agent(self._session, host)
        self._dead |= set(HOSTS)

    def interface_down(self, host: str, _: object) -> None:
        routes = faults.unplug(self._session, host)
        self._repairs.append(lambda: faults.plug(self._session, host, routes))

    def interface_flaps(self, host: str, _: object) -> None:
        routes = faults.unplug(self._session, host)
        time.sleep(self._rng.uniform(0.1, 2.0))
        faults.plug(self._session, host, routes)

    def rack_cut_off(self, _host: str, _: object) -> None:
        for host in HOSTS[3:]:
            self.interface_down(host, None)

    def controller_killed(self, _host: str, command: subprocess.Popen[str]) -> None:
        command.kill()

    def controller_interrupted(self, _host: str, command: subprocess.Popen[str]) -> None:
        command.send_signal(self._rng.choice((signal.SIGINT, signal.SIGTERM)))

    def controller_stopped_for_a_while(self, _host: str, command: subprocess.Popen[str]) -> None:
        command.send_signal(signal.SIGSTOP)
        time.sleep(self._rng.choice((0.5, 2.0, 12.0)))
        command.send_signal(signal.SIGCONT)


FAULTS = (
    Round.agent_killed,
    Round.agent_restarted,
    Round.agent_stopped_for_a_while,
    Round.agent_stopped,
    Round.all_agents_killed,
    Round.interface_down,
    Round.interface_flaps,
    Round.rack_cut_off,
    Round.controller_killed,
    Round.controller_interrupted,
    Round.controller_stopped_for_a_while,
)


def main() -> int:
    """Run commands with faults; the exit status is 1 if a rule was broken."""
    parser = argparse.ArgumentParser(description="Random faults in a lab while commands run in it.")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    wanted = parser.parse_args()
    if not lab.supported():
        print(f"chaos: skipped, no lab can stand here: {lab.missing()}")
        return 0
    rng = random.Random(wanted.seed)
    print(f"chaos: seed {wanted.seed}, {wanted.seconds:.0f} s", flush=True)
    met: Counter[str] = Counter()
    survived: Counter[str] = Counter()
    rounds = bad = 0
    ends = time.monotonic() + wanted.seconds
    with tempfile.TemporaryDirectory(prefix="gvc-", dir="/tmp") as name:
        os.environ[RUNTIME_DIR_VARIABLE] = name
        with lab.session(CLOUD, source="chaos") as session, tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            write_app(folder / "a.app.toml", builders.app("one", ("x", "y", 10_000_000), ("x", "z", 20_000_000)))
            (folder / "model").write_bytes(rng.randbytes(8_000_000))
            (folder / "bytes.csv").write_text("source,target,bytes\nh0,h3,4e6\nh1,h3,2e6\nh2,h4,8e6\n")
            (folder / "all.guarantee.toml").write_text(GUARANTEES)
            write_placement(folder / "p.placement.json", builders.placement({"x": "h0", "y": "h1", "z": "h3"}, "one"))
            while time.monotonic() < ends:
                this = Round(session, folder, rng)
                wrong = this.run()
                rounds += 1
                met.update(this.faults)
                if wrong:
                    bad += 1
                    print(f"round {rounds}: gavotte {this.words}\n  met {', '.join(this.faults)}", flush=True)
                    for each in wrong:
                        print(f"  {each}", flush=True)
                else:
                    survived.update(this.faults)
        left = processes_of(name)
        if left or list(Path(name).glob("lab-*")):
            bad += 1
            print(f"left behind: {left or sorted(each.name for each in Path(name).iterdir())}")
    print(f"{'fault':<34}{'met':>6}{'survived':>10}")
    for fault in sorted(met):
        print(f"{fault:<34}{met[fault]:>6}{survived[fault]:>10}")
    print(f"{sum(met.values())} faults in {rounds} commands, {bad} defects, seed {wanted.seed}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
