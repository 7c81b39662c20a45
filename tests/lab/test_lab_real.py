"""Labs with real packets: paths, rates, programs in them, and that none outlives its keeper."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.builders import topology
from tests.lab.clouds import tree_of_ten
from tests.lab.goodput import assert_goodput
from tests.shell import processes_of, until

from gavotte import lab
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.lab.state import Process
from gavotte.terms.goodput import GOODPUT_PER_WIRE

pytestmark = pytest.mark.lab

TWO = topology("ab")

ECHO = """
import socket
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.bind(("", 7000))
while True:
    data, sender = here.recvfrom(64)
    here.sendto(data, sender)
"""

ASK_ALL = """
import json, socket, sys
asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asker.setsockopt(socket.IPPROTO_IP, 12, 1)  # IP_RECVTTL, which Python does not name
asker.settimeout(0.2)
routers = {}
for name in sys.argv[1:]:
    for attempt in range(20):
        asker.sendto(name.encode(), (name, 7000))
        try:
            data, extra, _, _ = asker.recvmsg(64, 64)
        except OSError:
            continue
        if data == name.encode():
            routers[name] = 64 - int.from_bytes(extra[0][2], sys.byteorder)
            break
print(json.dumps(routers))
"""

OWNER = """
import sys, time
from gavotte import lab
from gavotte.formats.topology import read_topology
print("starting", flush=True)
with lab.session(read_topology(sys.argv[1])) as session:
    print(session.folder, session.status().keeper, flush=True)
    session.exec("vm0", ["sleep", "1000"])
    print("running", flush=True)
    time.sleep(1000)
"""

UP = """
import sys
from gavotte import lab
from gavotte.errors import GavotteError
from gavotte.formats.topology import read_topology
try:
    lab.up(read_topology(sys.argv[1]), source=sys.argv[1], agents=False)
except GavotteError as error:
    print(error)
else:
    print("up")
