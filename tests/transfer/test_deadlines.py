"""Deadlines of coflows: simulated with admission, promised or refused by the controller, and the command's output."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from tests import builders, shell
from tests.builders import MBIT

from gavotte.errors import GavotteError
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.transfer import Copies, MemoryQueue
from gavotte.store import open_store
from gavotte.transfer import (
    Coflow,
    Controller,
    order_rates,
    read_trace,
    simulate_transfers,
    synthetic_trace,
    with_deadlines,
    write_completions,
    write_trace,
)
from gavotte.transfer.admission import ON_HOST
from gavotte.transfer.orders import deadline_shortage
from gavotte.transfer.promising import SHARE, SPARE_S, START_S

CLOUD = builders.network("ab", egress_bps=8 * MBIT, ingress_bps=8 * MBIT)
INVENTORY = builders.inventory("ab")

TABLE = """coflow,arrival_s,source,target,bytes,deadline_s
old,0,a,b,10000000,
due,1,a,b,2000000,4
late,1,a,b,5000000,5
"""
"""On a port of 1 MB a second, `due` needs half of it for 4 s, and `late` all of it."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(TABLE)
    return path


def test_a_promise_is_kept_and_what_does_not_fit_is_refused(table: Path) -> None:
    trace = read_trace(table)
    assert trace.deadline_s.tolist() == [math.inf, 4.0, 5.0]
    done = simulate_transfers(trace, "fifo", port_bps=8 * MBIT)
    assert done.guaranteed.tolist() == [False, True, False]
    assert done.met.tolist() == [False, True, False]
    assert done.finish_s[:2] == pytest.approx([12.0, 5.0])
    assert (done.refused, done.met_share, math.isnan(done.finish_s[2])) == (1, 0.5, True)
    # The averages are those of the coflows that ran.
    assert (done.average_s, done.max_s) == pytest.approx(((12 + 4) / 2, 12.0))


def test_a_late_one_may_run_without_a_promise(table: Path) -> None:
    demoted = simulate_transfers(read_trace(table), "fifo", port_bps=8 * MBIT, admission="demote")
    assert demoted.finish_s == pytest.approx([12.0, 5.0, 17.0])
    assert demoted.met.tolist() == [False, True, False]
    # Without promises the oldest goes first, and all deadlines are missed.
    missed = simulate_transfers(read_trace(table), "fifo", port_bps=8 * MBIT, admission="open")
    assert missed.finish_s == pytest.approx([10.0, 12.0, 17.0])
    assert not missed.met.any()


def test_deadlines_survive_files(table: Path, tmp_path: Path) -> None:
    write_trace(tmp_path / "copy.csv", read_trace(table))
    assert read_trace(tmp_path / "copy.csv").deadline_s.tolist() == [math.inf, 4.0, 5.0]
    write_completions(tmp_path / "finish.csv", simulate_transfers(read_trace(table), "fifo", port_bps=8 * MBIT))
    assert (tmp_path / "finish.csv").read_text().splitlines()[3] == "late,,"
    for cell, message in (("0", "deadline_s: `0` does not fit; write seconds above 0"), ("x", "`x` does not fit")):
        table.write_text(TABLE + f"more,1,a,b,1,{cell}\n")
        with pytest.raises(GavotteError, match=message):
            read_trace(table)
    table.write_text(TABLE + "due,1,b,a,1,5\n")
    with pytest.raises(GavotteError, match="line 5: deadline_s: an earlier line of coflow `due` says 4"):
        read_trace(table)


def test_admission_meets_more_deadlines_than_sharing() -> None:
    trace = with_deadlines(synthetic_trace(0, share=0.1), 1.0)
    alone_s = trace.core.bounds_s(1e9)
    assert np.all(trace.deadline_s >= alone_s)
    assert np.all(trace.deadline_s <= np.maximum(2 * alone_s, 0.2))
    fair = simulate_transfers(trace, "fair", admission="open", step_s=0.5)
    varys = simulate_transfers(trace, "sebf", step_s=0.5)
    assert not (varys.guaranteed & ~varys.met).any()
    assert varys.met_share > 2 * fair.met_share
    with pytest.raises(GavotteError, match="the slack -1 is out of range"):
        with_deadlines(trace, -1)


