"""Trees from Networks: properties of every operation, algorithm and root."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.collective.clouds import history, network
from tests.examples import examples

from gavotte.collective import ALGORITHMS, OPERATIONS, TreeSearch, draw, norm_of, plan, replay, shim_text, with_noise
from gavotte.collective.noise import Walk
from gavotte.collective.planning import RINGS
from gavotte.errors import FormatError, GavotteError
from gavotte.formats.collective import Stage, read_collective, write_collective
from gavotte.formats.network import FORMAT, Host, Network
from gavotte.mapping import map_tasks


@given(
    st.integers(1, 12),
    st.sampled_from(OPERATIONS),
    st.sampled_from(ALGORITHMS),
    st.integers(0, 11),
    st.integers(1, 1 << 24),
)
@examples(60)
def test_every_tree_reaches_all_and_replays_as_predicted(
    size: int, operation: str, algorithm: str, top: int, size_bytes: int
) -> None:
    net = network(size)
    name = next(each for each in OPERATIONS if each == operation)
    root = f"h{top % size}"
    if algorithm in RINGS and name not in ("allgather", "allreduce"):
        with pytest.raises(GavotteError, match="cannot use a ring"):
            plan(net, name, size_bytes=size_bytes, algorithm=algorithm)
        return
    if algorithm == "flat" and name not in ("scatter", "gather"):
        with pytest.raises(GavotteError, match="cannot use a flat tree"):
            plan(net, name, size_bytes=size_bytes, algorithm=algorithm)
        return
    planned = plan(net, name, size_bytes=size_bytes, root=root, algorithm=algorithm, search=TreeSearch(steps=500))
    assert planned.hosts == net.names
    assert all(planned.hosts[stage.root] == root for stage in planned.stages if not stage.ring)
    assert sum(stage.predicted_s for stage in planned.stages) == pytest.approx(planned.predicted_s)
    still = replay(history(net, 3, 0.0), planned)
    assert still == pytest.approx(np.full(3, planned.predicted_s))


def test_a_reduction_is_a_broadcast_on_the_way_back() -> None:
    net = network(9)
    back = net.model_copy(
        update={
            "rate_bps": [list(column) for column in zip(*net.rate_bps, strict=True)],
            "latency_s": [list(column) for column in zip(*net.latency_s, strict=True)],
        }
    )
    present = plan(net, "reduce", size_bytes=10**6, algorithm="ecef").stages[0]
    mirrored = plan(back, "broadcast", size_bytes=10**6, algorithm="ecef").stages[0]
    assert (present.parent, present.order) == (mirrored.parent, mirrored.order)
    # A rank combines what arrives, and receives from several children at the same time.
    assert present.predicted_s == pytest.approx(mirrored.predicted_s, rel=0.2)


def test_an_allgather_broadcasts_all_blocks() -> None:
    gather, broadcast = plan(network(5), "allgather", size_bytes=1000, algorithm="ecef").stages
    assert (gather.operation, gather.bytes) == ("gather", 1000)
    assert (broadcast.operation, broadcast.bytes) == ("broadcast", 5000)
    assert gather.root == broadcast.root


def hoses(rates_bps: list[float]) -> Network:
    """Each host's own cap limits, for every receiver."""
    size = len(rates_bps)
    rows = [[None if i == j else rates_bps[i] for j in range(size)] for i in range(size)]
    return network(size).model_copy(update={"rate_bps": rows})


@pytest.mark.parametrize(("operation", "share"), [("allgather", 0.75), ("allreduce", 0.9)])
def test_slow_senders_hang_from_fast_ones(operation: str, share: float) -> None:
    name = next(each for each in OPERATIONS if each == operation)
    net = hoses([3e7, 9e7, 5e7, 11e7, 7e7, 10e7, 4e7, 8e7])
    planned = plan(net, name, size_bytes=1 << 20)
    assert planned.algorithm == "ring"
    (stage,) = planned.stages
    assert stage.ring < 8
    assert planned.predicted_s < share * planned.baselines_s["rank-ring"]
    assert planned.predicted_s < planned.baselines_s["search"]


