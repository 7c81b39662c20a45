"""Guarantees on real packets: kept against many senders, changed while packets flow, and removed on request."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.builders import topology
from tests.guarantee.stand import address, agent_of, heard, qdiscs, traffic
from tests.shell import gavotte, until

from gavotte import lab
from gavotte.agents.binary import agent_binary
from gavotte.formats.guarantee import read_guarantee
from gavotte.formats.inventory import Inventory, read_inventory, write_inventory
from gavotte.guarantee import PairState, apply, status

pytestmark = pytest.mark.lab

CROWD = [f"y{number}" for number in range(10)]
HOSTS = ["x", *CROWD, "z", "t"]
LINK_BPS = 100e6
WIRE_PER_PAYLOAD = 1514 / 1448


def guarantee(folder: Path, mode: str = "auto", more: str = "") -> Path:
    """X and Z, and T among a crowd, have 45 of the link's 100 Mbit/s each."""
    lines = ['format = "gavotte/guarantee/1"', f'mode = "{mode}"']
    for host in HOSTS:
        lines += ["[[guarantee]]", f'host = "{host}"', 'ingress = "45mbit"' if host in "zt" else 'egress = "45mbit"']
        lines += [more] if host == "x" else []
    path = folder / "cloud.guarantee.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    left = [{"name": host, "switch": "left"} for host in ("x", *CROWD)]
    right = [{"name": host, "switch": "right"} for host in "zt"]
    switches: list[str | Mapping[str, Any]] = [
        "core",
        {"name": "left", "parent": "core", "up": "100mbit"},
        {"name": "right", "parent": "core"},
    ]
    with lab.session(topology([*left, *right], switches=switches)) as session:
        marks = [str(agent_binary()), "mark", "--device", "up", "--rate", "95000000", "--threshold", "90000"]
        with session.exec("left", marks, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as marker:
            assert heard(marker) == "marks\n"
            yield session
            marker.communicate("")


def run(cloud: lab.Session, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return gavotte("guarantee", *words, "--hosts", "lab", env=cloud.environment())


def keep(cloud: lab.Session, wanted: Path, *, fixed: bool = False) -> None:
    """Apply guarantees like `gavotte guarantee apply`, without a process for it."""
    apply(read_guarantee(wanted), read_inventory(cloud.hosts_file), fixed=fixed)


def pair(cloud: lab.Session) -> PairState | None:
    """Return the status of the pair from x to z."""
    state = status(read_inventory(cloud.hosts_file)).pairs
    return next((each for each in state if (each.source, each.target) == ("x", "z")), None)


def queues(cloud: lab.Session) -> int:
    """Return the bytes that have left x's root queue."""
    output = cloud.run("x", ["tc", "-s", "-j", "qdisc", "show", "dev", "eth0"], capture_output=True, text=True).stdout
    return next(int(each["bytes"]) for each in json.loads(output) if each["kind"] == "htb")


def becomes(cloud: lab.Session, right: Callable[[PairState], bool]) -> None:
    """Wait until the pair from x to z is as it should be."""

    def is_right() -> bool:
        now = pair(cloud)
        return now is not None and right(now)

    until(is_right)


def test_idle_hosts_send_each_other_nothing(cloud: lab.Session, tmp_path: Path) -> None:
    """An agent that took another one's datagrams for traffic answered them, forever and between all hosts."""
    keep(cloud, guarantee(tmp_path))
    with traffic(cloud, "z", "sink", 5002, 2, stdout=subprocess.PIPE, text=True) as sink:
        heard(sink)
        for host in ("x", *CROWD[:3]):
            traffic(cloud, host, "tcp", address(cloud, "z"), 5002, 0.2, 1).wait()
        sink.communicate()
    inventory = read_inventory(cloud.hosts_file)

    def sent() -> list[int]:
        return [host.control_bytes for host in status(inventory).hosts]

    def is_quiet() -> bool:
        before = sent()
        time.sleep(0.8)
        return sent() == before

    until(is_quiet)


def test_it_stands_without_its_controller_and_is_told_of(cloud: lab.Session, tmp_path: Path) -> None:
    wanted = guarantee(tmp_path)
    run(cloud, "clear")
    dry = run(cloud, "apply", wanted, "--dry-run")
    assert dry.returncode == 0
    assert "nothing was changed" in dry.stderr
    assert "htb" not in qdiscs(cloud, HOSTS)
    done = run(cloud, "apply", wanted)
    assert done.returncode == 0, done.stderr
    assert qdiscs(cloud, HOSTS).count("qdisc htb 6776:") == len(HOSTS)
    with traffic(cloud, "z", "sink", 5001, 2, stdout=subprocess.PIPE, text=True) as sink:
        heard(sink)
        traffic(cloud, "x", "tcp", address(cloud, "z"), 5001, 1, 1).wait()
        sink.communicate()
    document = json.loads(run(cloud, "status", "--json").stdout)
    assert set(document) == {"pairs", "hosts", "warnings"}
    own = next(each for each in document["pairs"] if each["source"] == "x")
    assert {"source", "target", "guarantee_bps", "limit_bps", "rate_bps", "met", "marks"} <= set(own)
    assert [(host["host"], host["why"]) for host in document["hosts"]] == [(host, "") for host in HOSTS]
    exposed = run(cloud, "status", "--prometheus").stdout
    assert 'gavotte_guarantee_pair_guarantee_bps{source="x",target="z"}' in exposed
    checked = gavotte("hosts", "check", "--hosts", "lab", "--json", env=cloud.environment())
    verdicts = [host["verdict"] for host in json.loads(checked.stdout)["hosts"]]
    assert all("active until it is cleared" in verdict for verdict in verdicts)


def test_measuring_says_that_guarantees_stand(cloud: lab.Session, tmp_path: Path) -> None:
    keep(cloud, guarantee(tmp_path))
    inventory = read_inventory(cloud.hosts_file)
    two = [host for host in inventory.host if host.name in "xz"]
    write_inventory(tmp_path / "two.hosts.toml", Inventory(format=inventory.format, host=two))
    words: list[str | Path] = ["--hosts", tmp_path / "two.hosts.toml", "-o", tmp_path / "two.history.npz"]
    done = gavotte("measure", *words, env=cloud.environment())
    assert done.returncode == 0, done.stderr
    assert "bandwidth guarantees limit what x" in done.stderr


def test_it_is_kept_against_a_crowd(cloud: lab.Session, tmp_path: Path) -> None:
    keep(cloud, guarantee(tmp_path))
    sinks = {host: traffic(cloud, host, "sink", 5002, 6, stdout=subprocess.PIPE, text=True) for host in "zt"}
    for sink in sinks.values():
        heard(sink)
    senders = [traffic(cloud, "x", "tcp", address(cloud, "z"), 5002, 5, 1)]
    senders += [traffic(cloud, host, "tcp", address(cloud, "t"), 5002, 5, 1) for host in CROWD]
    for sender in senders:
        sender.wait()
    values = {host: json.loads(sink.communicate()[0]) for host, sink in sinks.items()}

    def rate_bps(host: str) -> float:
        bins = [sum(each) for each in zip(*values[host]["bins"].values(), strict=True)][8:22]
        return float(8 * WIRE_PER_PAYLOAD * sum(bins) / (len(bins) * values[host]["bin_s"]))

    # Without a guarantee it would have an eleventh of the link among eleven senders, 9 Mbit/s.
    assert rate_bps("z") > 0.8 * 45e6
    assert rate_bps("t") > 0.8 * 45e6
    crowded = pair(cloud)
    assert crowded is not None
    assert crowded.marks > 0


def test_hosts_outside_the_file_break_a_guarantee_and_status_says_so(cloud: lab.Session, tmp_path: Path) -> None:
    """Y0 is not in the file. Its eight connections leave one of X a ninth of the link, 11 of 45 Mbit/s."""
    wanted = tmp_path / "two.guarantee.toml"
    entries = [f'[[guarantee]]\nhost = "{host}"\n{way} = "45mbit"' for host, way in (("x", "egress"), ("z", "ingress"))]
    wanted.write_text("\n".join(['format = "gavotte/guarantee/1"', *entries]) + "\n")
    run(cloud, "clear")
    applied = run(cloud, "apply", wanted)
    assert "none of their guarantees is certain" in applied.stderr
    with ExitStack() as stack:
        sink = stack.enter_context(traffic(cloud, "z", "sink", 5006, 60, stdout=subprocess.PIPE, text=True))
        stack.callback(sink.kill)
        heard(sink)
        for host, connections in (("y0", 8), ("x", 1)):
            sender = stack.enter_context(traffic(cloud, host, "tcp", address(cloud, "z"), 5006, 60, connections))
            stack.callback(sender.kill)
        until(lambda: run(cloud, "status").returncode == 3)
        time.sleep(2.5)
        state = run(cloud, "status")
    assert state.returncode == 3
    assert "z receives" in state.stderr
    assert "from hosts that are not among the guarantees" in state.stderr
    assert "x: less than the guarantee of 45.0 Mbit/s reached z in" in state.stderr


def test_it_changes_while_packets_flow(cloud: lab.Session, tmp_path: Path) -> None:
    keep(cloud, guarantee(tmp_path))
    before = agent_of(cloud, "x")
    with traffic(cloud, "z", "sink", 5003, 60, stdout=subprocess.PIPE, text=True) as sink:
        heard(sink)
        with traffic(cloud, "x", "tcp", address(cloud, "z"), 5003, 60, 1) as sender:
            becomes(cloud, lambda now: now.rate_bps > 40e6)
            keep(cloud, guarantee(tmp_path, more='egress_limit = "50mbit"'))
            becomes(cloud, lambda now: now.limit_bps <= 50e6)
            sent = queues(cloud)
            keep(cloud, guarantee(tmp_path, mode="loss"))
            # No queue is replaced for it: waiting packets stay, and counters continue.
            assert queues(cloud) >= sent
            keep(cloud, guarantee(tmp_path), fixed=True)
            becomes(cloud, lambda now: now.limit_bps == now.guarantee_bps)
            becomes(cloud, lambda now: 30e6 < now.rate_bps < 48e6)
            assert sender.poll() is None
            sender.kill()
        sink.kill()
    assert agent_of(cloud, "x") == before
    # A pair without traffic waits for no report.
    becomes(cloud, lambda now: now.why == "idle")
    time.sleep(1.2)
    becomes(cloud, lambda now: now.why == "idle")


def test_a_silent_agent_means_static_guarantees(cloud: lab.Session, tmp_path: Path) -> None:
    keep(cloud, guarantee(tmp_path))
    silent = agent_of(cloud, "z")
    with traffic(cloud, "z", "sink", 5004, 60, stdout=subprocess.PIPE, text=True) as sink:
        heard(sink)
        with traffic(cloud, "x", "tcp", address(cloud, "z"), 5004, 60, 1) as sender:
            becomes(cloud, lambda now: now.limit_bps > 50e6)
            os.kill(silent, signal.SIGSTOP)
            whole = read_inventory(cloud.hosts_file)
            alone = Inventory(format=whole.format, host=[whole.host[0]])
            try:
                until(lambda: "silent" in status(alone).hosts[0].why)
                own = next(each for each in status(alone).pairs if each.target == "z")
                # One is the last reported share, the other the share when the agent fell silent: 320 bit/s were seen.
                assert own.limit_bps == pytest.approx(own.guarantee_bps, rel=1e-3)
            finally:
                os.kill(silent, signal.SIGCONT)
            # Windows of the last minute that a loaded machine broke are another reason.
            until(lambda: "silent" not in status(alone).hosts[0].why)
            sender.kill()
        sink.kill()


def test_a_silent_receivers_hose_stays_divided(cloud: lab.Session, tmp_path: Path) -> None:
    """Senders to one host keep to the shares of its hose that its agent reported last; the hose of each is as large."""
    keep(cloud, guarantee(tmp_path))
    crowd, silent = CROWD[:3], agent_of(cloud, "t")
    whole = read_inventory(cloud.hosts_file)
    others = Inventory(format=whole.format, host=[host for host in whole.host if host.name in crowd])

    def shares_bps() -> list[float]:
        return [pair.guarantee_bps for pair in status(others).pairs if pair.target == "t" and pair.why != "idle"]

    def are_divided() -> bool:
        result = shares_bps()
        return len(result) == len(crowd) and 40e6 < sum(result) < 46e6

    with ExitStack() as stack:
        sink = stack.enter_context(traffic(cloud, "t", "sink", 5005, 60, stdout=subprocess.PIPE, text=True))
        stack.callback(sink.kill)
        heard(sink)
        for host in crowd:
            sender = stack.enter_context(traffic(cloud, host, "tcp", address(cloud, "t"), 5005, 60, 1))
            stack.callback(sender.kill)
        # One sender alone has the whole hose, so its sum proves nothing.
        until(are_divided)
        os.kill(silent, signal.SIGSTOP)
        try:
            until(lambda: all("silent" in host.why for host in status(others).hosts))
            time.sleep(1.5)
            assert sum(shares_bps()) < 46e6
        finally:
            os.kill(silent, signal.SIGCONT)


def test_what_others_change_is_built_again(cloud: lab.Session, tmp_path: Path) -> None:
    keep(cloud, guarantee(tmp_path))
    for change in (
        ["tc", "qdisc", "replace", "dev", "eth0", "root", "pfifo"],
        ["tc", "qdisc", "del", "dev", "eth0", "clsact"],
    ):
        assert cloud.run("x", change).returncode == 0
        until(lambda: "htb 6776:" in qdiscs(cloud, ["x"]) and "clsact" in qdiscs(cloud, ["x"]))
    state = status(read_inventory(cloud.hosts_file))
    why = next(host.why for host in state.hosts if host.host == "x")
    assert "another program changed eth0" in why
    assert "replaced by `pfifo`" in why
    assert "its classifiers were removed" in why


def test_apply_repairs_what_an_agent_has_not_seen(cloud: lab.Session, tmp_path: Path) -> None:
    wanted = guarantee(tmp_path)
    keep(cloud, wanted)
    agent = agent_of(cloud, "x")
    os.kill(agent, signal.SIGSTOP)
    try:
        assert cloud.run("x", ["tc", "qdisc", "del", "dev", "eth0", "root"]).returncode == 0
    finally:
        os.kill(agent, signal.SIGCONT)
    assert run(cloud, "apply", wanted).returncode == 0
    assert "htb 6776:" in qdiscs(cloud, ["x"])


def test_what_is_in_no_pair_does_not_cost_others_their_guarantee(cloud: lab.Session, tmp_path: Path) -> None:
    """A neighbour sends from an alias address, and next to it with the priority of the root class."""
    keep(cloud, guarantee(tmp_path))
    alias = address(cloud, "y0").rsplit(".", 1)[0] + ".200"
    assert cloud.run("y0", ["ip", "address", "add", f"{alias}/32", "dev", "eth0"]).returncode == 0
    try:
        with ExitStack() as stack:
            sinks = {
                host: stack.enter_context(traffic(cloud, host, "sink", 5009, 8, stdout=subprocess.PIPE, text=True))
                for host in "zt"
            }
            for sink in sinks.values():
                heard(sink)
            aliased = ["udp", address(cloud, "t"), 5009, 6, 100e6, "--from", alias]
            prior = ["udp", address(cloud, "t"), 5009, 6, 100e6, "--priority", 0x67760000]
            senders = [traffic(cloud, "y0", *words) for words in (aliased, prior)]
            senders.append(traffic(cloud, "x", "tcp", address(cloud, "z"), 5009, 6, 1))
            for sender in senders:
                sender.wait()
            counted = {host: json.loads(sink.communicate()[0]) for host, sink in sinks.items()}
    finally:
        cloud.run("y0", ["ip", "address", "del", f"{alias}/32", "dev", "eth0"])

    def rate_bps(host: str) -> float:
        bins = [sum(each) for each in zip(*counted[host]["bins"].values(), strict=True)][10:26]
        return float(8 * WIRE_PER_PAYLOAD * sum(bins) / (len(bins) * counted[host]["bin_s"]))

    # Unshaped, either of them takes nearly the whole link.
    assert rate_bps("z") > 0.8 * 45e6


@pytest.mark.parametrize("begin", ["junk", "GVP6"])
def test_datagrams_of_others_cost_no_reports(cloud: lab.Session, tmp_path: Path, begin: str) -> None:
    """The receiver's port for reports is flooded, by junk and by forged reports."""
    keep(cloud, guarantee(tmp_path))
    port = 7411 + 1
    flood_bps = 8 * (42 + 66) * 17e3
    with traffic(cloud, "z", "sink", 5010, 8, stdout=subprocess.PIPE, text=True) as sink:
        heard(sink)
        words = [address(cloud, "z"), port, 6, flood_bps, "--payload", begin + "x" * (66 - len(begin))]
        floods = [traffic(cloud, "y1", "udp", *words)]
        sender = traffic(cloud, "x", "tcp", address(cloud, "z"), 5010, 6, 1)
        # The pair is above its guarantee, so reports arrive.
        becomes(cloud, lambda now: now.limit_bps > 46e6)
        for process in (*floods, sender):
            process.wait()
        counted = json.loads(sink.communicate()[0])
    bins = [sum(each) for each in zip(*counted["bins"].values(), strict=True)][10:26]
    assert 8 * WIRE_PER_PAYLOAD * sum(bins) / (len(bins) * counted["bin_s"]) > 0.9 * 45e6
    silent = [host.why for host in status(read_inventory(cloud.hosts_file)).hosts if "silent" in host.why]
    assert silent == []


def test_nothing_is_left_of_agents_that_were_killed(cloud: lab.Session, tmp_path: Path) -> None:
    wanted = read_guarantee(guarantee(tmp_path)).model_copy(update={"remains": "nothing"})
    apply(wanted, read_inventory(cloud.hosts_file))
    assert "htb" in qdiscs(cloud, ["y9"])
    os.kill(agent_of(cloud, "y9"), signal.SIGKILL)
    until(lambda: "htb" not in qdiscs(cloud, ["y9"]) and "clsact" not in qdiscs(cloud, ["y9"]))
    inventory = read_inventory(cloud.hosts_file)
    assert "does not answer" in next(host.why for host in status(inventory).hosts if host.host == "y9")
    done = run(cloud, "clear")
    assert done.returncode == 1
    assert "y9: its agent does not answer" in done.stderr
    assert "htb" not in qdiscs(cloud, HOSTS)
    assert "clsact" not in qdiscs(cloud, HOSTS)
    states = status(inventory)
    assert states.pairs == ()
    assert {host.why for host in states.hosts if host.host != "y9"} == {"its agent enforces no guarantees"}
