"""The prologs of `examples/slurm` with a real slurmctld: tasks get the ranks of the ring that takes least time."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import builders
from tests.export.test_export_real import cluster, session  # noqa: F401 - a fixture
from tests.export.test_slurm_topology import run
from tests.shell import GAVOTTE, until

from gavotte import lab
from gavotte.formats.network import write_network

pytestmark = pytest.mark.lab

PROLOGS = Path(__file__).parents[2] / "examples" / "slurm"
SLOW, FAST = 1e6, 1e9
RING = ["a", "c", "b"]
"""The fast ring runs against the order of names."""


def rates() -> list[list[float | None]]:
    """Return rates of pairs with one fast ring."""
    fast = {(RING[at], RING[(at + 1) % 3]) for at in range(3)}
    return [[None if m == n else FAST if (m, n) in fast else SLOW for n in "abc"] for m in "abc"]


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["nothing", "network", "folder"])
def test_tasks_know_the_rank_of_their_node(session: lab.Session, tmp_path: Path, missing: str) -> None:  # noqa: F811
    network, orders = tmp_path / "cloud.network.json", tmp_path / "orders"
    if missing != "network":
        write_network(network, builders.network("abc", rates(), sharing="pipe"))
    if missing != "folder":
        orders.mkdir()
    paths = {
        "SLURM_CONF": tmp_path / "slurm.conf",
        "GAVOTTE_NETWORK": network,
        "GAVOTTE_ORDERS": orders,
        "PATH": GAVOTTE.parent,
    }
    exported = "".join(f"export {key}={path}\n" for key, path in paths.items())
    settings = {}
    for key, name in (
        ("PrologSlurmctld", "prolog-slurmctld"),
        ("TaskProlog", "task-prolog"),
        ("EpilogSlurmctld", "epilog-slurmctld"),
    ):
        own = tmp_path / name
        own.write_text((PROLOGS / name).read_text().replace("\n", f"\n{exported}", 1))
        own.chmod(0o755)
        settings[key] = str(own)
    with cluster(session, tmp_path, **settings) as environment:
        job = ["srun", "--nodes=3", "--ntasks=3", "sh", "-c", 'echo "$GAVOTTE_NODE_RANK $(hostname)"']
        lines = sorted(run(session, job, environment).splitlines())
        ranked = [line.split()[1] for line in lines]
        assert [line.split()[0] for line in lines] == ["0", "1", "2"]
        if missing == "nothing":
            start = ranked.index("a")
            assert ranked[start:] + ranked[:start] == RING
        else:
            assert ranked == ["a", "b", "c"]
        if missing == "network":
            assert "no such file" in (orders / "log").read_text()
        until(lambda: not [file for file in orders.glob("*") if file.name != "log"])