def test_a_plain_ring_suffices_where_all_are_alike() -> None:
    planned = plan(hoses([1e8] * 8), "allgather", size_bytes=1 << 20)
    assert (planned.algorithm, planned.stages[0].ring) == ("rank-ring", 8)


@pytest.mark.parametrize("algorithm", RINGS)
def test_a_ring_passes_blocks_on_in_pieces(algorithm: str) -> None:
    net = hoses([1e8] * 8).model_copy(update={"latency_s": [[1e-3] * 8] * 8})
    whole, pieces = (
        plan(net, "allgather", size_bytes=1 << 18, algorithm=algorithm, segments=count) for count in (1, None)
    )
    # 256 kB ask the receiver first, and a member waits for all of them. Pieces of at most 64 kB do neither.
    assert whole.stages[0].segments == 1
    assert pieces.stages[0].segments >= 4
    assert pieces.predicted_s < 0.9 * whole.predicted_s
    assert plan(net, "allgather", size_bytes=20_000, algorithm=algorithm).stages[0].segments == 1


def test_auto_prefers_the_simple_where_nothing_is_gained() -> None:
    alike = network(2)
    assert plan(alike, "broadcast", size_bytes=1000).algorithm == "binomial"
    wide = plan(network(24), "broadcast", size_bytes=1 << 23)
    assert wide.algorithm == "search"
    assert wide.predicted_s < 0.85 * wide.baselines_s["fnf"]
    assert wide.stages[0].segments > 1


def test_seeds_repeat_and_ranks_may_share_hosts() -> None:
    net = network(6)
    ranks = ["h3", "h3", "h1", "h1", "h0"]
    one, two = (
        plan(net, "broadcast", size_bytes=1 << 22, root="h1", ranks=ranks, search=TreeSearch(seed=4)) for _ in range(2)
    )
    assert one == two
    assert one.hosts == ranks
    assert one.stages[0].root == 2
    parent = one.stages[0].parent
    assert sum(ranks[rank] != ranks[parent[rank]] for rank in range(5)) == 2, "each host is entered once"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operation": "alltoall"}, "unknown operation"),
        ({"algorithm": "magic"}, "unknown algorithm"),
        ({"root": "h9"}, "no rank runs on the root"),
        ({"ranks": ["h0", "x"], "root": "h0"}, "no host `x`"),
    ],
)
def test_errors(change: dict[str, object], message: str) -> None:
    with pytest.raises(GavotteError, match=message) as raised:
        plan(network(3), **({"operation": "broadcast", "size_bytes": 1} | change))  # type: ignore[arg-type]
    assert raised.value.hint


def test_an_unknown_pair() -> None:
    net = network(3)
    rows = [list(row) for row in net.rate_bps]
    rows[1][2] = None
    # Slower than any known pair, so that no tree relies on it.
    planned = plan(
        net.model_copy(update={"rate_bps": rows}), "broadcast", size_bytes=10**6, root="h1", algorithm="ecef"
    )
    assert planned.stages[0].parent[2] == 0
    nothing = [[None] * 3] * 3
    with pytest.raises(GavotteError, match="how fast h0 sends to h1"):
        plan(net.model_copy(update={"rate_bps": nothing}), "broadcast", size_bytes=1)


@pytest.mark.parametrize("matrix", [False, True])
def test_hosts_of_one_machine_meet_in_memory_where_no_pair_has_a_rate(matrix: bool) -> None:
    caps = {"egress_bps": 8e6, "ingress_bps": 8e6}
    net = builders.network([{"name": f"h{i}", "machine": f"m{i // 2}", **caps} for i in range(4)])
    net = net.model_copy(update={"rate_bps": [[None] * 4] * 4 if matrix else []})
    planned = plan(net, "broadcast", size_bytes=10**6, root="h0")
    assert planned.stages[0].predicted_s == pytest.approx(1.0, rel=0.01)
    near = map_tasks(net, builders.app("a", ("s", "t", 10**6)))
    assert near.completion_s < 0.001
    pipe = net.model_copy(update={"sharing": "pipe"})
    with pytest.raises(GavotteError, match="how fast h0 sends to h1"):
        plan(pipe, "broadcast", size_bytes=1)


