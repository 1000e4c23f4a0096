"""Entries that queries read, counted query by query."""

import numpy as np
import pytest

from costmodel.equations.layers.attention import entry_pairs
from costmodel.equations.layers.residual_streams import hyper_connection_traffic


@pytest.mark.parametrize(
    ("sequence", "run", "top_k"), [(64, 4, 1e9), (67, 4, 5), (67, 4, 17), (3, 4, 2), (128, 128, 1)]
)
def test_a_query_reads_the_entries_of_whole_runs_up_to_its_own_token(sequence: int, run: int, top_k: float) -> None:
    """A query at place t, from 1, sees ⌊t / m⌋ entries."""
    each = [min(top_k, place // run) for place in range(1, sequence + 1)]
    assert entry_pairs(float(sequence), float(run), top_k, causal=True) == sum(each)
    assert entry_pairs(float(sequence), float(run), top_k, causal=False) == sequence * each[-1]


def test_a_million_tokens_are_read_at_a_bounded_cost_of_each() -> None:
    """Past the first runs every query reads as many entries: work grows as the sequence, not as its square."""
    lengths = np.array([2.0**18, 2.0**19, 2.0**20])
    picked = entry_pairs(lengths, 4.0, 1024.0, causal=True)
    assert picked[1:] / picked[:-1] == pytest.approx([2.0, 2.0], rel=0.01)
    whole = entry_pairs(lengths, 4.0, np.inf, causal=True)
    assert whole[1:] / whole[:-1] == pytest.approx([4.0, 4.0], rel=1e-3)


def test_fused_mixing_moves_what_the_paper_counts() -> None:
    """Xie et al., §4.3: behind a half the fused kernel reads n + 1 widths and writes n; ahead n are read.

    The result of the half, one of those widths, counts with the norms.
    """
    for streams in (2.0, 4.0):
        behind, ahead = (streams + 1) + streams, streams + 1
        assert hyper_connection_traffic(1.0, 1.0, streams, 1.0, backward=False) + 1 == behind + ahead
