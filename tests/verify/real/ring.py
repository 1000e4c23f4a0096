"""A ring all-reduce between real processes over sockets, counting the bytes each one sends."""

from __future__ import annotations

from costmodel.evidence.measure.ring import run_ring

CASES = ((2, 8_192), (4, 8_192), (4, 65_536), (8, 65_536))


def counted() -> list[dict[str, int]]:
    """Ranks, bytes of the buffer, and bytes that each rank sent; every rank ends with the sum."""
    runs = [(ranks, nbytes, run_ring(ranks, nbytes)) for ranks, nbytes in CASES]
    assert all(run.summed for _, _, run in runs)
    return [{"ranks": ranks, "message_bytes": nbytes, "sent_bytes": run.sent} for ranks, nbytes, run in runs]
