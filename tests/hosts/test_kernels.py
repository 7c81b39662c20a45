"""`make test-kernels`: an agent on Linux 5.10, in a machine that qemu emulates, with an agent on this host's kernel.

The machine also has a clock of its own, which some tests set while a verb runs.

4.18, the kernel of RHEL 8, is not tried: Debian's mirrors do not have it any more.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tomli_w
from tests.shell import gavotte, until

from gavotte.agents.binary import agent_binary
from gavotte.formats.record import read_samples
from gavotte.hosts import Bearer, keys
from gavotte.terms.goodput import GOODPUT_PER_WIRE

KERNELS = os.environ.get("GAVOTTE_KERNELS", "")
ADDRESSES = {"near": "10.77.0.1", "vm": "10.77.0.2"}
RATE_MBIT = 20
"""What the tap device carries to the virtual machine."""

GUARANTEED_MBIT = 5
SET_CLOCK = """while [ ! -e /tmp/enough ]; do
    for step in 10 -10 -10 10; do
        /bin/busybox date -s @$(($(/bin/busybox date +%s) + step))
        /bin/busybox usleep 700000
    done
done
/bin/busybox rm /tmp/enough
"""
"""Orders for the virtual machine: set its clock by 10 s again and again."""

BOOT_S = 300.0
"""Longest time until the machine's agent answers: an emulated processor is slow, and others use this machine, too."""

pytestmark = [
    pytest.mark.skipif(not KERNELS, reason="`make test-kernels` downloads a kernel and runs it"),
    pytest.mark.timeout(600),
]


def run(*words: str) -> None:
    subprocess.run(words, check=True)


def archive(folder: Path) -> bytes:
    """Return the folder as an archive that the kernel unpacks over the first one."""
    names = "\n".join(str(path.relative_to(folder)) for path in sorted(folder.rglob("*")))
    packed = subprocess.run(
        ["cpio", "--quiet", "-o", "-H", "newc"], cwd=folder, input=names.encode(), capture_output=True, check=True
    )
    return gzip.compress(packed.stdout)


