"""Output of endpoints and of other programs, and tables for other programs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaign.studies import repeated
from tests.examples import examples
from tests.shell import gavotte

from gavotte.agents import agent_pb2 as pb
from gavotte.campaign.engines import together
from gavotte.campaign.jobs import jain
from gavotte.campaign.programs import joined, read_iperf3, read_nuttcp
from gavotte.campaign.states import SCRIPT, read_state, used
from gavotte.errors import AgentError, FormatError
from gavotte.formats.record import read_samples

NUTTCP = """nuttcp-t: v6.1.2: socket
nuttcp-t: connect=10.1.0.2 mss=1448 rtt_ms=0.102
nuttcp-t: megabytes=34.6384 real_seconds=1.02 rate_KBps=34752.78 rate_Mbps=284.70
nuttcp-t: retrans=7
nuttcp-t: stats=cpu user=0.0 system=0.0 elapsed=0:01 cpu=5% memory=0i+0d-924maxrss io=0+0pf swaps=426+2csw

nuttcp-r: v6.1.2: socket
nuttcp-r: megabytes=34.6384 real_seconds=1.01 rate_KBps=34961.83 rate_Mbps=286.41
nuttcp-r: stats=cpu user=0.0 system=0.3 elapsed=0:01 cpu=16% memory=0i+0d-846maxrss io=0+0pf swaps=38+442csw
"""


def test_what_nuttcp_prints() -> None:
    sent = read_nuttcp(NUTTCP)
    assert sent.capacity_bps == pytest.approx(286.41e6)
    assert (sent.retransmits, sent.sender_cpu, sent.receiver_cpu) == (7, 0.05, 0.16)
    assert sent.rtt_idle_s == pytest.approx(1.02e-4)
    both = joined([sent, sent])
    assert both.capacity_bps == pytest.approx(2 * 286.41e6)
    assert (both.retransmits, len(both.connection_bps)) == (14, 2)
    with pytest.raises(AgentError, match="Connection refused"):
        read_nuttcp("", "nuttcp-t: v6.1.2: Error: connect: Connection refused\n")


def test_what_iperf3_prints() -> None:
    stream = {"sender": {"retransmits": 3, "mean_rtt": 40_000}, "receiver": {"bits_per_second": 1.4e8}}
    end = {
        "streams": [stream, stream],
        "sum_sent": {"retransmits": 6},
        "sum_received": {"bits_per_second": 2.8e8},
        "cpu_utilization_percent": {"host_total": 12.0, "remote_total": 20.0},
    }
    report = {"end": end, "intervals": [{"sum": {"bits_per_second": 1e8 * n}} for n in range(4)]}
    sent = read_iperf3(json.dumps(report))
    assert (sent.capacity_bps, sent.connection_bps, sent.bins_bps) == (2.8e8, [1.4e8, 1.4e8], [1e8, 2e8])
    assert (sent.retransmits, sent.rtt_loaded_s, sent.receiver_cpu) == (6, 0.04, 0.2)
    with pytest.raises(AgentError, match="unable to connect"):
        read_iperf3('{"error": "unable to connect to server"}')
    for damaged in ("", "[]", '{"end": 3}', "null"):
        with pytest.raises(AgentError, match="iperf3"):
            read_iperf3(damaged)


NUTTCP_UDP = """nuttcp-t: megabytes=0.5960 real_seconds=1.00 rate_KBps=610.33 rate_Mbps=4.9998
nuttcp-t: stats=cpu user=0.8 system=0.0 elapsed=0:01 cpu=88% memory=0i+0d-848maxrss io=0+0pf swaps=0+845csw

