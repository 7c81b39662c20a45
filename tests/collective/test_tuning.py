"""Settings of MPI libraries: which algorithms are chosen, and the text that the libraries read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collective.clouds import network
from tests.shell import gavotte

from gavotte.collective.tuning import (
    OPEN_MPI_FILE,
    TunedSize,
    Tuning,
    TuningQuestion,
    choose,
    settings_text,
    size_ladder,
    variables,
)
from gavotte.collective.tuning.choosing import LEAST_SAVING
from gavotte.errors import GavotteError
from gavotte.formats.network import write_network
from gavotte.simulate import CollectiveReplay, MessageCosts
from gavotte.terms.algorithms import ALGORITHMS, LEAST_SET_BYTES, Library, Setting

Rules = dict[int, list[tuple[int, list[tuple[int, int, int]]]]]


def read_rules(text: str) -> Rules:
    """Read a file of rules as Open MPI does: numbers, and comments from `#` on. By operation: (ranks, rules)."""
    numbers = iter([int(word) for line in text.splitlines() for word in line.split("#")[0].split()])
    rules: Rules = {}
    for _ in range(next(numbers)):
        operation = next(numbers)
        sizes = rules.setdefault(operation, [])
        for _ in range(next(numbers)):
            members, lines = next(numbers), []
            for _ in range(next(numbers)):
                bound, algorithm, fan, segment = (next(numbers) for _ in range(4))
                assert fan == 0
                lines.append((bound, algorithm, segment))
            sizes.append((members, lines))
    assert next(numbers, None) is None
    return rules


def taken(rules: Rules, operation: int, members: int, size: int) -> tuple[int, int]:
    """Return the algorithm and the segment that Open MPI takes by a file of rules."""
    sizes = rules.get(operation, [])
    fitting = [lines for at_least, lines in sizes if at_least <= members] or [lines for _, lines in sizes[:1]]
    reached = [rule for rule in (fitting[-1] if fitting else []) if rule[0] <= size]
    return reached[-1][1:] if reached else (0, 0)


SMALL, MIDDLE, LARGE = 100_000, 1_000_000, 10_000_000
"""Sizes of messages above those of a burst, which keep the default."""


def question(library: Library = "openmpi", **more: object) -> TuningQuestion:
    return TuningQuestion(library, 8, {"bcast": [SMALL, MIDDLE, LARGE]}, **more)  # type: ignore[arg-type]


def test_the_default_stays_unless_another_algorithm_saves_a_tenth() -> None:
    def seconds(_operation: str, size: int, _root: int, setting: Setting | None) -> float:
        if setting is None:
            return 1.0
        pipeline = setting.algorithm == 3 and setting.segment_bytes == 0
        return {SMALL: 1 - LEAST_SAVING / 2, MIDDLE: 1 - 2 * LEAST_SAVING}.get(size, 2.0) if pipeline else 3.0

    chosen = choose(question(), seconds)
    assert [each.algorithm for each in chosen.choices] == [0, 3, 0]
    assert [each.predicted_s for each in chosen.choices] == [1.0, pytest.approx(0.8), 1.0]
    # Bounds are half-way as a factor; above twice the last size the default stays, as it does here already.
    assert [(each.from_bytes, each.algorithm) for each in chosen.settings] == [(0, 0), (316_228, 3), (3_162_278, 0)]


def test_bytes_of_a_burst_keep_the_default() -> None:
    def seconds(_operation: str, _size: int, _root: int, setting: Setting | None) -> float:
        return 1.0 if setting is None else 0.1

    sizes = {"bcast": [LEAST_SET_BYTES // 2, LEAST_SET_BYTES], "allgather": [LEAST_SET_BYTES // 8]}
    chosen = choose(TuningQuestion("openmpi", 8, sizes), seconds).choices
    assert [each.algorithm > 0 for each in chosen] == [False, True, True]


def test_an_algorithm_that_loses_on_busy_hosts_is_not_chosen() -> None:
    def seconds(_operation: str, _size: int, _root: int, setting: Setting | None) -> float:
        return 1.0 if setting is None else 0.2 if setting.algorithm == 9 else 0.5 if setting.algorithm == 6 else 2.0

    def busy(_operation: str, size: int, _root: int, setting: Setting | None) -> float:
        slower = setting is not None and setting.algorithm == 9 and size < LARGE
        return 5.0 if slower else 2.0

    assert [each.algorithm for each in choose(question(), seconds).choices] == [9, 9, 9]
    assert [each.algorithm for each in choose(question(), seconds, busy).choices] == [6, 6, 9]


def test_sums_keep_their_order_unless_the_user_allows_another() -> None:
    sizes = {"allreduce": [SMALL], "reduce": [SMALL], "bcast": [SMALL]}

    def seconds(_operation: str, _size: int, _root: int, setting: Setting | None) -> float:
        return 1.0 if setting is None else 0.1

    kept = choose(TuningQuestion("openmpi", 8, sizes), seconds)
    assert {each.operation for each in kept.settings} == {"bcast"}
    assert not kept.reorders
    assert not kept.document["reorders_sums"]
    allowed = choose(TuningQuestion("openmpi", 8, sizes, reorder_sums=True), seconds)
    assert {each.operation for each in allowed.settings} == set(sizes)
    assert allowed.reorders


def test_times_are_the_mean_over_the_roots() -> None:
    def seconds(_operation: str, _size: int, root: int, setting: Setting | None) -> float:
        fast = setting is not None and setting.algorithm == 6 and root == 0
        return 0.4 if fast else 1.0

    assert {each.algorithm for each in choose(question(roots=(0,)), seconds).choices} == {6}
    assert {each.algorithm for each in choose(question(roots=(0, 1, 2, 3, 4, 5, 6, 7)), seconds).choices} == {0}


def test_algorithms_from_which_the_library_falls_back_are_not_offered() -> None:
    tried = set()

    def seconds(operation: str, _size: int, _root: int, setting: Setting | None) -> float:
        if setting is not None:
            tried.add((operation, setting.algorithm))
        return 1.0

    choose(TuningQuestion("openmpi", 7, {"allgather": [SMALL]}), seconds)
    assert tried == {("allgather", 2), ("allgather", 4)}
    tried.clear()
    choose(TuningQuestion("mpich", 6, {"bcast": [SMALL]}), seconds)
    assert tried == {("bcast", 1), ("bcast", 3)}


def test_mpich_gets_one_algorithm_for_all_sizes_or_none() -> None:
    def faster_at(*sizes: int) -> Tuning:
        def seconds(_operation: str, size: int, _root: int, setting: Setting | None) -> float:
            if setting is None or setting.algorithm != 3:
                return 1.0
            return 0.5 if size in sizes else 1.5

        return choose(question("mpich"), seconds)

    everywhere = faster_at(SMALL, MIDDLE, LARGE)
    assert variables(everywhere.question.library, everywhere.settings, "unused") == {
        "MPIR_CVAR_BCAST_INTRA_ALGORITHM": "scatter_ring_allgather"
    }
    assert (
        settings_text(everywhere.question.library, everywhere.settings)
        == "MPIR_CVAR_BCAST_INTRA_ALGORITHM=scatter_ring_allgather\n"
    )
    assert faster_at(SMALL).settings == ()


@given(
    choices=st.lists(st.tuples(st.sampled_from([0, 1, 3, 6]), st.sampled_from([0, 16_384])), min_size=3, max_size=3),
    members=st.integers(2, 40),
)
def test_the_file_says_to_open_mpi_what_was_chosen(choices: list[tuple[int, int]], members: int) -> None:
    sizes = [1000, 10_000, 100_000]
    made = [
        TunedSize("bcast", size, 1, 1.0, number, segment if number else 0, 0.5)
        for size, (number, segment) in zip(sizes, choices, strict=True)
    ]
    tuning = Tuning(TuningQuestion("openmpi", members, {"bcast": sizes}), made)
    rules = read_rules(settings_text(tuning.question.library, tuning.settings))
    for each in made:
        assert taken(rules, 7, members, each.size_bytes) == (each.algorithm, each.segment_bytes)
        for other in (members - 1, members + 1):
            assert taken(rules, 7, other, each.size_bytes) == (0, 0)
    assert taken(rules, 7, members, 999) == (0, 0)
    assert taken(rules, 7, members, 200_001) == (0, 0)
    # Each list begins at 0 bytes, or Open MPI ignores the file.
    assert all(lines[0][0] == 0 for sizes in rules.values() for _, lines in sizes)


def test_blocks_are_counted_together() -> None:
    made = [TunedSize("allgather", 1000, 3, 1.0, 4, 0, 0.5)]
    tuning = Tuning(TuningQuestion("openmpi", 8, {"allgather": [1000]}), made)
    rules = read_rules(settings_text(tuning.question.library, tuning.settings))
    assert taken(rules, 0, 8, 7999) == (0, 0)
    assert taken(rules, 0, 8, 8000) == (4, 0)


def test_a_barrier_has_one_rule() -> None:
    made = [TunedSize("barrier", 0, 3, 1.0, 4, 0, 0.5)]
    tuning = Tuning(TuningQuestion("openmpi", 8, {"barrier": size_ladder("barrier", 8, 1 << 20)}), made)
    assert taken(read_rules(settings_text(tuning.question.library, tuning.settings)), 6, 8, 0) == (4, 0)
    assert variables(tuning.question.library, tuning.settings, "/rules") == {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        OPEN_MPI_FILE: "/rules",
    }


def test_nothing_is_set_where_nothing_is_faster() -> None:
    made = [TunedSize("bcast", 1000, 1, 1.0, 0, 0, 1.0)]
    tuning = Tuning(TuningQuestion("openmpi", 8, {"bcast": [1000]}), made)
    assert variables(tuning.question.library, tuning.settings, "/rules") == {}
    assert read_rules(settings_text(tuning.question.library, tuning.settings)) == {}


def test_wrong_questions_are_refused() -> None:
    def seconds(*_: object) -> float:
        return 1.0

    with pytest.raises(GavotteError, match="do not cover scatter"):
        choose(TuningQuestion("openmpi", 8, {"scatter": [1000]}), seconds)
    with pytest.raises(GavotteError, match="single rank"):
        choose(TuningQuestion("openmpi", 1, {"bcast": [1000]}), seconds)


@pytest.mark.parametrize("library", ALGORITHMS)
def test_the_replay_knows_each_algorithm_and_the_defaults(library: Library) -> None:
    replay = CollectiveReplay(network(8), network(8).names, MessageCosts(library=library))
    for operation, algorithms in ALGORITHMS[library].items():
        times = [
            replay.seconds(operation, 100_000, 0, Setting(operation, 8, 0, each.number))
            for each in algorithms
            if each.offered
        ]
        assert len(set(times)) > 1, operation
        chosen = choose(TuningQuestion(library, 8, {operation: [100_000]}), replay.seconds)
        (choice,) = chosen.choices
        # The default by its number is the library's own choice.
        own = Setting(operation, 8, 0, choice.default)
        assert replay.seconds(operation, 100_000, 0, own) == pytest.approx(choice.default_s)


@pytest.mark.slow
def test_the_verb(tmp_path: Path) -> None:
    net, out = tmp_path / "n.network.json", tmp_path / "rules"
    write_network(net, network(8))
    words: list[str | Path] = ["collective", net, "--operation", "all", "--settings", "openmpi"]
    done = gavotte(*words, "-o", out, "--explain")
    assert done.returncode == 0, done.stderr
    assert "default s" in done.stdout
    assert f"coll_tuned_dynamic_rules_filename {out}" in done.stderr
    rules = read_rules(out.read_text())
    assert 2 not in rules
    assert 11 not in rules
    document = json.loads(gavotte(*words, "--json").stdout)
    assert document["library"] == "openmpi"
    for each in document["choices"]:
        assert each["algorithm"] == "default" or each["predicted_s"] <= (1 - LEAST_SAVING) * each["default_s"]
    # Without -o, stdout is the file.
    assert gavotte(*words).stdout == out.read_text()
    summed = gavotte(*words, "--reorder-sums")
    assert read_rules(summed.stdout).keys() & {2, 11}
    assert "another order" in summed.stderr
    mpich = gavotte("collective", net, "--operation", "all", "--settings", "mpich")
    assert mpich.returncode == 0, mpich.stderr
    assert all(line.startswith("MPIR_CVAR_") for line in mpich.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--settings", "lam"], "unknown MPI library `lam`"),
        (["--settings", "openmpi", "--operation", "scatter"], "scatter keeps the library's own choice"),
        (["--settings", "openmpi", "--operation", "sing"], "unknown operation `sing`"),
        (["--settings", "openmpi", "--root", "h99"], "no rank runs on the root `h99`"),
        (["--settings", "mpich", "--ranks", "h0,h0,h1"], "several ranks share a host"),
        (["--settings", "openmpi", "--algorithm", "ring"], "without --algorithm"),
        (["--explain"], "need --settings"),
    ],
)
def test_wrong_options_are_one_line(tmp_path: Path, more: list[str], message: str) -> None:
    net = tmp_path / "n.network.json"
    write_network(net, network(8))
    done = gavotte("collective", net, "--operation", "broadcast", *more)
    assert done.returncode in (1, 2)
    assert message in done.stderr.replace("\n", " ")
