"""Which settings of an MPI library a launch chooses, and when it chooses none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.traces import collective, compute, trace

from gavotte.formats.inventory import Inventory
from gavotte.formats.record import LAUNCH, WALL_S, Record
from gavotte.formats.trace import CollectiveCall, Communicator, Isend, Loop, MpiTrace, passes
from gavotte.launch.launchers import launcher_of
from gavotte.launch.past import Past, blames_settings, predict
from gavotte.launch.question import LaunchQuestion, LaunchSession
from gavotte.launch.replaying import TracedJob, traced_job
from gavotte.launch.trees import along_trees, broadcast_trees
from gavotte.launch.tuning import JobTuning, Setup, tune_job, tuning_of, tuning_off

ORDER = list("abcd")
GROUPS: list[dict[str, Any]] = [
    {"name": name, "members": list(members), "up_bps": 38e6, "down_bps": 38e6}
    for name, members in (("l", "ab"), ("r", "cd"))
]
RATES = [[None if m == n else 190e6 if m // 2 == n // 2 else 38e6 for n in range(4)] for m in range(4)]
NETWORK = builders.network("abcd", RATES, egress_bps=190e6, ingress_bps=190e6, groups=GROUPS, sharing="groups")
OPEN_MPI = "mpirun (Open MPI) 4.1.4"


def calls(kind: str, size: int, count: int = 20, pause_s: float = 0.0) -> MpiTrace:
    """Return a trace of four ranks that call one collective again and again."""
    root = 0 if kind in ("bcast", "reduce", "gather") else None
    return trace(*[[Loop(count, (compute(pause_s), collective(kind, size, root)))]] * 4)


def traced(made: MpiTrace, past: Sequence[Past] = (), family: str = "openmpi") -> TracedJob:
    job = traced_job(made, NETWORK, 4, past, family=family, seed=0, complain=lambda text: pytest.fail(text))
    assert job is not None
    return job


def tuned(made: MpiTrace, *, reorder_sums: bool = False) -> JobTuning | None:
    return tune_job(traced(made), made, ORDER, NETWORK, "openmpi", reorder_sums=reorder_sums)


def test_settings_are_used_if_the_whole_job_takes_less_time() -> None:
    # By default the root sends to each other host, and two of them are behind one uplink.
    used = tuned(calls("bcast", 900_000))
    assert used is not None
    assert used.used
    assert {each.operation for each in used.settings} == {"bcast"}
    assert used.set_s < 0.8 * used.default_s
    assert used.variables("/f")["OMPI_MCA_coll_tuned_dynamic_rules_filename"] == "/f"
    assert "is set for bcast" in used.verdict
    assert "another order" not in used.verdict
    # 20 broadcasts are nothing compared with an hour of computing.
    idle = tuned(calls("bcast", 900_000, pause_s=180.0))
    assert idle is not None
    assert not idle.used
    assert (idle.settings, idle.key, idle.variables("/f")) == ((), "", {})
    assert "own choices" in idle.verdict


def test_sums_are_added_in_another_order_only_if_the_user_allows_it() -> None:
    made = calls("allreduce", 4_000_000)
    kept = tuned(made)
    assert kept is not None
    assert kept.settings == ()
    allowed = tuned(made, reorder_sums=True)
    assert allowed is not None
    if allowed.settings:
        assert "sums are added in another order" in allowed.verdict


def test_each_size_of_communicator_has_its_own_rules() -> None:
    halves = [Communicator((0, 2)), Communicator((1, 3))]
    calls_of: list[list[Any]] = [
        [
            Loop(
                10,
                (
                    collective("bcast", 900_000, 0),
                    CollectiveCall("bcast", 1 + rank % 2, rank % 2, 70_000, (), (), (), None, 0.0),
                ),
            )
        ]
        for rank in range(4)
    ]
    made = trace(*calls_of, communicators=halves)
    job = tuned(made)
    assert job is not None
    assert [each.question.members for each in job.tunings] == [4, 2]
    assert [list(each.question.sizes_bytes["bcast"]) for each in job.tunings] == [[900_000], [70_000]]
    assert {each.members for each in job.settings} <= {2, 4}


def test_calls_that_settings_do_not_change_are_left_out() -> None:
    assert tuned(calls("gather", 100_000)) is None
    nonblocking = trace(*[[collective("bcast", 900_000, 0, request=3)]] * 4)
    assert tuned(nonblocking) is None


def test_mpich_is_not_set_where_it_combines_on_hosts_first() -> None:
    made = calls("bcast", 900_000)
    job = traced(made, family="mpich")
    assert tune_job(job, made, list("aabb"), NETWORK, "mpich", reorder_sums=False) is None
    alone = tune_job(job, made, ORDER, NETWORK, "mpich", reorder_sums=False)
    assert alone is not None


def test_runs_with_other_settings_do_not_predict() -> None:
    past = [Past(tuple(ORDER), 9.0), Past(tuple(ORDER), 3.0, settings="1234")]
    own = predict(past, ORDER, None, None, {})
    set_ = predict(past, ORDER, None, None, {}, None, "1234")
    assert own is not None
    assert set_ is not None
    assert (own.predicted_s, set_.predicted_s) == (9.0, 3.0)
    assert predict(past, ORDER, None, None, {}, None, "5678") is None
    made = calls("bcast", 900_000)
    # Nor do they correct the time of messages.
    assert traced(made, [past[1]]).factor == 1.0


@pytest.fixture
def session() -> LaunchSession:
    def measure(_: Inventory) -> Any:
        raise AssertionError

    return LaunchSession(measure, lambda _: None, lambda text: pytest.fail(text))


def setup(*options: str, version: str = OPEN_MPI, shared: bool = True, **environ: str) -> Setup:
    launcher = launcher_of(version, "mpirun")
    return Setup(launcher, launcher.read(["mpirun", *options, "prog"]), environ, shared)


def ask(session: LaunchSession, how: Setup, past: Sequence[Past] = (), **question: Any) -> JobTuning | None:
    made = calls("bcast", 900_000)
    asked = LaunchQuestion(command=["mpirun", "prog"], **question)
    tuned_job, why = tuning_of(asked, session, how, traced(made, past), made, ORDER, NETWORK)
    assert (tuned_job is None) == bool(why)
    return tuned_job


@pytest.mark.parametrize(
    ("runs", "blamed"),
    [
        ([], False),
        ([("a", 1)], True),
        ([("a", 139), ("", 0)], True),
        # The program fails without settings, too.
        ([("a", 1), ("", 1)], False),
        ([("a", 1), ("b", 0)], False),
        ([("a", 0), ("b", 1)], True),
        # Ctrl-C is the user's.
        ([("a", 130)], False),
        ([("a", 1), ("", 130)], True),
    ],
)
def test_a_failure_is_blamed_on_settings_unless_the_job_fails_without_them(
    runs: list[tuple[str, int]], blamed: bool
) -> None:
    records = [
        Record(kind=LAUNCH, metric=WALL_S, value=1.0, time_s=1.0, labels={"settings": key, "status": status})
        for key, status in runs
    ]
    assert blames_settings(records) is blamed


def test_users_settings_stay(session: LaunchSession) -> None:
    assert ask(session, setup()) is not None
    assert ask(session, setup("--mca", "coll_tuned_use_dynamic_rules", "1")) is None
    assert ask(session, setup("--mca", "coll", "^tuned")) is None
    assert ask(session, setup("-x", "OMPI_MCA_coll_tuned_bcast_algorithm=3")) is None
    assert ask(session, setup(OMPI_MCA_coll_tuned_priority="0")) is None
    assert ask(session, setup("--mca", "btl", "tcp,self", PATH="/bin/collect")) is not None
    assert ask(session, setup(), tuning=False) is None


def test_launchers_without_known_settings_are_left_alone(session: LaunchSession) -> None:
    assert launcher_of("prterun (PRRTE) 3.0.1", "mpirun").tunable is None
    assert launcher_of("Intel(R) MPI Library for Linux", "mpirun").tunable is None
    assert launcher_of("HYDRA build details", "mpiexec").tunable == "mpich"
    assert ask(session, setup(version="prterun (PRRTE) 3.0.1")) is None


def test_a_file_of_rules_needs_a_folder_that_hosts_are_known_to_share(session: LaunchSession, tmp_path: Path) -> None:
    def asked(*past: Past) -> JobTuning | None:
        return ask(session, setup(shared=False), past, scratch=tmp_path)

    assert asked() is None
    counted = Past(tuple(ORDER), 5.0, counted=True, scratch=str(tmp_path))
    assert asked(counted) is not None
    assert asked(Past(tuple("abce"), 5.0, counted=True, scratch=str(tmp_path))) is None
    assert asked(Past(tuple(ORDER), 5.0, counted=True, scratch="/elsewhere")) is None


def test_trees_need_a_folder_that_hosts_are_known_to_share_with_any_library(session: LaunchSession) -> None:
    mpich = setup(version="HYDRA build details", shared=False)
    alone = ask(session, mpich)
    assert alone is not None
    assert alone.trees_s is None
    together = ask(session, replace(mpich, shared=True))
    assert together is not None
    assert together.trees_s is not None


def test_a_run_that_failed_with_settings_is_followed_by_one_without(session: LaunchSession) -> None:
    complaints: list[str] = []
    hearing = replace(session, complain=complaints.append)
    assert ask(hearing, replace(setup(), blamed=True)) is None
    assert complaints == ["the MPI library's own collectives stay: the last run with settings failed"]


@pytest.mark.parametrize(("value", "expected"), [("off", True), ("OFF", True), ("on", False), ("", False)])
def test_one_variable_turns_tuning_off(value: str, expected: bool) -> None:
    is_off: Callable[[dict[str, str]], bool] = tuning_off
    assert is_off({"GAVOTTE_TUNE": value}) is expected
    assert tuning_off({}) is False


def test_trees_replace_broadcasts_where_the_job_then_takes_less_time() -> None:
    made = calls("bcast", 900_000)
    job = traced(made)
    both = tune_job(job, made, ORDER, NETWORK, "openmpi", reorder_sums=False, preloading=True)
    assert both is not None
    assert both.trees_s is not None
    assert len(both.trees) == 1
    assert both.shimmed == (both.trees_s <= 0.99 * both.library_s)
    assert ("trees of the preloaded library" in both.verdict) == both.shimmed
    assert both.document["trees_used"] == both.shimmed
    # Without the library's settings the trees are compared with its defaults.
    alone = replace(both, tunings=(), set_s=both.default_s)
    assert alone.shimmed
    assert alone.key != both.key
    assert alone.verdict.startswith("collectives: broadcasts go along trees of the preloaded library, predicted ")


def test_messages_of_a_tree_carry_each_byte_once_to_each_rank() -> None:
    made = calls("bcast", 900_001, count=3)
    trees = broadcast_trees(made, ORDER, NETWORK, 0)
    assert list(trees) == [(900_001, 0)]
    changed = along_trees(made, trees)
    sent = [
        sum(each.bytes * times for each, times in passes(rank.operations) if isinstance(each, Isend))
        for rank in changed.ranks
    ]
    assert sum(sent) == 3 * 3 * 900_001
    assert sent[0] > 0
    assert not any(isinstance(each, CollectiveCall) for rank in changed.ranks for each, _ in passes(rank.operations))


def test_jobs_without_time_or_with_small_broadcasts_or_of_many_sizes_have_no_trees() -> None:
    assert broadcast_trees(calls("bcast", 32_767), ORDER, NETWORK, 0) == {}
    many = trace(*[[collective("bcast", 100_000 + size, 0) for size in range(7)]] * 4)
    assert broadcast_trees(many, ORDER, NETWORK, 0) == {}
    assert broadcast_trees(calls("bcast", 900_000), ORDER, NETWORK, 0, deadline_s=0.0) == {}
    # The second rank of a host is no root that a plan can name.
    second = trace(*[[collective("bcast", 100_000, 1)]] * 4)
    assert broadcast_trees(second, list("aabb"), NETWORK, 0) == {}
    assert len(broadcast_trees(second, ORDER, NETWORK, 0)) == 1