"""


@pytest.fixture
def topology_file(tmp_path: Path) -> Path:
    path = tmp_path / "two.topology.toml"
    path.write_text(
        'format = "gavotte/topology/1"\nswitch = [{name = "s"}]\n'
        'host = [{name = "vm0", switch = "s"}, {name = "vm1", switch = "s"}]\n'
    )
    return path


@pytest.fixture
def cleared(runtime_folder: Path) -> Iterator[Path]:
    """A runtime folder whose lab, if any, is taken down at the end."""
    yield runtime_folder
    lab.down()


def python(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], text=True, stdout=subprocess.PIPE, **options
    )


def test_every_host_reaches_every_other_over_the_right_number_of_routers(runtime_folder: Path) -> None:
    topology = tree_of_ten(egress="300mbit")
    names = [host.name for host in topology.host]
    with lab.session(topology, agents=False) as session:
        echoes = [session.exec(name, [sys.executable, "-c", ECHO]) for name in names]
        asking = [
            session.exec(name, [sys.executable, "-c", ASK_ALL, *names], stdout=subprocess.PIPE, text=True)
            for name in names
        ]
        routers = {name: json.loads(process.communicate()[0]) for name, process in zip(names, asking, strict=True)}
        for echo in echoes:
            echo.terminate()
            echo.wait()

    def expected(a: int, b: int) -> int:
        a, b = max(0, a - 2), max(0, b - 2)  # their machines
        return 0 if a == b else 1 if a // 2 == b // 2 else 3 if a // 4 == b // 4 else 5

    assert routers == {f"vm{a}": {f"vm{b}": expected(a, b) for b in range(10)} for a in range(10)}


@pytest.mark.skipif(shutil.which("traceroute") is None, reason="no traceroute")
def test_traceroute_shows_every_router(runtime_folder: Path) -> None:
    with lab.session(tree_of_ten(), agents=False) as session:

        def path(target: str) -> list[str]:
            trace = session.run("vm0", ["traceroute", "-q1", target], capture_output=True, text=True)
            return [line.split()[1] for line in trace.stdout.splitlines()[1:]]

        assert path("vm1") == ["vm1"]
        assert path("vm3") == ["tor0", "vm3"]
        assert path("vm4") == ["tor0", "agg0", "tor1", "vm4"]
        assert path("vm9") == ["tor0", "agg0", "core", "agg1", "tor3", "vm9"]


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="no iperf3")
def test_tcp_gets_the_rates_of_the_topology(runtime_folder: Path) -> None:
    hosts = [
        {"name": "sender", "machine": "m", "egress": "200mbit"},
        {"name": "neighbour", "machine": "m"},
        {"name": "receiver", "switch": "s1", "ingress": "300mbit", "burst": "512kb"},
        {"name": "far", "switch": "s1", "rate": "1gbit"},
        {"name": "up", "switch": "s0"},
    ]
    switches = [{"name": "s0"}, {"name": "s1", "parent": "s0", "up": "100mbit", "down": "400mbit"}]
    machines = [{"name": "m", "switch": "s0", "machine_rate": "1gbit"}]
    cases = [
        ("sender", "far", 200e6),
        ("neighbour", "receiver", 300e6),
        ("sender", "neighbour", 1e9),
        ("neighbour", "far", 400e6),
        ("far", "up", 100e6),
    ]

    with lab.session(topology(hosts, switches=switches, machine=machines), agents=False) as session:
        for source, target, wire_bps in cases:
            assert_goodput(session, source, target, wire_bps * GOODPUT_PER_WIRE)


def test_up_status_exec_down(cleared: Path, listener: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status = lab.up(tree_of_ten(), source="ten.toml")
    assert status.up
    assert status.topology == "ten.toml"
    assert [host.agent for host in status.hosts] == [True] * 10
    inventory = read_inventory(status.hosts_file)
    assert inventory.names == [f"vm{i}" for i in range(10)]
    assert [host.address for host in inventory.host] == [host.address for host in status.hosts]
    assert all(Path(host.agent.removeprefix("unix:")).is_socket() for host in inventory.host)

    assert lab.execute("vm3", ["sh", "-c", "hostname; pwd; exit 7"]) == 7
    assert lab.execute("tor1", ["hostname"]) == 0
    assert capfd.readouterr().out == f"vm3\n{Path.cwd()}\ntor1\n"
    assert lab.execute("vm0", ["sh", "-c", "kill -9 $$"]) == 137
    assert lab.execute("vm0", ["sh", "-c", "kill -TERM $$"]) == 143
    with pytest.raises(GavotteError, match="no host `vm10`; did you mean `vm"):
        lab.execute("vm10", ["true"])
    with pytest.raises(GavotteError, match=r"a lab from ten\.toml is already up; .*lab down"):
        lab.up(TWO, source="again")

    left = lab.current().exec("vm1", ["sleep", "1000"])
    assert lab.down()
    assert left.wait(10) != 0
    assert not (cleared / "lab").exists()
    assert not lab.down()
    assert lab.status() == lab.LabStatus(up=False)
    until(lambda: not processes_of(cleared))


def test_inside_and_beside(runtime_folder: Path) -> None:
    """From within the lab: its own status, programs on other hosts, and the ssh-like script both ways."""
    code = (
        "from gavotte import lab; s = lab.status(); "
        "print(s.up, [h.name for h in s.hosts], lab.sweep(), lab.execute('b', ['hostname']), flush=True)"
    )
    with lab.session(TWO, agents=False) as session:
        inside = session.run("a", [sys.executable, "-c", code], capture_output=True, text=True)
        assert inside.stdout == "b\nTrue ['a', 'b'] 0 0\n"
        rsh = str(session.folder / "rsh")
        command = [rsh, "-x", "b", "hostname;", "echo", "$GAVOTTE_LAB"]
        wanted = f"b\n{session.folder}\n"
        beside = subprocess.run(command, env=session.environment(), capture_output=True, text=True, check=True)
        assert beside.stdout == wanted
        assert session.run("a", command, capture_output=True, text=True).stdout == wanted


def test_terminating_the_line_terminates_the_program(runtime_folder: Path) -> None:
    with lab.session(TWO, agents=False) as session:
        child = session.exec("a", ["sh", "-c", "trap 'echo ended; exit' TERM; echo ready; sleep 1000 & wait"],
                             stdout=subprocess.PIPE, text=True)  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.terminate()
        assert child.stdout.readline() == "ended\n"
        child.wait()
        child.stdout.close()


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun")
def test_mpirun_reaches_other_hosts(runtime_folder: Path) -> None:
    with lab.session(TWO, agents=False) as session:
        command = ["mpirun", "--mca", "btl", "tcp,self", "--host", "a,b", "hostname"]
        ran = session.run("a", command, capture_output=True, text=True, timeout=60)
    assert sorted(ran.stdout.split()) == ["a", "b"], ran.stderr


def test_a_killed_keeper_takes_everything_along(cleared: Path, listener: Path) -> None:
    keeper = lab.up(TWO, source="x").keeper
    assert keeper is not None
    child = lab.current().exec("a", ["sleep", "1000"])
    os.kill(keeper, signal.SIGKILL)
    assert child.wait(10) != 0
    until(lambda: not processes_of(cleared))
    assert (cleared / "lab").exists()
    until(lambda: not lab.status().up)
    until(lambda: lab.sweep() >= 0 and not (cleared / "lab").exists())
    assert lab.up(TWO, source="y").up


def test_a_killed_owner_leaves_nothing(runtime_folder: Path, listener: Path, topology_file: Path) -> None:
    owner = python(OWNER, topology_file)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "starting\n"
    folder, keeper = owner.stdout.readline().split()
    process = Process.of(int(keeper))
    assert process is not None
    assert owner.stdout.readline() == "running\n"
    owner.kill()
    owner.wait()
    owner.stdout.close()
    until(lambda: not process.alive)
    until(lambda: not processes_of(runtime_folder))
    until(lambda: not Path(folder).exists())


def test_an_owner_killed_while_starting_leaves_nothing(
    runtime_folder: Path, listener: Path, topology_file: Path
) -> None:
    for delay_s in (0.0, 0.05, 0.1, 0.2, 0.3, 0.4):
        owner = python(OWNER, topology_file)
        assert owner.stdout is not None
        assert owner.stdout.readline() == "starting\n"
        time.sleep(delay_s)
        owner.kill()
        owner.wait()
        owner.stdout.close()
        until(lambda: not processes_of(runtime_folder))
        lab.sweep()
        assert not list(runtime_folder.glob("s-*"))


def test_of_two_at_once_one_comes_up(cleared: Path, topology_file: Path) -> None:
    both = [python(UP, topology_file) for _ in range(2)]
    message = sorted(process.communicate()[0].strip() for process in both)
    assert message[1] == "up"
    assert message[0].startswith("a lab")
    assert lab.status().up


def test_an_agent_that_ends_is_told(cleared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = cleared / "agent"
    broken.write_text("#!/bin/sh\necho port taken >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("GAVOTTE_AGENT", str(broken))
    with pytest.raises(AgentError, match="the agent of a exited at once; it printed: port taken"):
        lab.up(TWO, source="x")
    assert not (cleared / "lab").exists()
    until(lambda: not processes_of(cleared))


@pytest.mark.parametrize("signalled", [signal.SIGKILL, signal.SIGSTOP])
def test_an_agent_that_died_or_hangs_shows(runtime_folder: Path, listener: Path, signalled: int) -> None:
    with lab.session(TWO) as session:
        agents = [pid for pid, line in processes_of(runtime_folder).items() if f"{session.folder}/a.sock" in line]
        os.kill(agents[0], signalled)
        until(lambda: [host.agent for host in session.status().hosts] == [False, True])


GAVOTTE = Path(sys.executable).parent / "gavotte"


@pytest.fixture
def one_host(tmp_path: Path) -> Path:
    path = tmp_path / "one.topology.toml"
    path.write_text('format = "gavotte/topology/1"\nswitch = [{ name = "s" }]\nhost = [{ name = "a", switch = "s" }]\n')
    return path


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize(
    "command",
    [
        "exec sleep 1000",
        "sleep 1000; true",
        "trap '' TERM INT HUP; sleep 1000; sleep 1000",
        "setsid sh -c 'trap \"\" TERM; sleep 1000; true' & wait",
    ],
    ids=["alone", "child", "deaf", "session"],
)
def test_what_runs_beside_a_lab_ends_with_it(
    cleared: Path, listener: Path, one_host: Path, command: str, number: int
) -> None:
    owner = subprocess.Popen([GAVOTTE, "lab", "run", one_host, "--", "sh", "-c", command])
    until(lambda: any(line.startswith("sleep 1000") for line in processes_of(cleared).values()))
    owner.send_signal(number)
    owner.wait()
    until(lambda: not processes_of(cleared))


@pytest.mark.parametrize(("command", "status"), [("exit 3", 3), ("kill -USR1 $$", 128 + signal.SIGUSR1), ("true", 0)])
def test_lab_run_ends_as_its_command_does(runtime_folder: Path, one_host: Path, command: str, status: int) -> None:
    done = subprocess.run([GAVOTTE, "lab", "run", one_host, "--", "sh", "-c", command], check=False)
    assert done.returncode == status


def test_a_path_too_long_for_sockets_is_refused(
    runtime_folder: Path, listener: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAVOTTE_RUNTIME_DIR", str(runtime_folder / ("x" * 100)))
    with pytest.raises(GavotteError, match="too long for Unix sockets; set GAVOTTE_RUNTIME_DIR"):
        lab.up(TWO, source="x")


def test_nothing_of_a_lab_shows_on_the_machine(runtime_folder: Path) -> None:
    def seen() -> tuple[list[str], str]:
        return sorted(path.name for path in Path("/sys/class/net").iterdir()), Path("/proc/mounts").read_text()

    before = seen()
    with lab.session(TWO, agents=False) as session:
        assert seen() == before
        assert not list((session.folder / "ns").iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
def test_an_ordinary_user_holds_a_lab(tmp_path: Path) -> None:
    code = (
        "import sys, subprocess\nfrom gavotte import lab\nfrom gavotte.lab.support import SMALLEST\n"
        "with lab.session(SMALLEST, agents=False) as s:\n"
        "    status = s.status()\n"
        "    print(status.rootless, s.run('a', ['sh', '-c', 'hostname; exit 5']).returncode, flush=True)\n"
    )
    packages = [path for path in sys.path if path.endswith("-packages")]
    source = str(Path(lab.__file__).parents[2])
    home = Path("/tmp") / f"gvt-nobody-{os.getpid()}"
    home.mkdir(mode=0o700)
    os.chown(home, 65534, 65534)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "GAVOTTE_RUNTIME_DIR": str(home)}
    environment["PYTHONPATH"] = os.pathsep.join([source, *packages])
    environment["PYTHONDONTWRITEBYTECODE"] = "1"

    def as_nobody(interpreter: str, program: str) -> subprocess.CompletedProcess[str]:
        line = [interpreter, "-c", program]
        who: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
        return subprocess.run(line, env=environment, cwd="/", capture_output=True, text=True, check=False, **who)

    try:
        for interpreter in (sys.executable, "/usr/bin/python3"):
            try:
                if as_nobody(interpreter, "import gavotte.lab.control").returncode == 0:
                    break
            except PermissionError:
                continue
        else:
            pytest.skip("no Python that an ordinary user can read")
        ran = as_nobody(interpreter, code)
        if "neither root nor user namespaces" in ran.stderr:
            pytest.skip(ran.stderr.strip().splitlines()[-1])
        assert ran.stdout == "a\nTrue 5\n", ran.stderr
        assert not list(home.glob("s-*"))
    finally:
        shutil.rmtree(home)
