"""Marks of equations: the same calls leave the same, and other calls others."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.training_answer.predict_training import predict
from costmodel.explore.compare.compare import _checksum_of_inputs, equation_fingerprints, training_figures
from costmodel.ground.equation import Leaf

NAME = "llama-3-70b-512"


def condensed(*values: float) -> float:
    return _checksum_of_inputs([Leaf("x", value) for value in values])


def test_equal_calls_leave_equal_marks() -> None:
    assert equation_fingerprints(predict(load(NAME))) == equation_fingerprints(predict(load(NAME)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((8, 256), (16, 128)),
        ((8, 256), (256, 8)),
        ((0,), (1,)),
        ((1e-6,), (1.0001e-6,)),
        ((np.inf,), (1,)),
        ((2,), (0.5,)),
    ],
)
def test_other_inputs_leave_other_marks(before: tuple[float, ...], after: tuple[float, ...]) -> None:
    assert abs(condensed(*before) - condensed(*after)) > 1e-5


def test_another_plan_is_asked_otherwise() -> None:
    """Nothing was changed but the plan, so no equation may look as if it had been."""
    old, new = (equation_fingerprints(predict(load(NAME, change))) for change in ([], ["plan.tp=4", "plan.pp=8"]))
    alike = [name for name in old if name in new and abs(old[name].inputs - new[name].inputs) < 1e-6 * old[name].calls]
    assert alike
    assert all(old[name].output == pytest.approx(new[name].output, abs=1e-6 * old[name].calls) for name in alike)


def test_figures_are_results_ledger_and_transfers() -> None:
    answer = predict(load(NAME))
    found, costs = training_figures(answer), answer.evaluation.costs.row()
    assert found[machine_name("step_time")] == costs["step_time"]
    ledger = [value for name, value in found.items() if name.startswith("memory.")]
    assert sum(ledger) == pytest.approx(costs["memory_peak"], rel=1e-12)
    volumes = [value for name, value in found.items() if name.startswith("comm.") and name.endswith("volume_bytes")]
    assert sum(volumes) == pytest.approx(sum(costs[f"{axis}_volume"] for axis in ("tp", "pp", "dp")), rel=1e-12)