nuttcp-r: megabytes=0.5900 real_seconds=1.00 rate_KBps=604.16 rate_Mbps=4.9510
nuttcp-r: drop=6 pkt=625 data_loss=0.96000
nuttcp-r: stats=cpu user=0.0 system=0.0 elapsed=0:01 cpu=1% memory=0i+0d-1138maxrss io=0+0pf swaps=627+0csw
"""


def test_what_programs_print_of_udp() -> None:
    sent = read_nuttcp(NUTTCP_UDP)
    assert (sent.packets[0].sent, sent.packets[0].lost, sent.packets[0].jitter_s) == (625, 6, None)
    total = {"bytes": 625_000, "seconds": 1.0, "packets": 625, "lost_packets": 25, "jitter_ms": 0.25}
    end = {"streams": [{"udp": {"out_of_order": 2}}], "sum": total, "cpu_utilization_percent": {"host_total": 2.0}}
    sent = read_iperf3(json.dumps({"end": end}))
    assert sent.capacity_bps == pytest.approx(0.96 * 5e6)
    assert (sent.packets[0].lost, sent.packets[0].late, sent.packets[0].jitter_s) == (25, 2, 0.00025)


def reply(started_s: float, rate_bps: float, seconds: float = 1.0) -> pb.ProbeReply:
    bins = [round(rate_bps * 0.05 / 8)] * 20
    flow = pb.FlowResult(bytes=sum(bins), seconds=seconds, bin_bytes=bins)
    bulk = pb.BulkResult(goodput_bps=8 * sum(bins) / seconds, flows=[flow])
    return pb.ProbeReply(started_s=started_s, seconds=seconds, bulk=bulk)


def test_pairs_that_start_apart_are_counted_while_all_send() -> None:
    rates, total = together([reply(0.0, 1e8), reply(0.25, 2e8)], 0.05, 0.5)
    assert rates == pytest.approx([1e8, 2e8], rel=1e-3)
    assert total == pytest.approx(3e8, rel=1e-3)
    late = reply(0.0, 1e8)
    # The first sends alone for a quarter of the time, which does not count.
    for at in range(5):
        late.bulk.flows[0].bin_bytes[at] *= 3
    assert together([late, reply(0.25, 2e8)], 0.05, 0.5)[0] == pytest.approx([1e8, 2e8], rel=1e-3)
    with pytest.raises(AgentError, match=r"0.40 s only, not 0.5 s"):
        together([reply(0.0, 1e8), reply(0.6, 1e8)], 0.05, 0.5)


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=60))
@examples(60)
def test_jains_index_lies_between_an_nth_and_one(rates: list[float]) -> None:
    index = jain(rates)
    assert (
        index is None if not any(rate * rate for rate in rates) else 1 / len(rates) - 1e-9 <= (index or 0) <= 1 + 1e-9
    )


def test_this_machine_tells_of_itself() -> None:
    import subprocess

    def told() -> dict[str, object]:
        return read_state(subprocess.run(["sh", "-c", SCRIPT], capture_output=True, text=True, check=False).stdout)

    before = told()
    assert {
        "kernel",
        "time_s",
        "load_1min",
        "cpus",
        "cpu_ticks",
        "interfaces",
        "retransmitted_segments",
        "versions",
    } <= before.keys()
    assert "lo" in before["interfaces"]  # type: ignore[operator]
    assert set(used(before, told())) <= {"cpu", "softirq", "steal", "process"}


@given(st.text("@statcpulindv:= 0123456789.\n", max_size=300))
@examples(200)
def test_any_account_is_safe(text: str) -> None:
    state = read_state(text)
    assert set(used(state, state)) <= {"cpu", "softirq", "steal", "process"}


def test_shares_are_of_the_time_between() -> None:
    first = {"cpu_ticks": {"user": 0, "idle": 0, "softirq": 0, "steal": 0}, "agent_ticks": 10, "cpus": 2}
    last = {"cpu_ticks": {"user": 50, "idle": 100, "softirq": 40, "steal": 10}, "agent_ticks": 60, "cpus": 2}
    assert used(first, last) == {"cpu": 0.5, "softirq": 0.2, "steal": 0.05, "process": 0.5}
    assert used({}, last) == {}


OSMEF = {
    "btc": {
        f"conn_{number}": {
            "rx": {"rate_Mbps": f"{100 + number}.5", "cpu": "5%"},
            "tx": {"retrans": "1", "rtt_ms": "0.276", "cpu": "4%", "real_seconds": "360.00"},
        }
        for number in (1, 2)
    },
    "concurrent": 2,
    "receiver": "me@192.168.46.11",
    "senders": "me@192.168.46.15",
    "state_receiver": {"kernel_version": "3.2.0-49-generic", "load_1": "0.08"},
    "time": 1374580149.1,
    "type": "BTC",
}
"""Two connections of a file as OSMeF writes them, with most of nuttcp's fields left out."""


