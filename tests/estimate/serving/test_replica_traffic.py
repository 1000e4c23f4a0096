"""The claim "NVLink < 10 us, InfiniBand < 100 us": it holds for a hop, not for every collective."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.network.collectives import activation_message
from costmodel.estimate.machine.collective_time import collective_time, send_time
from costmodel.estimate.machine.process_groups import group
from costmodel.estimate.serving.engine_step import all_reduce
from costmodel.estimate.serving.replica_capacity import transfers
from estimate.serving.cases import SHIPPED, inputs, one, predicted
from estimate.serving.test_wide_experts import exchanged

RANKS = np.array([8.0])


def test_small_messages_inside_a_node() -> None:
    """One token of Llama 3.1 70B on 8 H100: a send and the engine's own all-reduce; NCCL's takes longer."""
    stated = inputs()
    tp, message = group(stated, "tp", RANKS, 1.0), activation_message(1.0, stated.model.hidden, 2.0)
    assert (SHIPPED, message) == ("serve-llama-3.1-70b", 16_384)
    send = one(send_time(stated, message, group(stated, "pp", np.array([2.0]), 1.0)))
    own, nccl = all_reduce(stated, tp, message), collective_time(stated, message, tp, "all_reduce")
    assert [one(own) * 1e6, one(nccl) * 1e6] == pytest.approx([5.4, 16.8], rel=0.03)
    assert max(send, one(own)) < 10e-6 < one(nccl)
    off = inputs("stack={like: vllm, kernels: {own_all_reduce: 0 B}}")
    assert one(all_reduce(off, tp, message)) == one(nccl)


def test_small_messages_between_nodes() -> None:
    """A send stays far below 100 us: a hop takes 3 to 6, a call of NCCL some more. DeepEP's dispatch of 128 tokens
    takes 77 us on 8 ranks and 118 to 194 from 16 on.
    """
    stated = inputs()
    far = group(stated, "pp", np.array([2.0]), RANKS[0])
    assert one(far.domains) == 2
    assert one(send_time(stated, 16_384.0, far)) == pytest.approx(10.6e-6, rel=0.01)
    assert one(send_time(stated, 16_384.0, far)) - 8.4e-6 < 6e-6  # without the start of NCCL's call
    fabric = ("assume.network_share=1", "stack.dispatch.from_domains=1")
    sent = [one(exchanged(ranks, 128.0, *fabric)[0].time) for ranks in (8, 16, 32, 64, 128, 256)]
    assert sent[0] < 100e-6 < sent[1]
    assert np.all(np.diff(sent) > 0)
    assert [sent[0] * 1e6, sent[-1] * 1e6] == pytest.approx([77, 194], rel=0.15)


@pytest.mark.parametrize("plan", ["plan={tp: 8, pp: 2}", "plan={tp: 4, pp: 4}", "plan={tp: 8}"])
def test_what_a_step_sends_takes_the_time_that_the_step_states(plan: str) -> None:
    """Of a pipeline one micro-batch is sent; there were the messages of all sequences in flight."""
    found = predicted(plan, "workload.rate=5 /s")
    sent = transfers(found.inputs, found.evaluation.layout, found.evaluation.in_flight)
    spent = {"tp": 0.0, "pp": 0.0}
    for item in sent:
        if item.moment == "step":
            spent[item.transfer.group.name] += one(item.transfer.count) * one(item.transfer.time)
    assert spent["tp"] == pytest.approx(found.costs["tp_exposed"], rel=1e-9)
    assert spent["pp"] == pytest.approx(found.costs["pp_exposed"], rel=1e-9)
