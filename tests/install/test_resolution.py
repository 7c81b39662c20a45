"""Gavotte installs next to the stacks of its users, and its stubs work with each protobuf that they may have.

These tests ask a package index. Without one they are skipped.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
UNREACHABLE = ("error sending request", "Could not connect", "dns error", "Network connectivity is disabled")
STACKS = ["ray[default]", "torch", "dask[distributed]", "pyspark[connect]", "jupyter"]

pytestmark = pytest.mark.slow


def uv(*words: str, **options: object) -> str:
    """Run uv and return what it prints; skip the test if no index can be reached."""
    result = subprocess.run([UV, *words], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if any(sign in result.stderr for sign in UNREACHABLE):
        pytest.skip("no package index can be reached")
    assert result.returncode == 0, result.stderr
    return str(result.stdout)


def compile_(extras: str, others: list[str], *options: str) -> dict[str, str]:
    """Return the versions that resolve together, by package."""
    wanted = f"gavotte{extras} @ {ROOT.as_uri()}"
    text = uv(
        "pip", "compile", "--quiet", "--no-header", "--no-annotate", *options, "-", input="\n".join([wanted, *others])
    )
    return dict(line.split("==") for line in text.splitlines() if "==" in line)


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
@pytest.mark.rare
def test_it_resolves_with_ray_torch_dask_pyspark_and_jupyter(python: str) -> None:
    versions = compile_("", STACKS, "--python-version", python)
    assert {"grpcio", "numpy", "ray", "torch", "pyspark"} <= versions.keys()


@pytest.mark.rare
def test_all_extras_resolve_with_them() -> None:
    assert "ortools" in compile_("[all]", STACKS, "--python-version", "3.12")


@pytest.mark.rare
@pytest.mark.parametrize(
    "other", ["tensorflow", "mlflow", "apache-airflow", "vllm", "pandas<2", "numpy<2", "protobuf<5"]
)
def test_it_resolves_with_other_stacks(other: str) -> None:
    assert "pydantic" in compile_("", [other], "--python-version", "3.11")


STUBS = """
import sys, types, warnings
warnings.simplefilter("error")
sys.path.insert(0, {source!r})
import gavotte
for name in ("agents", "transfer", "campaign"):
    room = types.ModuleType("gavotte." + name)
    room.__path__ = [{source!r} + "/gavotte/" + name]
    sys.modules[room.__name__] = room
from gavotte.agents import agent_pb2, agent_pb2_grpc, soundness
from gavotte.campaign import remote_write_pb2
from gavotte.errors import AgentError
from gavotte.transfer import queue_pb2, queue_pb2_grpc
import google.protobuf
train = agent_pb2.BurstTrainResult(bursts=[agent_pb2.Burst(), agent_pb2.Burst()])
reply = agent_pb2.ProbeReply.FromString(agent_pb2.ProbeReply(burst_train=train).SerializeToString())
assert len(reply.burst_train.bursts) == 2
soundness.check_message(reply)
hop = agent_pb2.TracerouteResult(hops=[agent_pb2.Hop(address="a" * 5000)])
soundness.check_message(hop)
assert len(hop.hops[0].address) == 2000
print(google.protobuf.__version__)
"""


@pytest.mark.parametrize("version", ["4.25.3", "5.29.5", "6.33.0", "7"])
def test_the_stubs_work_with_protobuf(version: str) -> None:
    wanted = f"protobuf=={version}" if "." in version else f"protobuf>={version},<{int(version) + 1}"
    script = STUBS.format(source=str(ROOT / "python"))
    packages = [part for each in (wanted, "grpcio", "googleapis-common-protos") for part in ("--with", each)]
    python = ["--python", sys.executable]
    printed = uv("run", "--quiet", "--no-project", "--isolated", *python, *packages, "python", "-c", script)
    # Python's protobuf 4.25 is the compiler's 25, 5.29 is 29.
    assert printed.split(".")[0] == version.split(".")[0]