def test_a_file_and_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "c.tree.json"
    planned = plan(network(4), "gather", size_bytes=10**6)
    write_collective(path, planned)
    assert read_collective(path) == planned
    text = path.read_text()
    order = str(planned.stages[0].order).replace(" ", "")
    for wrong, field in ((order[:-2] + order[1:2] + "]", "order"), ("[3,2,1,0,0]", "order")):
        path.write_text(text.replace(f'"order":{order}', f'"order":{wrong}'))
        with pytest.raises(FormatError) as raised:
            read_collective(path)
        assert field in raised.value.field


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.lists(st.integers(-1, 5), max_size=5)


@given(st.sampled_from(["hosts", "bytes", "stages", "operation", "predicted_s", "parent", "order", "segments"]), VALUES)
def test_any_value_gives_a_tree_or_a_format_error(tmp_path: Path, key: str, value: object) -> None:
    content = plan(network(4), "gather", size_bytes=10**6, algorithm="ecef").model_dump(mode="json")
    where = content["stages"][0] if key in content["stages"][0] else content
    where[key] = value
    path = tmp_path / "x.tree.json"
    path.write_text(json.dumps(content))
    try:
        stage = read_collective(path).stages[0]
    except FormatError as error:
        assert "\n" not in str(error)
    else:
        assert sorted([stage.root, *(child for below in stage.children for child in below)]) == [0, 1, 2, 3]


def test_drawing() -> None:
    stage = Stage(
        operation="broadcast", bytes=1, segments=1, parent=[0, 0, 1, 0, 2], order=[0, 1, 3, 2, 4], predicted_s=1
    )
    assert draw(stage, list("abcde")) == "a\n|-- b - c - e\n`-- d"
    assert draw(stage, list("abcde"), most=2).endswith("... and 3 more")


def test_drawing_a_ring() -> None:
    stage = Stage(
        operation="allgather", bytes=1, segments=1, parent=[0, 0, 1, 0, 2], order=[0, 1, 2, 3, 4], ring=3, predicted_s=1
    )
    assert draw(stage, list("abcde")) == "a - b - c - a\nfrom a hang d\nfrom c hang e"
    assert draw(stage, list("abcde"), most=2).startswith("a - b - ... and 1 more\n")


def test_rings_that_are_none(tmp_path: Path) -> None:
    content = plan(network(4), "allgather", size_bytes=10**6, algorithm="rank-ring").model_dump(mode="json")
    path = tmp_path / "x.tree.json"
    path.write_text(json.dumps(content))
    assert read_collective(path).stages[0].ring == 4
    for change, field in (
        ({"ring": 0}, "ring"),
        ({"ring": 5}, "ring"),
        ({"operation": "gather"}, "ring"),
        ({"parent": [0, 0, 0, 2]}, "parent"),
        ({"parent": [0, 0, 1, 2], "ring": 2}, "parent"),
    ):
        path.write_text(json.dumps(content | {"stages": [content["stages"][0] | change]}))
        with pytest.raises(FormatError) as raised:
            read_collective(path)
        assert raised.value.field.endswith(field), change


def test_shim_text_of_rings_and_pairs() -> None:
    ring = plan(network(3), "allreduce", size_bytes=3 << 20, algorithm="rank-ring", segments=1)
    pair = plan(network(3), "allgather", size_bytes=1000, root="h1", algorithm="binomial")
    lines = shim_text([ring, pair]).splitlines()
    assert lines[3:6] == ["allreduce 3 3145728 0", "0 0 1", "0 1 2"]
    assert lines[6::3] == ["allgather-gather 1 1000 0", "allgather-broadcast 1 3000 0"]


def test_shim_text() -> None:
    planned = plan(network(3), "broadcast", size_bytes=1 << 20, algorithm="binomial", segments=4)
    assert shim_text([planned]) == "gavotte/shim/1\nranks 3\nhosts h0 h1 h2\nbroadcast 0 1048576 262144\n0 0 0\n0 2 1\n"
    with pytest.raises(GavotteError, match="different ranks"):
        shim_text([planned, plan(network(4), "broadcast", size_bytes=1)])


