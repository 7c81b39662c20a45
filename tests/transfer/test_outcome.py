"""What a failed broadcast says: hosts, causes and the remedy."""

from __future__ import annotations

from tests import builders

from gavotte.transfer import BroadcastResult, Receiver, plan_broadcast

PLAN = plan_broadcast(builders.network("abcd", egress_bps=8e6, ingress_bps=8e6), "a", ["b", "c", "d"], 1000)


def result(**errors: str) -> BroadcastResult:
    receivers = [Receiver(host, f"/x/{host}", ok=host not in errors, error=errors.get(host, "")) for host in "bcd"]
    return BroadcastResult(PLAN, receivers)


def test_hosts_that_were_lost_are_named_with_what_to_do() -> None:
    lost = result(b="its agent has reported nothing for 1.8 s", d="its agent has reported nothing for 1.8 s")
    assert lost.loss_message("/x/{host}") == (
        "2 of 3 receivers did not get the file: b, d: its agent has reported nothing for 1.8 s"
    )
    assert lost.remedy("/x/{host}") == "send it again to b, d: what has arrived there is not sent again"


def test_a_copy_that_cannot_be_written_needs_another_place() -> None:
    full = result(c="/x/c.partial: no space for 1000 bytes: No space left on device")
    assert full.remedy("/x/{host}") == "give -o a folder that each receiver has, may write to and has room in"
    missing = result(c="/x/c.partial: No such file or directory (os error 2)")
    assert missing.remedy("/x/{host}").startswith("make the folder `/x` on each of them, or give -o a folder")
