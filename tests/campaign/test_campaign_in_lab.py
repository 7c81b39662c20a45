"""Campaigns with real packets: every kind of scenario, flavours, tenants, and kills at random moments."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.campaign.studies import machines_of, scenario_text
from tests.shell import GAVOTTE, gavotte, processes_of, until

from gavotte import lab
from gavotte.agents.runtime import RUNTIME_DIR_VARIABLE
from gavotte.campaign import plan, run
from gavotte.campaign.drivers.cgroups import bases
from gavotte.errors import UnsupportedError
from gavotte.formats.campaign import read_campaign
from gavotte.formats.record import Sample, read_samples
from gavotte.formats.topology import read_topology
from gavotte.terms.goodput import GOODPUT_PER_WIRE

pytestmark = pytest.mark.lab

HOSTS = {"vm0": "pm0", "vm1": "pm0", "vm2": "pm1", "vm3": "pm0"}
HEAD = """format = "gavotte/campaign/1"
name = "study"
seed = 7
seconds = {seconds}
repetitions = {repetitions}
[driver]
kind = "lab"
topology = "cloud.topology.toml"
tenants = {{ red = ["vm0", "vm1", "vm2"], blue = ["vm3"] }}
"""
WIRE_BPS = 100e6


def write(folder: Path, scenarios: str, *, seconds: float = 0.3, repetitions: int = 1, rate: str = "100mbit") -> Path:
    (folder / "cloud.topology.toml").write_text(machines_of(HOSTS, rate=rate, machine_rate="1gbit"))
    path = folder / "study.campaign.toml"
    path.write_text(HEAD.format(seconds=seconds, repetitions=repetitions) + scenarios)
    return path


def taken(path: Path) -> dict[str, list[Sample]]:
    output = path.with_name("r.jsonl")
    done = run(plan(read_campaign(path)), output, lambda topology: lab.session(topology, source="tests"))
    assert not done.failed, done.failed
    by_scenario: dict[str, list[Sample]] = {}
    for sample in read_samples(output):
        by_scenario.setdefault(sample.scenario, []).append(sample)
    return by_scenario


@pytest.mark.rare
def test_every_kind_of_scenario_text(tmp_path: Path) -> None:
    engines = [name for name in ("iperf3", "nuttcp") if shutil.which(name)]
    study = [
        scenario_text("near", "pair", "vm0", "vm1"),
        scenario_text("far", "pair", "vm0", "vm2", connections=[1, 8]),
        scenario_text("tenant", "pair", "vm0", "vm3"),
        scenario_text("host", "pair", "vm0", "pm0"),
        scenario_text("back", "pair", "pm0", "vm0"),
        scenario_text("away", "pair", "vm0", "pm1"),
        scenario_text("hosts", "pair", "pm0", "pm1"),
        scenario_text("apart", "pair", "vm3", "vm2"),
        scenario_text("self", "loopback", "vm0"),
        scenario_text("two", "parallel", "vm0 pm0", "vm2 pm1"),
        scenario_text("shuffle", "shuffle", "vm0 vm1", "vm2 vm3"),
        scenario_text("incast", "incast", "vm0 vm1", "vm2"),
        scenario_text("all", "all-to-all", "vm0 vm1 vm2"),
        scenario_text("vxlan", "tunnel", "vm0", "vm2"),
        *(scenario_text(f"far-{name}", "pair", "vm0", "vm2", connections=[2], engine=name) for name in engines),
    ]
    loaded = (
        scenario_text("loaded", "pair", "vm0", "vm2").rstrip() + '\nbackground = [{source = "vm1", target = "vm2"}]\n'
    )
    # Of four pairs that start at once, the last was ready 0.74 s after the first. Half the time is required.
    by_scenario = taken(write(tmp_path, "".join(study) + loaded, seconds=2.0))
    link = WIRE_BPS * GOODPUT_PER_WIRE
    for name in ("far", "tenant", "incast", "away", "hosts", "apart", "two", *(f"far-{name}" for name in engines)):
        for sample in by_scenario[name]:
            # A bucket lets 100 kB through at once: a few percent in half a second.
            assert 0.7 * link < sample.value < 1.25 * link, (name, sample.value / link)
    assert by_scenario["near"][0].value > 2 * link
    assert by_scenario["host"][0].value > 2 * link
    assert by_scenario["self"][0].value > 2 * link
    assert by_scenario["vxlan"][0].value < 1.15 * link
    assert by_scenario["loaded"][0].value < 0.85 * link
    distances = {name: samples[0].metrics["distance"].value for name, samples in by_scenario.items()}
    known = {"self": 0, "near": 0, "host": 0, "far": 2, "away": 2, "hosts": 2, "tenant": 4, "apart": 4}
    assert {name: distances[name] for name in known} == known
    hops = {name: samples[0].metrics["hops"].value for name, samples in by_scenario.items()}
    # Within a machine no router forwards; another tenant is reached through the router, even on the same machine.
    assert (hops["near"], hops["far"], hops["tenant"], hops["vxlan"]) == (1, 2, 2, 1)
    pairs = {"all": 6, "incast": 2, "two": 2, "shuffle": 4}
    for samples in by_scenario.values():
        for sample in samples:
            if sample.engine != "nuttcp":  # which reports the sum alone
                assert len(sample.connection_bps) == sample.connections * pairs.get(sample.scenario, 1)
                assert 0 < (sample.metrics["jain"].value or 0) <= 1.0000001
            assert sample.metadata["congestion_used"] == "cubic", sample.engine
            for side in ("before", "after"):
                accounts = sample.metadata[side]
                assert set(accounts) == {*sample.source.split(","), *sample.target.split(",")}
                assert all(
                    {"kernel", "cpu_ticks", "interfaces", "clock_source", "versions"} <= each.keys()
                    for each in accounts.values()
                )
    state = by_scenario["far"][0].metadata["before"]["vm0"]
    assert state["versions"]["agent"].startswith("gavotte-agent ")
    if shutil.which("ethtool"):
        assert "generic-segmentation-offload" in state["interfaces"]["eth0"]["offloads"]


@pytest.mark.parametrize("kind", ["lab", "ssh"])
def test_hosts_are_found_in_any_case(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, scenario_text("far", "pair", "VM0", "Vm2"))
    with ExitStack() as stack:
        if kind == "ssh":
            session = stack.enter_context(lab.session(read_topology(tmp_path / "cloud.topology.toml"), source="tests"))
            text, count = re.subn(
                r'kind = "lab".*\ntopology = .*', f'kind = "ssh"\nhosts = "{session.hosts_file}"', HEAD
            )
            assert count == 1
            path.write_text(text.format(seconds=0.3, repetitions=1) + scenario_text("far", "pair", "VM0", "Vm2"))
        sample = taken(path)["far"][0]
    assert (sample.source, sample.target) == ("VM0", "Vm2")
    assert sample.value > 0.7 * WIRE_BPS * GOODPUT_PER_WIRE


def test_a_plain_user_measures_all_but_flavours() -> None:
    folder = Path(tempfile.mkdtemp(prefix="gvt-", dir="/tmp"))  # which another user can reach
    words, plain = [], os.geteuid() != 0
    if not plain:
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]
        tried = subprocess.run([*words, "sh", "-c", f"'{GAVOTTE}' --help"], capture_output=True, check=False)
        plain = tried.returncode == 0
        if plain:
            os.chown(folder, 65534, 65534)
        else:  # an interpreter in root's own home: root without its privileges cannot read it, but can map itself
            words = ["setpriv", "--bounding-set=-all,+setfcap"]
    engine = {"engine": "nuttcp"} if shutil.which("nuttcp") else {}
    study = scenario_text("hosts", "pair", "pm0", "pm1") + scenario_text("apart", "pair", "vm3", "vm2", **engine)
    path = write(folder, study + scenario_text("vxlan", "tunnel", "vm0", "vm2"))
    known = {**os.environ, "HOME": str(folder), RUNTIME_DIR_VARIABLE: str(folder / "run")}

    def take(output: str) -> subprocess.CompletedProcess[str]:
        line = [*words, str(GAVOTTE), "campaign", "run", str(path), "-o", str(folder / output)]
        return subprocess.run(line, capture_output=True, text=True, env=known, timeout=100, check=False)

    done = take("r.jsonl")
    if "user namespaces" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    for sample in read_samples(folder / "r.jsonl"):
        assert sample.value < 1.25 * WIRE_BPS * GOODPUT_PER_WIRE, sample.scenario
    if plain:  # control groups are files, root's own
        flavour = '[[flavour]]\nname = "half"\ncpus = 0.5\n'
        write(folder, flavour + scenario_text("lo", "loopback", "vm0", flavours=["half"]))
        refused = take("s.jsonl")
        assert refused.returncode == 1
        assert "does not allow limits on its processors" in refused.stderr or "no control groups" in refused.stderr
    shutil.rmtree(folder)


def test_flavours_limit_processors(tmp_path: Path) -> None:
    try:
        bases()
    except UnsupportedError as error:
        pytest.skip(str(error))
    flavours = '[[flavour]]\nname = "tenth"\ncpus = 0.1\n[[flavour]]\nname = "one"\ncores = 1\n'
    by_scenario = taken(
        write(tmp_path, flavours + scenario_text("lo", "loopback", "vm0", flavours=["tenth", "one"], connections=[2]))
    )
    by_flavour = {sample.flavour: sample for sample in by_scenario["lo"]}
    assert by_flavour["tenth"].value < 0.7 * by_flavour["one"].value
    throttled = {name: sample.metrics["sender_throttled"].value for name, sample in by_flavour.items()}
    assert throttled["one"] == 0.0
    assert (throttled["tenth"] or 0.0) > 0.3
    # The state after the sample still shows the limits that applied to it.
    limits = by_flavour["tenth"].metadata["after"]["vm0"]["cgroup"]
    quota = limits.get("cpu.max", f"{limits.get('cpu.cfs_quota_us')} {limits.get('cpu.cfs_period_us')}").split()
    assert int(quota[0]) / int(quota[1]) == pytest.approx(0.1)
    assert by_flavour["one"].metadata["after"]["vm0"]["cgroup"]["cpuset.cpus"] == "0"
    assert not [
        folder
        for base in bases()
        for folder in base.glob("gavotte-campaign-*/vm0")
        if not (folder / "cgroup.procs").read_text()
    ]


def test_a_stop_rule_ends_steady_scenarios_early(tmp_path: Path) -> None:
    stop = "[stop]\nrelative_half_width = 5.0\nmost_repetitions = 6\n"
    by_scenario = taken(write(tmp_path, scenario_text("far", "pair", "vm0", "vm2") + stop, seconds=0.3, repetitions=2))
    assert len(by_scenario["far"]) == 2


@pytest.mark.rare
def test_killed_ten_times_it_has_exactly_its_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kill -9` of the controller, and of an agent, at random moments: no sample is missing, double or torn."""
    runtime = Path(tempfile.mkdtemp(prefix="gvt-", dir="/tmp"))  # short, for sockets, and no other lab's
    monkeypatch.setenv(RUNTIME_DIR_VARIABLE, str(runtime))
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    path = write(tmp_path, scenario_text("far", "pair", "vm0", "vm2", connections=[1, 4]), seconds=0.2, repetitions=6)
    planned = json.loads(gavotte("campaign", "plan", path, "--json").stdout)["samples"]
    output = tmp_path / "r.jsonl"
    line = [str(GAVOTTE), "campaign", "run", str(path), "-o", str(output), "--resume"]
    kills = 0
    for number in range(10):
        running = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            running.wait(rng.uniform(0.5, 2.0))
        except subprocess.TimeoutExpired:
            kills += 1
            if number % 3 == 2:
                _kill_an_agent(runtime, rng)
                with suppress(subprocess.TimeoutExpired):
                    running.wait(rng.uniform(0.0, 0.6))
            running.kill()
        running.communicate()
    assert kills >= 3, "it was done before it could be killed"
    done = gavotte(*line[1:])
    assert done.returncode == 0, done.stderr
    written = [json.loads(each)["sample"] for each in output.read_text().splitlines()]
    assert len(written) == len(set(written))
    assert set(written) == {each["sample"] for each in planned}
    again = gavotte(*line[1:])
    assert again.returncode == 0
    assert "0 samples taken, 12 already present" in again.stderr
    # Nothing of the killed runs is left.
    until(lambda: not processes_of(runtime), instead=lambda: processes_of(runtime))
    assert [entry.name for entry in runtime.iterdir() if entry.is_dir()] == []
    shutil.rmtree(runtime)


