"""Rows that leave their plan open: every plan the software allows is in the band, and the fill is named."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.estimate.shared.results import number
from costmodel.estimate.training.parallelism.pipeline import stage_layers
from costmodel.evidence.validate.modelled_rows import Modelled, modelled
from costmodel.evidence.validate.outcomes import ComparedFigure, outcome, outcomes_over
from costmodel.evidence.validate.spelling import CannotModel
from evidence.validate.runs_of_22b import PIPELINE as OPEN
from evidence.validate.runs_of_22b import SHELF

PIPELINE = OPEN | {"micro_batch": 1, "vp": 1}
CORE = {"framework": "Megatron-Core", "year": 2025, "nic_gbps_per_gpu": 200}


def both(given: Any) -> tuple[Modelled, ComparedFigure, ComparedFigure]:
    """A row's model, the outcome of its plan alone, and that over all its plans."""
    model = modelled(given, SHELF)
    (found,) = outcomes_over([(given, model)], "time", SHELF)
    assert not isinstance(found, CannotModel)
    return model, outcome(given, model, "time"), found[0]


def time_with(given: Any) -> float:
    return outcome(given, modelled(given, SHELF), "time").predicted


def test_a_schedule_that_is_not_known_is_the_middle_of_those_there_are(row: Any) -> None:
    """Such a row was left out; what it is reported as stands in the row."""
    cells = PIPELINE | CORE | {"vp": ""}
    model, alone, found = both(row(**cells, features="schedule=Wave"))
    times = [time_with(row(**cells, features=f"schedule={name}")) for name in ("1f1b", "interleaved", "gpipe")]
    assert found.predicted == pytest.approx(sorted(times)[1])
    assert found.low is not None
    assert alone.low is not None
    assert found.low / found.predicted < 0.95 * alone.low / alone.predicted
    assert model.filled["schedule"] == "interleaved or 1f1b or gpipe"


def test_chunks_that_nobody_stated_widen_the_band_towards_where_they_lie(row: Any) -> None:
    cells = PIPELINE | CORE
    model, alone, found = both(row(**cells | {"vp": ""}))
    assert found.predicted == pytest.approx(alone.predicted)
    slower = time_with(row(**cells))
    assert slower > found.predicted
    assert found.high is not None
    assert alone.high is not None
    assert found.high > alone.high
    assert found.low == pytest.approx(alone.low)
    assert " or 1" in model.filled["vp"]


@pytest.mark.parametrize(
    ("notes", "named"), [("", True), ("DP/TP/PP comm overlap enabled", False), ("overlap off", False)]
)
def test_megatron_lm_is_the_middle_of_what_overlaps_and_what_does_not(row: Any, notes: str, named: bool) -> None:
    cells = PIPELINE | CORE | {"framework": "Megatron-LM", "notes": notes}
    model, alone, found = both(row(**cells))
    assert (model.filled.get("stack") == "megatron-lm or megatron-core") is named
    slow, fast = (time_with(row(**cells | {"framework": name})) for name in ("megatron-lm", "megatron-core"))
    assert found.predicted == pytest.approx((slow * fast) ** 0.5 if named else alone.predicted)


def test_what_a_paper_states_of_its_baseline_leaves_nothing_open(row: Any) -> None:
    """MegaScale's ablation adds overlap to the Megatron-LM that it compares with."""
    cells = PIPELINE | CORE | {"framework": "Megatron-LM", "source": "arXiv 2402.15627", "features": ""}
    model, alone, found = both(row(**cells))
    assert found == alone
    assert (model.inputs.stack.name, model.filled["features"]) == ("megatron-lm", "overlap off")


def test_layers_that_the_stages_do_not_divide_are_spread(row: Any) -> None:
    """61 layers on 16 stages: thirteen stages of four layers and three of three, as Megatron-LM allows."""
    cells = PIPELINE | CORE | {"gpus": 32, "pp": 16, "layers": 61, "global_batch": 64}
    model = modelled(row(**cells), SHELF)
    block = model.evaluation.block
    held = [number(each) for each in stage_layers(model.inputs.model, block).stages(16.0)]
    assert model.filled["stages"] == "spread"
    assert max(held) == 4
    fewer, more = (time_with(row(**cells | {"layers": layers})) for layers in (48, 64))
    assert fewer < outcome(row(**cells), model, "time").predicted < more


def test_torchtitan_takes_the_batch_of_a_rank_at_once(row: Any) -> None:
    cells = {"framework": "torchtitan", "fsdp": "true", "tp": 1, "pp": 1, "zero_stage": 3, "global_batch": 16}
    assert modelled(row(**cells, year=2025, micro_batch=""), SHELF).inputs.case.scenario.plan.micro_batch == 2


def test_what_is_stated_leaves_nothing_open(row: Any) -> None:
    _, alone, found = both(row(**PIPELINE | CORE))
    assert found == alone