@pytest.mark.slow
def test_results_of_osmef(tmp_path: Path) -> None:
    folder = tmp_path / "vm_to_vm_2"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}_BTC.json").write_text(json.dumps(OSMEF | {"time": 1374580149.1 + number}))
    done = gavotte("campaign", "import", *sorted(folder.iterdir()), "-o", tmp_path / "o.jsonl")
    assert done.returncode == 0, done.stderr
    samples = read_samples(tmp_path / "o.jsonl")
    assert [each.repetition for each in samples] == [0, 1, 2]
    first = samples[0]
    assert (first.source, first.target, first.connections) == ("192.168.46.15", "192.168.46.11", 2)
    assert first.value == pytest.approx(204e6)
    assert first.metrics["retransmits"].value == 2
    assert first.metrics["distance"].value == 2
    assert first.metadata["before"]["192.168.46.11"]["kernel"] == "3.2.0-49-generic"
    (folder / "0_BTC.json").write_text('{"btc": {}, "time": 3}')
    wrong = gavotte("campaign", "import", folder / "0_BTC.json", "-o", tmp_path / "p.jsonl")
    assert wrong.returncode == 1
    assert "btc: has no connections" in wrong.stderr


SUMMARY = {
    "vm2": {
        "vm2:m0": [{"cpu_time": "400", "wall_time_start": "1407911289100", "bytes": "1000000", "time_elapsed": "900"}]
    },
    "vm3": {
        "vm3:m1": [{"cpu_time": "500", "wall_time_start": "1407911289100", "bytes": "3000000", "time_elapsed": "1900"}]
    },
    "vm1": {
        "vm1:r0": [
            {"cpu_time": "250", "wall_time_start": "1407911289000", "bytes": "1000000", "time_elapsed": "1000"},
            {"cpu_time": "750", "wall_time_start": "1407911289000", "bytes": "3000000", "time_elapsed": "2000"},
        ]
    },
}
"""Two mappers and a reducer with a thread for each, as the `summary.json` of 2014 have them without threads' names."""


@pytest.mark.slow
def test_results_of_osmefs_later_experiments(tmp_path: Path) -> None:
    folders = [tmp_path / "incast" / f"incast_2-140791128{number}" for number in (9, 8)]
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        shifted = json.dumps(SUMMARY).replace("14079112890", f"1407911{289 - number}0")
        (folder / "summary.json").write_text(shifted)
    done = gavotte("campaign", "import", *(each / "summary.json" for each in folders), "-o", tmp_path / "o.jsonl")
    assert done.returncode == 0, done.stderr
    first, second = read_samples(tmp_path / "o.jsonl")
    assert (first.scenario, first.repetition, second.repetition) == ("incast_2", 0, 1)
    assert first.time_s < second.time_s == 1407911289
    assert (second.source, second.target, second.connections, second.seconds) == ("vm2,vm3", "vm1", 2, 2.0)
    assert second.value == pytest.approx(16e6)
    assert second.connection_bps == [8e6, 12e6]
    assert second.metrics["receiver_cpu"].value == 0.5
    report = gavotte("campaign", "report", tmp_path / "o.jsonl", "-o", tmp_path / "o.md")
    assert report.returncode == 0, report.stderr
    damaged = folders[0] / "summary.json"
    for message, says in (
        ('{"vm1": {"vm1:r0": [{"bytes": "1"}]}}', "vm1.vm1:r0[0]: lacks one of bytes"),
        ('{"vm1": {"vm1:r0": []}}', "has no mapper and reducer"),
        ('{"vm1": {"vm1:x0": []}}', "is neither a mapper nor a reducer"),
    ):
        damaged.write_text(message)
        wrong = gavotte("campaign", "import", damaged, "-o", tmp_path / "p.jsonl")
        assert wrong.returncode == 1
        assert says in wrong.stderr


def test_a_parquet_table_has_a_row_for_each_value(tmp_path: Path) -> None:
    from gavotte.campaign import write_parquet

    samples = repeated("near", [1e8, 2e8], connections=2, connection_bps=[4e7, 6e7])
    assert write_parquet(tmp_path / "r.parquet", samples) == 2 * (1 + 1 + 2)
    table = pq.read_table(tmp_path / "r.parquet").to_pylist()
    assert {row["metric"] for row in table} == {
        "capacity_bps",
        "connection_bps",
        "connection_bps[0]",
        "connection_bps[1]",
    }
    assert sum(row["value"] for row in table if row["metric"] == "capacity_bps") == 3e8


def test_damaged_samples_are_named(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"format": "gavotte/record/1", "kind": "run"}\n')
    with pytest.raises(FormatError, match=r"r.jsonl:1"):
        read_samples(tmp_path / "r.jsonl")