def _kill_an_agent(runtime: Path, rng: random.Random) -> None:
    """An agent of a lab in this folder, if one is up."""
    agents = [
        pid
        for pid, line in processes_of(runtime).items()
        if line.split(" ")[0].endswith("gavotte-agent") and "/vm" in line
    ]
    if agents:
        with suppress(ProcessLookupError):
            os.kill(rng.choice(sorted(agents)), signal.SIGKILL)


@pytest.mark.rare
def test_a_slower_link_is_different_and_the_same_one_alike(tmp_path: Path) -> None:
    for name, rate in (("a", "100mbit"), ("b", "100mbit"), ("c", "90mbit")):
        (tmp_path / name).mkdir()
        taken(write(tmp_path / name, scenario_text("far", "pair", "vm0", "vm2"), seconds=0.5, repetitions=3, rate=rate))
    first = tmp_path / "a" / "r.jsonl"
    alike = gavotte("campaign", "compare", first, tmp_path / "b" / "r.jsonl")
    assert alike.returncode == 0, alike.stdout
    different = gavotte("campaign", "compare", first, tmp_path / "c" / "r.jsonl")
    assert different.returncode == 3, different.stdout


@pytest.mark.rare
def test_a_sample_of_a_far_path_does_not_count_its_slow_start(tmp_path: Path) -> None:
    hosts = [f'[[host]]\nname = "{name}"\nswitch = "core"\negress = "40mbit"\nlatency = "37.5ms"\n' for name in "ab"]
    text = 'format = "gavotte/topology/1"\n[[switch]]\nname = "core"\n' + "".join(hosts)
    (tmp_path / "cloud.topology.toml").write_text(text)
    head = HEAD[: HEAD.index("tenants")].format(seconds=1.0, repetitions=1)
    path = tmp_path / "study.campaign.toml"
    path.write_text(head + scenario_text("far", "pair", "a", "b"))
    (sample,) = taken(path)["far"]
    # With the slow start of 150 ms, a second has less than half of it.
    assert sample.value == pytest.approx(40e6 * GOODPUT_PER_WIRE, rel=0.1)