@contextmanager
def ended(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(words)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An Inventory of the virtual machine and this one, which meet at a tap device."""
    folder = tmp_path_factory.mktemp("kernels")
    keys(folder / "keys", [Bearer(name, (address,)) for name, address in ADDRESSES.items()])
    inside = folder / "inside" / "agent"
    inside.mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "vm" / "init", inside.parent)
    for path in (Path(agent_binary()), *(folder / "keys" / "hosts" / "vm").iterdir()):
        shutil.copy(path, inside)
    initramfs = folder / "initramfs"
    initramfs.write_bytes(Path(KERNELS, "initramfs").read_bytes() + archive(inside.parent))
    listed = [{"name": name, "address": ip, "agent": f"tls://{ip}:7410"} for name, ip in ADDRESSES.items()]
    inventory = folder / "kernels.hosts.toml"
    inventory.write_text(tomli_w.dumps({"format": "gavotte/hosts/1", "keys": "keys", "host": listed}))
    for words in (
        "ip link set lo up",
        "ip tuntap add tap0 mode tap",
        f"ip address add {ADDRESSES['near']}/24 dev tap0",
        "ip link set tap0 up",
        "tc qdisc add dev tap0 root handle 1: htb default 1",
        f"tc class add dev tap0 parent 1: classid 1:1 htb rate {RATE_MBIT}mbit burst 32k",
    ):
        run(*words.split())
    machine = [
        "qemu-system-x86_64",
        "-accel",
        "tcg",
        "-cpu",
        "max",
        "-m",
        "512",
        "-nographic",
        "-no-reboot",
        "-nodefaults",
    ]
    machine += ["-kernel", f"{KERNELS}/vmlinuz", "-initrd", str(initramfs), "-serial", f"file:{folder / 'console'}"]
    machine += ["-append", f"console=ttyS0 quiet panic=-1 address={ADDRESSES['vm']}"]
    machine += ["-netdev", "tap,id=net,ifname=tap0,script=no,downscript=no", "-device", "virtio-net-pci,netdev=net"]
    own = folder / "keys" / "hosts" / "near"
    agent = [agent_binary(), "serve", "--die-with-parent", "--bind", ADDRESSES["near"]]
    agent += ["--tls", f"{ADDRESSES['near']}:7410"]
    agent += ["--ca", str(own / "ca.pem"), "--cert", str(own / "host.pem"), "--key", str(own / "host.key")]
    with ended(agent), ended(machine):
        until(lambda: gavotte("hosts", "check", "--hosts", str(inventory)).returncode == 0, BOOT_S)
        yield inventory


def test_an_old_kernel_is_ready_and_named(hosts: Path) -> None:
    done = gavotte("hosts", "check", "--hosts", str(hosts))
    assert done.returncode == 0, done.stderr
    assert "5.10." in done.stdout
    assert "2 of 2 pairs can be used" in done.stdout + done.stderr


def test_tcp_to_an_old_kernel_gets_the_rate_of_the_shaper(hosts: Path, tmp_path: Path) -> None:
    words = ["--method", "bulk", "-o", str(tmp_path / "h.npz"), "--json"]
    done = gavotte("measure", "--hosts", str(hosts), *words)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["answered"] == 2, done.stderr
    names = document["hosts"]
    rate_bps = document["rate_bps"][names.index("near")][names.index("vm")]
    # The shaper sees packets of many segments, and counts their headers once.
    assert RATE_MBIT * 1e6 * GOODPUT_PER_WIRE * 0.95 < rate_bps < RATE_MBIT * 1e6 * 1.01


def test_an_old_kernel_receives_and_sends_a_broadcast(hosts: Path, tmp_path: Path) -> None:
    content, copy = tmp_path / "content", tmp_path / "copy"
    content.write_bytes(bytes(range(256)) * 4_000)
    for source, path, target in (("near", str(content), "/tmp/copy"), ("vm", "/tmp/copy", str(copy))):
        done = gavotte("broadcast", path, "--from", source, "-o", target, "--hosts", str(hosts))
        assert done.returncode == 0, done.stderr
    assert copy.read_bytes() == content.read_bytes()


def test_an_old_kernel_counts_and_follows_demand(hosts: Path, tmp_path: Path) -> None:
    """Linux before 5.11 counts BPF maps as locked memory, of which 64 kB are allowed by default."""
    (tmp_path / "g.toml").write_text('format = "gavotte/guarantee/1"\n[[guarantee]]\nhost = "vm"\negress = "5mbit"\n')
    inventory = ("--hosts", str(hosts))
    applied = gavotte("guarantee", "apply", str(tmp_path / "g.toml"), *inventory)
    cleared = gavotte("guarantee", "clear", *inventory)
    assert (applied.returncode, "static" in applied.stderr) == (0, False), applied.stderr
    assert cleared.returncode == 0, cleared.stderr
    watched = gavotte("profile", "live", "--for", "1", *inventory)
    assert (watched.returncode, "UDP is not counted" in watched.stderr) == (0, False), watched.stderr


def order(hosts: Path, folder: Path, orders: str, name: str = "orders") -> None:
    """Have the virtual machine run some orders."""
    path = folder / name
    path.write_text(orders)
    done = gavotte("broadcast", str(path), "--from", "near", "--to", "vm", "-o", f"/tmp/{name}", "--hosts", str(hosts))
    assert done.returncode == 0, done.stderr


@pytest.fixture
def unsteady(hosts: Path, tmp_path: Path) -> Iterator[Path]:
    """The hosts, while the virtual machine's clock is set by 10 s every 0.7 s."""
    order(hosts, tmp_path, SET_CLOCK)
    yield hosts
    order(hosts, tmp_path, "enough", "enough")


@pytest.mark.parametrize("method", ["train", "bulk"])
def test_rates_are_right_while_the_clock_is_set(unsteady: Path, method: str) -> None:
    done = gavotte("measure", "--hosts", str(unsteady), "--method", method, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    names = document["hosts"]
    rate_bps = document["rate_bps"][names.index("near")][names.index("vm")]
    assert RATE_MBIT * 1e6 * GOODPUT_PER_WIRE * 0.95 < rate_bps < RATE_MBIT * 1e6 * 1.01


def test_a_broadcast_arrives_while_the_clock_is_set(unsteady: Path, tmp_path: Path) -> None:
    content, copy = tmp_path / "content", tmp_path / "copy"
    content.write_bytes(bytes(range(256)) * 16_000)
    for source, path, target in (("near", str(content), "/tmp/copy"), ("vm", "/tmp/copy", str(copy))):
        done = gavotte("broadcast", path, "--from", source, "-o", target, "--hosts", str(unsteady))
        assert done.returncode == 0, done.stderr
    assert copy.read_bytes() == content.read_bytes()


def test_a_guarantee_is_kept_while_the_clock_is_set(unsteady: Path, tmp_path: Path) -> None:
    wanted = f'[[guarantee]]\nhost = "vm"\negress = "{GUARANTEED_MBIT}mbit"\n'
    (tmp_path / "g.toml").write_text(f'format = "gavotte/guarantee/1"\n{wanted}')
    inventory = ("--hosts", str(unsteady))
    applied = gavotte("guarantee", "apply", str(tmp_path / "g.toml"), *inventory)
    assert applied.returncode == 0, applied.stderr
    try:
        done = gavotte("measure", *inventory, "--method", "bulk", "--seconds", "4", "--json")
    finally:
        gavotte("guarantee", "clear", *inventory)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    rate_bps = document["rate_bps"][document["hosts"].index("vm")][document["hosts"].index("near")]
    assert rate_bps > 0.95 * GUARANTEED_MBIT * 1e6 * GOODPUT_PER_WIRE


def test_samples_of_a_campaign_are_right_while_the_clock_is_set(unsteady: Path, tmp_path: Path) -> None:
    study, output = tmp_path / "set.campaign.toml", tmp_path / "r.jsonl"
    study.write_text(
        f'format = "gavotte/campaign/1"\nname = "set"\nseconds = 2\nrepetitions = 3\n'
        f'[driver]\nkind = "ssh"\nhosts = "{unsteady}"\n'
        '[[scenario]]\nname = "one"\nkind = "pair"\nsource = ["near"]\ntarget = ["vm"]\nconnections = [1]\n'
    )
    done = gavotte("campaign", "run", str(study), "-o", str(output))
    assert done.returncode == 0, done.stderr
    rates_bps = [sample.value for sample in read_samples(output)]
    assert rates_bps == pytest.approx([RATE_MBIT * 1e6 * GOODPUT_PER_WIRE] * 3, rel=0.06)
