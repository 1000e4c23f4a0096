"""Every shipped node estimates Llama 3 8B, or names the precisions that its accelerator has."""

from __future__ import annotations

import pytest
from each import each

from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training_answer.predict_training import answer, own_plan
from costmodel.ground.errors import CostModelError

LAYERS = 8_030_261_248 - 128_256 * 4096  # parameters that every token is multiplied by


@each("name", names("node"))
def test_it_estimates_within_its_peak_and_memory(name: str) -> None:
    chip = read("accelerator", read("node", name).accelerator)
    asked = [f"cluster.node={name}", "cluster.nodes=2", "workload.global_batch=480", "plan.tp=1"]
    if chip.peak.bf16 is None:
        with pytest.raises(CostModelError) as raised:
            training_inputs(load("quickstart", asked))
        (found,) = raised.value.faults
        assert (found.code, found.hint) == ("D016", "workload.precision of it: fp16, fp32")
        asked.append("workload.precision=fp16")
    inputs = training_inputs(load("quickstart", asked))
    costs = answer(inputs, own_plan(inputs)).evaluation.costs.row()
    of_parameters = 6 * LAYERS * costs["tokens_per_s_per_gpu"] / chip.peak.wide
    assert of_parameters < costs["mfu"] < min(1.0, 1.25 * of_parameters), "the rest is attention's"
    assert costs["memory_peak"] / costs["memory_share"] == pytest.approx(float(chip.memory.usable), rel=1e-6)
