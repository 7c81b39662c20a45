"""Pulls and broadcasts with caches on real packets: equal blocks are not sent again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import builders
from tests.shell import GAVOTTE, gavotte, until

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.transfer import BroadcastQuestion, HostCache, PullQuestion, PullResult, pull, send
from gavotte.transfer.conducting import REPORT_S

BLOCK = 256 << 10
CLOUD = builders.topology([{"name": name, "egress": "80mbit"} for name in "abcd"])

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    """Four hosts."""
    with lab.session(CLOUD, source="tests") as session:
        yield session


def pulled(cloud: lab.Session, folder: Path, path: Path, host: str, most_bytes: int = 1 << 30) -> PullResult:
    """Pull an object from host a and compare the copy."""
    cache = HostCache(f"{folder}/cache-{{host}}", most_bytes)
    question = PullQuestion(
        str(path), read_inventory(cloud.hosts_file), "a", host, f"{folder}/{path.name}-{{host}}", cache
    )
    result = pull(question)
    assert (folder / f"{path.name}-{host}").read_bytes() == path.read_bytes()
    return result


def test_blocks_come_from_caches_and_only_once(cloud: lab.Session, tmp_path: Path) -> None:
    first = bytearray(os.urandom(6 * BLOCK + 1000))
    old, new = tmp_path / "model-1", tmp_path / "model-2"
    old.write_bytes(first)
    assert pulled(cloud, tmp_path, old, "b").sent_bytes == {"a": len(first)}
    assert [each.name for each in tmp_path.glob("cache-*")] == ["cache-b"]
    # The next host gets it from the first one's cache.
    assert pulled(cloud, tmp_path, old, "c").sent_bytes == {"b": len(first)}
    # A new version differs in one block, and is longer.
    first[2 * BLOCK] ^= 1
    first += os.urandom(BLOCK)
    new.write_bytes(first)
    changed = pulled(cloud, tmp_path, new, "b")
    assert sum(changed.sent_bytes.values()) == len(first) - 5 * BLOCK
    assert changed.cached_bytes == 5 * BLOCK
    # Its blocks come from two caches, and none from the source.
    again = pulled(cloud, tmp_path, new, "d")
    # The source only looked for a cache.
    assert sorted(each.name for each in tmp_path.glob("cache-*")) == ["cache-b", "cache-c", "cache-d"]
    assert sum(again.sent_bytes.values()) == len(first)
    assert set(again.sent_bytes) == {"b", "c"}
    # All of it is in the host's own cache.
    (tmp_path / "model-2-d").unlink()
    own = pulled(cloud, tmp_path, new, "d")
    assert (own.sent_bytes, own.cached_bytes) == ({}, len(first))


def test_a_damaged_cache_costs_only_its_block(cloud: lab.Session, tmp_path: Path) -> None:
    path = tmp_path / "object"
    path.write_bytes(os.urandom(4 * BLOCK))
    pulled(cloud, tmp_path, path, "b")
    damaged = next(each for each in sorted((tmp_path / "cache-b").glob("*/*")))
    damaged.write_bytes(b"x" * BLOCK)
    assert pulled(cloud, tmp_path, path, "c").sent_bytes == {"a": BLOCK, "b": 3 * BLOCK}
    assert not damaged.exists()


def test_a_cache_is_bounded(cloud: lab.Session, tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / f"object-{number}"
        path.write_bytes(os.urandom(4 * BLOCK))
        pulled(cloud, tmp_path, path, "b", 6 * BLOCK)
        assert sum(each.stat().st_size for each in (tmp_path / "cache-b").glob("*/*")) <= 6 * BLOCK
    # The newest object is whole in the cache.
    (tmp_path / "object-2-b").unlink()
    assert pulled(cloud, tmp_path, path, "b", 6 * BLOCK).sent_bytes == {}


def test_a_broadcast_uses_and_fills_caches(cloud: lab.Session, tmp_path: Path) -> None:
    path = tmp_path / "object"
    path.write_bytes(os.urandom(4 * BLOCK))
    pulled(cloud, tmp_path, path, "b")
    (tmp_path / "object-b").unlink()
    cache = HostCache(f"{tmp_path}/cache-{{host}}")
    inventory = read_inventory(cloud.hosts_file)
    question = BroadcastQuestion(str(path), inventory, "a", f"{tmp_path}/object-{{host}}", ["b", "c"], cache=cache)
    result = send(question)
    assert not result.lost
    assert {each.host: each.cached_bytes for each in result.receivers} == {"b": 4 * BLOCK, "c": 0}
    assert (tmp_path / "object-c").read_bytes() == (tmp_path / "object-b").read_bytes() == path.read_bytes()
    assert len(list((tmp_path / "cache-c").glob("*/*"))) == 4


def test_the_command_says_who_sent(cloud: lab.Session, tmp_path: Path) -> None:
    path = tmp_path / "object"
    path.write_bytes(os.urandom(2 * BLOCK))
    line = ["pull", str(path), "--hosts", str(cloud.hosts_file), "--from", "a", "-o", f"{tmp_path}/copy-{{host}}"]
    line += ["--cache", f"{tmp_path}/cache-{{host}}"]
    done = json.loads(gavotte(*line, "--on", "b", "--json", env=cloud.environment()).stdout)
    assert (done["bytes"], done["sent_bytes"]) == (2 * BLOCK, {"a": 2 * BLOCK})
    done = gavotte(*line, "--on", "b", env=cloud.environment())
    assert "524 kB of them from b's own cache" in done.stderr, done.stderr
    refused = gavotte(*line, "--on", "a", env=cloud.environment())
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1


def test_an_interrupted_pull_goes_on(cloud: lab.Session, tmp_path: Path) -> None:
    path = tmp_path / "object"
    path.write_bytes(os.urandom(120 * BLOCK))
    line = ["pull", str(path), "--hosts", str(cloud.hosts_file), "--from", "a", "--on", "b"]
    line += ["-o", f"{tmp_path}/copy-{{host}}", "--cache", f"{tmp_path}/cache-{{host}}"]
    partial = tmp_path / "copy-b.partial"
    with subprocess.Popen([GAVOTTE, *line], env=cloud.environment(), stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        until(lambda: partial.exists() and partial.stat().st_blocks * 512 > 4 * BLOCK)
        # Reports come every REPORT_S.
        time.sleep(4 * REPORT_S)
        child.send_signal(signal.SIGINT)
        stderr = child.stderr.read()
        assert child.wait(60) == 130, stderr
    assert f"b keeps what has arrived at {partial}" in stderr
    done = gavotte(*line, "--json", env=cloud.environment())
    document = json.loads(done.stdout)
    assert document["cached_bytes"] > 0, done.stderr
    assert (tmp_path / "copy-b").read_bytes() == path.read_bytes()
