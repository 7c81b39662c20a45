"""Command lines of launchers: what is read from them, what is refused, and what an order of ranks makes of them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from gavotte.errors import GavotteError
from gavotte.launch.launchers import Launcher, Wanted, launcher_of, recognise
from gavotte.launch.launchers.mpich import Mpich
from gavotte.launch.launchers.openmpi import OpenMpi
from gavotte.launch.launchers.slurm import Srun
from gavotte.launch.launchers.torchrun import Torchrun

ALLOCATED = {"SLURM_JOB_ID": "7"}
LAUNCHERS: dict[str, Launcher] = {
    "openmpi4": OpenMpi(4),
    "openmpi5": OpenMpi(5),
    "mpich": Mpich(),
    "srun": Srun(ALLOCATED),
    "torchrun": Torchrun(),
}
SLOTS = {"a": 2, "b": 2, "c": 2}
ORDER = ["c", "a", "a", "b"]


def start(
    name: str, words: str, hosts: Sequence[str] = ORDER, *, placed: bool = True, **variables: str
) -> tuple[str, str]:
    launcher = LAUNCHERS[name]
    result = launcher.start(launcher.read(words.split()), Wanted(hosts, SLOTS, placed, "F", variables))
    shown = " ".join([*(f"{key}={value}" for key, value in result.variables.items()), *result.words])
    return shown, result.text


@pytest.mark.parametrize(
    ("name", "words", "ranks", "program"),
    [
        ("openmpi4", "mpirun -np 8 --mca btl tcp,self -x A=1 ./solver -n 3", 8, "./solver -n 3"),
        ("openmpi4", "mpirun --oversubscribe -c 3 --tag-output solver", 3, "solver"),
        ("openmpi5", "mpirun --np=5 --output tag solver", 5, "solver"),
        ("openmpi4", "mpirun -N 2 solver", None, "solver"),
        ("mpich", "mpiexec -n 4 -genv A 1 -prepend-rank ./solver --np 9", 4, "./solver --np 9"),
        ("srun", "srun -n4 --mpi=pmix --cpus-per-task 2 ./solver", 4, "./solver"),
        ("srun", "srun --ntasks=6 -l -- ./solver", 6, "./solver"),
        ("torchrun", "torchrun --nproc-per-node 2 t.py --nnodes 9", None, "t.py --nnodes 9"),
        ("torchrun", "torchrun --nnodes=4:4 --rdzv-backend=static -t3 -m pkg.t", 4, "pkg.t"),
    ],
)
def test_what_is_read_from_a_line(name: str, words: str, ranks: int | None, program: str) -> None:
    line = LAUNCHERS[name].read(words.split())
    assert (line.ranks, " ".join(line.program)) == (ranks, program)


def test_the_number_of_ranks_without_an_option_is_the_launchers_own() -> None:
    read = {name: launcher.read(["run", "solver"]) for name, launcher in LAUNCHERS.items()}
    ranks = {name: LAUNCHERS[name].ranks(line, SLOTS) for name, line in read.items()}
    assert ranks == {"openmpi4": 6, "openmpi5": 6, "mpich": 1, "srun": 3, "torchrun": 6}
    assert Srun(ALLOCATED | {"SLURM_NTASKS": "5"}).ranks(read["srun"], SLOTS) == 5


def test_ranks_on_each_host_are_its_slots() -> None:
    cpus = {"a": 4.0, "b": 1.5, "c": 0.5}
    openmpi, mpich, srun = LAUNCHERS["openmpi4"], LAUNCHERS["mpich"], LAUNCHERS["srun"]
    assert openmpi.slots(openmpi.read(["mpirun", "x"]), cpus) == {"a": 4, "b": 1, "c": 1}
    assert openmpi.slots(openmpi.read(["mpirun", "-N", "3", "x"]), cpus) == {"a": 3, "b": 3, "c": 3}
    assert openmpi.slots(openmpi.read(["mpirun", "-pernode", "x"]), cpus) == {"a": 1, "b": 1, "c": 1}
    assert mpich.slots(mpich.read(["mpiexec", "-ppn", "2", "x"]), cpus) == {"a": 2, "b": 2, "c": 2}
    assert srun.slots(srun.read(["srun", "-c2", "x"]), cpus) == {"a": 2, "b": 1, "c": 1}


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("openmpi4", "mpirun -n 4 --map-by node x", "`--map-by` of mpirun contradicts an order of ranks; remove it"),
        ("openmpi4", "mpirun -hostfile h x", "`-hostfile` of mpirun .*; remove it, and name the hosts by --hosts"),
        ("openmpi4", "mpirun -H a,b x", "`-H` of mpirun contradicts"),
        ("openmpi4", "mpirun --mca rmaps seq x", "`rmaps` of mpirun contradicts"),
        ("openmpi4", "mpirun -n 2 a : -n 2 b", "several programs, joined by `:`"),
        ("openmpi4", "mpirun -n 2", "mpirun has no program to start"),
        ("openmpi4", "mpirun -n", "`-n` of mpirun lacks its value"),
        ("openmpi4", "mpirun -n many x", "`-n many` of mpirun is no number of ranks"),
        ("openmpi4", "mpirun -n 0 x", "`-n 0` of mpirun is no number of ranks"),
        ("mpich", "mpiexec -f hosts -n 2 x", "`-f` of mpiexec contradicts"),
        ("srun", "srun -m cyclic x", "`-m` of srun contradicts"),
        ("srun", "srun --nodelist=a x", "`--nodelist=a` of srun contradicts"),
    ],
)
def test_what_contradicts_an_order_is_one_line(name: str, words: str, message: str) -> None:
    with pytest.raises(GavotteError, match=message) as caught:
        LAUNCHERS[name].read(words.split())
    assert "\n" not in str(caught.value)


def test_srun_needs_an_allocation() -> None:
    with pytest.raises(GavotteError, match="run `gavotte launch` inside salloc or sbatch"):
        Srun({}).read(["srun", "-n", "2", "x"])


LINES = {"mpich": "c:1\na:2\nb:1\n", "each": "c\na\na\nb\n"}


@pytest.mark.parametrize(
    ("name", "words", "line", "text"),
    [
        (
            "openmpi4",
            "mpirun -np 4 --mca btl tcp,self x 1",
            "mpirun --mca rmaps seq --hostfile F --bind-to none -np 4 --mca btl tcp,self x 1",
            LINES["each"],
        ),
        (
            "openmpi4",
            "mpirun -np 4 --bind-to core x",
            "mpirun --rankfile F -np 4 x",
            "rank 0=c slot=0\nrank 1=a slot=0\nrank 2=a slot=1\nrank 3=b slot=0\n",
        ),
        ("openmpi5", "mpirun -n 4 x", "mpirun --map-by seq:file=F --bind-to none -np 4 x", LINES["each"]),
        ("mpich", "mpiexec -l -n 4 x", "mpiexec -f F -n 4 -l x", LINES["mpich"]),
        (
            "srun",
            "srun -N 2 -n4 --mpi=pmix x",
            "SLURM_HOSTFILE=F srun --distribution=arbitrary --ntasks=4 --mpi=pmix x",
            LINES["each"],
        ),
    ],
)
def test_a_placed_line(name: str, words: str, line: str, text: str) -> None:
    assert start(name, words) == (line, text)


def test_a_line_in_the_launchers_own_order_gets_hosts_only() -> None:
    order = ["a", "a", "b", "b"]
    assert start("openmpi4", "mpirun x", order, placed=False) == (
        "mpirun --hostfile F -np 4 x",
        "a slots=2\nb slots=2\nc slots=2\n",
    )
    assert start("mpich", "mpiexec -n 4 x", order, placed=False) == ("mpiexec -f F -n 4 x", "a:2\nb:2\nc:2\n")
    assert start("srun", "srun -n 4 -N 2 x", order, placed=False) == ("srun -n 4 -N 2 x", "")


def test_hosts_with_more_ranks_than_slots_are_allowed_to_have_them() -> None:
    assert "mpirun --oversubscribe --mca rmaps seq" in start("openmpi4", "mpirun x", ["a", "a", "a"])[0]
    assert "seq:file=F:OVERSUBSCRIBE " in start("openmpi5", "mpirun x", ["a", "a", "a"])[0]
    # A rank file would need a core for each.
    assert "--mca rmaps seq" in start("openmpi4", "mpirun --bind-to core x", ["a", "a", "a"])[0]


def test_variables_reach_the_ranks_and_the_users_own_stay() -> None:
    own = {"LD_PRELOAD": "/s.so:/u.so", "GAVOTTE_COUNTS": "/c/job"}
    exports = "-x LD_PRELOAD=/s.so:/u.so -x GAVOTTE_COUNTS=/c/job"
    line = start("openmpi4", "mpirun -x A=1 -x LD_PRELOAD=/u.so -n 4 x", placed=False, **own)[0]
    assert line == f"mpirun --hostfile F -np 4 -x A=1 {exports} x"
    line = start("mpich", "mpiexec -genv LD_PRELOAD /u.so -genv A 1 -n 4 x", placed=False, **own)[0]
    assert line == "mpiexec -f F -n 4 -genv LD_PRELOAD /s.so:/u.so -genv GAVOTTE_COUNTS /c/job -genv A 1 x"
    line = start("srun", "srun --export=A,LD_PRELOAD=/u.so -n 4 x", placed=False, **own)[0]
    assert line == "srun -n 4 --export=A,LD_PRELOAD=/s.so:/u.so,GAVOTTE_COUNTS=/c/job x"
    assert "--export=ALL,LD_PRELOAD=" in start("srun", "srun -n 4 x", placed=False, **own)[0]
    for name, words in (
        ("openmpi4", "mpirun -x LD_PRELOAD=/u.so x"),
        ("mpich", "mpiexec -env LD_PRELOAD /u.so x"),
        ("srun", "srun --export=ALL,LD_PRELOAD=/u.so x"),
    ):
        assert LAUNCHERS[name].preloaded(LAUNCHERS[name].read(words.split())) == "/u.so"


def test_the_launchers_own_orders() -> None:
    assert OpenMpi(4).default(5, SLOTS) == ["a", "a", "b", "b", "c"]
    assert Mpich().default(7, SLOTS) == ["a", "a", "b", "b", "c", "c", "a"]
    assert Srun({}).default(2, SLOTS) == ["a", "b"]
    assert Srun({}).default(4, SLOTS) == ["a", "a", "b", "c"]


def test_more_ranks_than_slots_are_refused_as_the_launcher_does() -> None:
    openmpi, mpich = LAUNCHERS["openmpi4"], LAUNCHERS["mpich"]
    with pytest.raises(GavotteError, match="7 ranks do not fit on 3 hosts with 6 slots"):
        openmpi.room(openmpi.read(["mpirun", "x"]), 7, SLOTS)
    assert openmpi.room(openmpi.read(["mpirun", "--oversubscribe", "x"]), 7, SLOTS) == dict.fromkeys("abc", 4)
    assert mpich.room(mpich.read(["mpiexec", "x"]), 13, SLOTS) == dict.fromkeys("abc", 6)


WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "-n",
                "-np",
                "--np",
                "4",
                "-x",
                "A=1",
                "--mca",
                "btl",
                "-genv",
                "--",
                ":",
                "-N",
                "--ntasks=3",
                "-c2",
                "./x",
            ]
        ),
        st.text(max_size=6),
    ),
    max_size=8,
)


@examples(300)
@given(st.sampled_from(sorted(LAUNCHERS)), WORDS, st.booleans())
def test_any_line_is_read_or_refused_in_one_line(name: str, words: list[str], placed: bool) -> None:
    launcher = LAUNCHERS[name]
    try:
        line = launcher.read(["run", *words])
    except GavotteError as error:
        assert str(error)
        return
    assert line.program == tuple(words[-len(line.program) :])
    started = launcher.start(line, Wanted(ORDER, SLOTS, placed, "F", {"GAVOTTE_COUNTS": "/c"}))
    assert started.words[0] == "run"
    assert tuple(started.words[-len(line.program) :]) == line.program
    flags: Mapping[str, bool] = {"LD_PRELOAD": bool(launcher.preloaded(line))}
    assert all(isinstance(value, bool) for value in flags.values())


@examples(200)
@given(
    st.sampled_from(sorted(LAUNCHERS)),
    st.integers(1, 40),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 5), min_size=1),
)
def test_an_own_order_has_all_ranks(name: str, ranks: int, slots: dict[str, int]) -> None:
    order = LAUNCHERS[name].default(ranks, slots)
    assert len(order) == ranks
    assert set(order) <= set(slots)
    if ranks <= sum(slots.values()):
        assert all(order.count(host) <= count for host, count in slots.items())


@pytest.mark.parametrize(
    ("version", "title"),
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n", "Open MPI 4"),
        ("mpirun (Open MPI) 5.0.3\n", "Open MPI 5"),
        ("prterun (PRRTE) 3.0.5\n", "Open MPI 5"),
        ("HYDRA build details:\n    Version:                                 4.0.2\n", "MPICH"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005\n", "MPICH"),
    ],
)
def test_launchers_are_known_by_their_version(version: str, title: str) -> None:
    assert launcher_of(version, "mpirun").title == title


def test_what_is_no_launcher_is_one_line() -> None:
    with pytest.raises(GavotteError, match=r"`\./solver` is not a launcher; use mpirun or mpiexec"):
        recognise(["./solver"])
    with pytest.raises(GavotteError, match="no such launcher: `/nowhere/mpirun`"):
        recognise(["/nowhere/mpirun"])
    with pytest.raises(GavotteError, match="neither Open MPI's nor MPICH's"):
        launcher_of("mpirun: unknown option", "mpirun")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("torchrun --nnodes=1:4 t.py", "torchrun is elastic with --nnodes=1:4 and ignores an order"),
        ("torchrun --nnodes 2 --rdzv_backend c10d t.py", "torchrun sorts hosts by name with --rdzv-backend c10d"),
        (
            "torchrun --nnodes=2 --node-rank 0 t.py",
            "`--node_rank` of torchrun contradicts an order of ranks; remove it",
        ),
        ("torchrun --standalone t.py", "`--standalone` of torchrun contradicts"),
        ("torchrun --nnodes x t.py", "`--nnodes x` of torchrun is no number of hosts"),
        ("torchrun --nproc-per-node 2", "torchrun has no program to start"),
    ],
)
def test_what_torchrun_would_do_with_another_order_is_refused(words: str, message: str) -> None:
    with pytest.raises(GavotteError, match=message):
        recognise(words.split()).read(words.split())


def test_torchrun_gets_a_command_line_for_each_host() -> None:
    launcher = Torchrun()
    line = launcher.read(
        ["torchrun", "--nnodes", "2", "--nproc-per-node", "4", "--master-port", "7", "--log-dir", "d", "-m", "t", "-x"]
    )
    wanted = Wanted(["c", "a"], {"a": 1, "b": 1, "c": 1}, True, "", {}, {"a": "10.0.0.1", "c": "10.0.0.3"})
    start = launcher.start(line, wanted)
    given = "--nnodes 2 --node_rank {} --rdzv_backend static --master_addr 10.0.0.3"
    own = "--nproc_per_node 4 --master_port 7 --log_dir d -m t -x"
    assert [" ".join(words) for words in start.each] == [f"torchrun {given.format(rank)} {own}" for rank in (0, 1)]
    assert " ".join(start.words) == f"torchrun {given.format('NODE_RANK')} {own}"
    assert (launcher.per_host(line), launcher.identity(line)) == (4, ("4", "module"))
    assert launcher.per_host(launcher.read(["torchrun", "--nproc-per-node", "gpu", "t.py"])) is None
    with pytest.raises(GavotteError, match="torchrun wants 4 hosts, and 3 can be used; lower --nnodes"):
        launcher.room(line, 4, {"a": 1, "b": 1, "c": 1})


@pytest.mark.skipif(shutil.which("mpirun.openmpi") is None, reason="no Open MPI")
def test_open_mpi_says_what_it_is() -> None:
    assert recognise(["mpirun.openmpi"]).title.startswith("Open MPI ")


@pytest.mark.skipif(shutil.which("mpiexec.hydra") is None, reason="no MPICH")
def test_mpich_says_what_it_is() -> None:
    assert recognise(["mpiexec.hydra"]).title == "MPICH"