def test_the_controller_gives_promised_rates_first() -> None:
    old = Coflow(0.0, [("a", "b", 8e6)])
    due = Coflow(1.0, [("a", "b", 2e6)], due_s=4.0, guaranteed=True)
    rates = order_rates(CLOUD, "fifo", [old, due]).rates_bps
    assert [float(each[0]) for each in rates] == pytest.approx([4e6, 4e6])
    short = deadline_shortage(CLOUD, [old, due], Coflow(1.0, [("a", "b", 2e6)], due_s=3.0))
    assert short is not None
    assert short.link == "egress of a" or short.link == "ingress of b"
    assert (short.needed_bps, short.left_bps, short.earliest_s) == pytest.approx((16e6 / 3, 4e6, 4.0))
    assert deadline_shortage(CLOUD, [old, due], Coflow(1.0, [("a", "b", 2e6)], due_s=4.0)) is None


def flows(size: int) -> list[HostBytes]:
    return [HostBytes("a", "b", size)]


def test_a_transfer_is_promised_refused_or_demoted() -> None:
    controller = Controller(INVENTORY, CLOUD, MemoryQueue(), "fifo", clock=lambda: 100.0)
    first = controller.submit(flows(4_000_000), deadline_s=10.0)
    assert (first.guaranteed, first.in_time) == (True, None)
    # It may take 8 s. The first one needs 4 MB in 9.5 s, and 0.95 of the link may be promised.
    with pytest.raises(
        GavotteError,
        match=r"the deadline cannot be promised: .* would have to carry 8\.00 Mbit/s, and earlier promises leave 4\.23",
    ) as refused:
        controller.submit(flows(8_000_000), deadline_s=10.0)
    earliest_s = float(refused.value.hint.split()[1])
    assert earliest_s == pytest.approx(START_S + SPARE_S + 64 / (8 * SHARE - 32 / 9.5), abs=0.2)
    assert controller.submit(flows(8_000_000), deadline_s=earliest_s).guaranteed
    demoted = controller.submit(flows(8_000_000), deadline_s=10.0, demote=True)
    assert (demoted.guaranteed, demoted.deadline_s) == (False, 10.0)
    with pytest.raises(GavotteError, match="the deadline cannot be promised"):
        controller.submit(flows(1), deadline_s=0.1)
    with pytest.raises(GavotteError, match="the deadline -1 s is out of range"):
        controller.submit(flows(1), deadline_s=-1)
    copies = Copies("/x", "a", "/y-{host}")
    with pytest.raises(GavotteError, match="a broadcast cannot have a deadline"):
        controller.submit([HostBytes("a", "b", 0)], copies=copies, deadline_s=5.0)


def test_promises_end_where_no_more_transfers_run() -> None:
    controller = Controller(INVENTORY, CLOUD, MemoryQueue(), "fifo", clock=lambda: 100.0)
    for _ in range(ON_HOST):
        assert controller.submit(flows(1000), deadline_s=100.0).guaranteed
    with pytest.raises(GavotteError, match=f"{ON_HOST} transfers with promises use a"):
        controller.submit(flows(1000), deadline_s=100.0)


def test_a_promise_outlives_its_controller(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "queue.sqlite3")) as store:
        controller = Controller(INVENTORY, CLOUD, store.queue(), "fifo", clock=lambda: 100.0)
        controller.submit(flows(4_000_000), deadline_s=10.0)
        controller.submit(flows(4_000_000))
    with open_store(str(tmp_path / "queue.sqlite3")) as store:
        again = Controller(INVENTORY, CLOUD, store.queue(), "fifo", clock=lambda: 101.0)
        assert [(each.deadline_s, each.guaranteed) for each in again.list()] == [(10.0, True), (None, False)]
        with pytest.raises(GavotteError, match="the deadline cannot be promised"):
            again.submit(flows(8_000_000), deadline_s=9.0)


@pytest.mark.slow
def test_the_command_shows_who_was_in_time(table: Path) -> None:
    line = ["transfers", "simulate", str(table), "--policy", "fifo", "--port-bps", "8mbit"]
    done = shell.gavotte(*line)
    assert done.stdout.splitlines()[1].split() == ["fifo", "8.00", "11.60", "12.00", "50.0%", "1", "1"]
    document = json.loads(shell.gavotte(*line, "--late", "open", "--json").stdout)
    assert [document[key] for key in ("deadlines", "in_time", "promised", "refused")] == [2, 0, 0, 0]
    drawn = json.loads(shell.gavotte(*line, "--deadlines", "0.5", "--seed", "3", "--json").stdout)
    assert drawn["deadlines"] == 3