def test_noise_reaches_the_norm_it_is_asked_for() -> None:
    quiet = history(network(16), 10, 0.01)
    assert norm_of(1 / quiet.beta_Bps) < 0.01
    noisy = [with_noise(quiet, wanted, seed=3) for wanted in (0.1, 0.2, 0.5)]
    for wanted, result in zip((0.1, 0.2, 0.5), noisy, strict=True):
        assert wanted <= result.norm < wanted + 0.03
        assert norm_of(1 / result.history.beta_Bps) == pytest.approx(result.norm)
    assert noisy[0].steps < noisy[1].steps < noisy[2].steps
    with pytest.raises(GavotteError, match="already"):
        with_noise(noisy[2].history, 0.1)


def test_a_walk_asked_backwards_is_the_walk() -> None:
    walk = Walk((20_000,), np.random.default_rng(5))
    later, earlier, between = (np.rint(walk.to(step) / np.log1p(0.01)).astype(int) for step in (64, 16, 40))
    for step, sums in ((64, later), (16, earlier), (40, between)):
        assert ((sums + step) % 2 == 0).all()
        assert sums.var() == pytest.approx(step, rel=0.05)
    assert (abs(between - earlier) <= 24).all()
    assert (abs(later - between) <= 24).all()
    assert (between - earlier).var() == pytest.approx(24, rel=0.05)
    assert abs(np.corrcoef(between - earlier, later - between)[0, 1]) < 0.03, "steps of their own"


def test_a_load_common_to_all_pairs_is_no_error() -> None:
    quiet = history(network(12), 6, 0.01)
    load = np.array([1.0, 1.5, 0.7, 1.2, 2.0, 0.9])[:, None, None]
    assert norm_of(load / quiet.beta_Bps) < 0.01


def test_replay_fills_gaps_and_refuses_the_unknown() -> None:
    net: Network = network(4)
    planned = plan(net, "broadcast", size_bytes=10**6, algorithm="binomial")
    known = history(net, 5, 0.1)
    known.beta_Bps[2, 0, 2] = np.nan
    assert np.isfinite(replay(known, planned)).all()
    known.beta_Bps[:, 0, 2] = np.nan
    with pytest.raises(GavotteError, match="h0 to h2 was never measured"):
        replay(known, planned)


def test_a_flat_scatter_fills_the_roots_link() -> None:
    # h0 reaches h1 with 80 Mbit/s, h2 and h3 with 20; one after the other, three blocks of 1 MB take 0.9 s.
    rates = [[0, 80, 20, 20], [80, 0, 80, 80], [20, 80, 0, 80], [20, 80, 80, 0]]
    net = Network(
        format=FORMAT,
        hosts=[Host(name=f"h{i}") for i in range(4)],
        rate_bps=[[None if i == j else 1e6 * rates[i][j] for j in range(4)] for i in range(4)],
        latency_s=[[None if i == j else 0.0 for j in range(4)] for i in range(4)],
    )
    for operation in OPERATIONS:
        if operation not in ("scatter", "gather"):
            with pytest.raises(GavotteError, match="cannot use a flat tree"):
                plan(net, operation, size_bytes=10**6, algorithm="flat")
            continue
        flat = plan(net, operation, size_bytes=10**6, root="h0", algorithm="flat")
        assert flat.stages[0].parent == [0, 0, 0, 0]
        # The slow pairs take longest: 8 Mbit at 20 Mbit/s.
        assert flat.predicted_s == pytest.approx(0.4, rel=1e-3)
        assert plan(net, operation, size_bytes=10**6, root="h1", algorithm="flat").predicted_s == pytest.approx(
            0.3, rel=1e-3
        )
        best = plan(net, operation, size_bytes=10**6, root="h1")
        assert best.algorithm == "flat"
        assert best.predicted_s <= min(best.baselines_s.values()) * 1.03
    # Two ranks of one host share its ingress; one on the root's host costs nothing.
    shared = plan(net, "scatter", size_bytes=10**6, ranks=["h0", "h0", "h2", "h2"], algorithm="flat")
    assert shared.predicted_s == pytest.approx(0.8, rel=1e-3)
    past = history(net, 2, 0.0)
    past.beta_Bps[1] /= 2
    flat = plan(net, "scatter", size_bytes=10**6, root="h1", algorithm="flat")
    assert replay(past, flat) == pytest.approx([0.3, 0.6], rel=1e-3)
