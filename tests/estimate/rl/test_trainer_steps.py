"""Optimizer steps that several answers share are those that each would have alone."""

from __future__ import annotations

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.rl_scenario import RlCase, reinforced
from costmodel.estimate.rl.predict_rl import predict
from costmodel.estimate.rl.trainer_steps import TrainerSteps
from costmodel.explore.compare.input_paths import case_with_number

OF_BOTH = {
    "cluster.node.accelerator.memory.bandwidth": 3.1e12,
    "cluster.node.accelerator.efficiency.sustained.power": 650.0,
    "cluster.node.accelerator.efficiency.matmul.bf16.compute_share": 0.7,
    "cluster.node.scale_up.fabric.bandwidth": 4e11,
    "cluster.node.scale_out.fabric.bandwidth": 4e10,
    "cluster.node.host.bandwidth": 4e10,
    "cluster.node.memory.capacity": 1e12,
    "cluster.nodes": 16.0,
    "workload.optimizer.moments": 9.0,
    "stack.trainer.overlap.dp": 0.5,
}
OF_ENGINES = {
    "cluster.node.accelerator.efficiency.serving.decode.start": 2e-5,
    "stack.rollout.memory.share": 0.7,
    "stack.sync.sharded": 1e10,
}


@pytest.fixture(scope="module")
def case() -> RlCase:
    return reinforced(load_any("grpo-qwen-2.5-7b-64"))


def test_known_steps_change_no_answer(case: RlCase) -> None:
    """Turned one after the other with the steps of all before, every figure has the results it has alone."""
    steps = TrainerSteps()
    for path, value in {**OF_BOTH, **OF_ENGINES}.items():
        turned = case_with_number(case, path, value)
        assert predict(turned, steps).costs == pytest.approx(predict(turned).costs, nan_ok=True, rel=1e-12), path
    assert predict(case, steps).costs == pytest.approx(predict(case).costs, nan_ok=True, rel=1e-12)


def test_a_figure_of_the_engines_evaluates_no_further_step(case: RlCase) -> None:
    steps = TrainerSteps()
    first = predict(case, steps)
    for path, value in OF_ENGINES.items():
        found = predict(case_with_number(case, path, value), steps)
        assert found.inputs.trainer is first.inputs.trainer, path
    for path, value in OF_BOTH.items():
        assert predict(case_with_number(case, path, value), steps).inputs.trainer is not first.inputs.trainer, path
