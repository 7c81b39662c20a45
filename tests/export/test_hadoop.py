"""The rack script of Hadoop, YARN and Spark: as a program, and asked by Hadoop's own `ScriptBasedMapping`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from tests import builders
from tests.export.test_topologies import PODS, networks
from tests.guides import block

from gavotte.export import export, export_network
from gavotte.export.labels import LABEL_VALUE
from gavotte.export.tree import fitting, tiers, tree_of
from gavotte.formats.network import Network

PYTHON = os.environ.get("GAVOTTE_SPARK", "")
"""A Python that has pyspark, whose jars have Hadoop's classes."""

LONG = "rack" * 20
"""More than a label may have."""

MAPPING = """
import json, sys
from pyspark.java_gateway import launch_gateway
jvm = launch_gateway().jvm
settings = jvm.org.apache.hadoop.conf.Configuration()
if sys.argv[1].endswith(".xml"):
    settings.addResource(jvm.org.apache.hadoop.fs.Path(sys.argv[1]))
else:
    settings.set("net.topology.script.file.name", sys.argv[1])
names = jvm.java.util.ArrayList()
for name in sys.argv[2:]:
    names.add(name)
print(json.dumps(list(jvm.org.apache.hadoop.net.ScriptBasedMapping(settings).resolve(names))))
"""


def script(folder: Path, network: Network) -> Path:
    path = folder / "racks.sh"
    path.write_text(export_network(network, "hadoop-rack"))
    path.chmod(0o755)
    return path


def asked(path: Path, *hosts: str) -> list[str]:
    ran = subprocess.run([path, *hosts], capture_output=True, text=True, check=True, timeout=30)
    return ran.stdout.splitlines()


def test_each_host_is_in_its_nearest_switch(tmp_path: Path) -> None:
    racks = {host: f"/{switches[0]}" for host, switches in tiers(tree_of(PODS)).items()}
    path = script(tmp_path, PODS)
    assert len(set(racks.values())) > 1
    assert asked(path, *racks) == list(racks.values())
    assert asked(path, "a.example.com", "z", "192.0.2.9") == [racks["a"], "/default-rack", "/default-rack"]


def test_addresses_are_looked_up(tmp_path: Path) -> None:
    network = builders.network(["localhost", "b"], groups=[{"name": LONG, "members": ["localhost"]}])
    assert asked(script(tmp_path, network), "127.0.0.1") == [f"/{fitting(LONG, LABEL_VALUE)}"]


@given(networks())
def test_any_names_make_a_script_that_finds_them(tmp_path_factory: pytest.TempPathFactory, network: Network) -> None:
    racks = [f"/{fitting(way[0], LABEL_VALUE)}" for way in tiers(tree_of(network)).values()]
    assert asked(script(tmp_path_factory.mktemp("racks"), network), *tiers(tree_of(network))) == racks


def mapped(settings: Path, *hosts: str) -> list[str]:
    """Return what Hadoop says by a rack script, or by a `core-site.xml`."""
    ran = subprocess.run([PYTHON, "-c", MAPPING, settings, *hosts], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr[-2000:]
    racks: list[str] = json.loads(ran.stdout.splitlines()[-1])
    return racks


@pytest.mark.skipif(not PYTHON, reason="`make test-spark` runs it with Spark's own Hadoop")
def test_hadoop_reads_the_racks(tmp_path: Path) -> None:
    racks = {host: f"/{switches[0]}" for host, switches in tiers(tree_of(PODS)).items()}
    assert mapped(script(tmp_path, PODS), *racks, "z") == [*racks.values(), "/default-rack"]


@pytest.mark.skipif(not PYTHON, reason="`make test-spark` runs it with Spark's own Hadoop")
def test_hadoop_reads_the_hosts_of_a_placement(tmp_path: Path) -> None:
    path = tmp_path / "placed.sh"
    path.write_text(export(builders.placement({"x": "c", "y": "a", "z": "c"}), "hadoop-rack"))
    path.chmod(0o755)
    assert mapped(path, "a", "b", "c") == ["/placed", "/default-rack", "/placed"]


@pytest.mark.skipif(not PYTHON, reason="`make test-spark` runs it with Spark's own Hadoop")
@pytest.mark.parametrize("before", ["<configuration></configuration>", "<configuration>\n</configuration>\n"])
def test_hadoop_has_racks_after_the_guides_command_and_none_after_its_undo(tmp_path: Path, before: str) -> None:
    script(tmp_path, PODS)
    site = tmp_path / "core-site.xml"
    site.write_text(before)
    environment = {**os.environ, "HADOOP_CONF_DIR": str(tmp_path)}
    for command, expected in (
        (block("spark", 'sed -i "s|</configuration>'), ["/rack-0", "/rack-0", "/default-rack"]),
        (block("spark", "sed -i '/net.topology"), ["/default-rack"] * 3),
    ):
        subprocess.run(["sh", "-euc", command], cwd=tmp_path, env=environment, check=True, timeout=30)
        assert mapped(site, "a", "b", "z") == expected
