"""Steps in backward and paged optimizers: what stays on the device, and what moving it costs."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.estimate.training.memory_breakdown import fit_chance
from costmodel.estimate.training.training_inputs import TrainingInputs
from estimate.cases import ask, inputs, line, one, written_out


def job(*, in_backward: bool = False, paged: bool = False, **more: Any) -> TrainingInputs:
    """A full fine-tune of Llama 3.1 8B on one card of 24 GB, all in bf16."""
    node = written_out("node", "rtx4090-8", accelerators=1, built_with=8, name="one")
    optimizer = written_out("optimizer", "adam-8bit", name="lean", in_backward=in_backward, paged=paged)
    asked = {"node": node, "global_batch": 1, "sequence": 512, "stack": "torchtune"} | more
    return inputs("llama-3.1-8b", workload={"optimizer": optimizer}, **asked)


def test_a_step_in_backward_keeps_the_gradients_of_the_largest_layer() -> None:
    held = [line(ask(job(in_backward=lean)), "gradients") for lean in (False, True)]
    assert held[0] == pytest.approx(2 * 8.03e9, rel=2e-3)
    assert held[1] == 2 * (128_256 + 1) * 4096  # the head and the last norm are larger than any layer


def test_pages_take_what_is_over_and_no_more() -> None:
    whole, paged = (ask(job(in_backward=True, paged=lean)).evaluation for lean in (False, True))
    usable = float(job().usable_memory)
    states = sum(one(each) for each in (paged.ledger.line("pages", 0), paged.ledger.paged))
    held_back = one(whole.ledger.line("fragmentation", 0)) - one(paged.ledger.line("fragmentation", 0))
    assert held_back == pytest.approx(0.05 * states)  # torch's allocator has none of managed memory
    over = one(whole.ledger.worst) - usable - held_back
    assert 0 < over < 2.03 * 8.03e9
    assert over <= one(paged.ledger.paged) < over + 2**21
    assert usable - 2**21 < one(paged.ledger.worst) <= usable
    assert one(paged.ledger.host[0]) == pytest.approx(one(paged.ledger.paged))


def test_a_step_waits_for_its_pages_both_ways() -> None:
    asked = job(in_backward=True, paged=True)
    paged, whole = ask(asked).evaluation, ask(job(in_backward=True)).evaluation
    added = one(paged.step.total) - one(whole.step.total)
    rate = float(asked.host.link) * float(asked.host.link_share)
    assert added == pytest.approx(2 * one(paged.ledger.paged) / rate)


def test_pages_cost_nothing_where_all_fits() -> None:
    roomy = {"node": written_out("node", "dgx-h100", accelerators=1, built_with=8, name="one")}
    row, other = (ask(job(in_backward=True, paged=lean, **roomy)).evaluation.costs.row() for lean in (True, False))
    held = [name for name in row if name.startswith("memory_") or name == "fit_chance"]
    assert {**row, **{name: other[name] for name in held}} == pytest.approx(other, nan_ok=True)
    assert row["memory_peak"] < other["memory_peak"]  # by what torch's allocator holds back of states


def test_states_that_can_still_move_absorb_the_band() -> None:
    """A full fine-tune of 8B on 24 GB runs so (torchtune 2168): without pages it is far over, with them at the rim."""
    asked = [job(in_backward=True, paged=paged) for paged in (True, False)]
    lean, plain = (ask(each).evaluation for each in asked)
    assert one(fit_chance(asked[1], plain.ledger)) < 0.01
    assert one(fit_chance(asked[0], lean.ledger)) > 0.5
    assert lean.costs.row()["memory_peak_high"] < 1.1 * float(asked[0].usable_memory)
