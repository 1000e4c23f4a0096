"""Sizes outside the range of a fit: what is remarked, and the wider band."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.load_scenario import load, load_any
from costmodel.documents.reader.rl_scenario import reinforced
from costmodel.documents.schemas.efficiency import CollectiveFit, Efficiency, Fitted
from costmodel.equations.run.uncertainty import TENTH
from costmodel.estimate.rl.predict_rl import predict as predict_rl
from costmodel.estimate.shared.fit_ranges import outside, widened
from costmodel.estimate.shared.results import number
from costmodel.estimate.training_answer.predict_training import Answer, predict
from costmodel.estimate.training_answer.training_error_band import kind_errors, residual
from costmodel.explore.collective import collective
from costmodel.explore.scenario_from_flags import ScenarioFlags
from estimate.serving.cases import predicted

NVLINK = Fitted(points=10, median=0.04, p90=0.14, out_of="fit", range="ranks 2 to 4, bytes 1.02 kB to 268 MB")
RACK = "cluster={node: gb200-nvl72, nodes: 18}"


def spread_of(low: float, high: float) -> float:
    """Standard deviation of the logarithm that a band shows."""
    return math.log(high / low) / (2 * TENTH)


@pytest.mark.parametrize(
    ("ranks", "nbytes", "factor"),
    [
        (2, 1e6, 1.0),
        (4, 268e6, 1.0),
        (1, 1e6, 1.0),  # which exchanges nothing
        (8, 1e6, 2.0),
        (72, 1e6, 1 + math.log2(18)),
        (4, 536e6, 2.0),
        (4, 300e6, 1.0),  # as near as the ends are written
        (4, 1e12, 3.0),
        (4, 1.0, 3.0),
        (8, 536e6, 3.0),
    ],
)
def test_the_error_of_a_collective_counts_once_more_for_each_doubling(ranks: int, nbytes: float, factor: float) -> None:
    found = widened(0.07, NVLINK, ranks=float(ranks), bytes=nbytes)
    assert float(np.asarray(found)) == pytest.approx(0.07 * factor, rel=1e-6)


def test_a_fit_without_a_range_has_its_own_error() -> None:
    for fitted in (None, Fitted(median=0.1, p90=0.2), Fitted(range="GH200, forward, head dimension 128")):
        assert widened(0.07, fitted, ranks=72.0, bytes=1.0, n=8.0) == 0.07


def test_large_products_are_no_less_certain() -> None:
    fitted = Fitted(range="m 1 to 32,768, n 256 to 65,536, k 256 to 65,536")
    assert widened(0.07, fitted, n=2.0**20, k=4096.0) == 0.07
    assert float(np.asarray(widened(0.07, fitted, n=128.0, k=4096.0))) == pytest.approx(0.14)


def test_what_lies_outside_is_named_from_a_hundredth_of_the_time_on() -> None:
    (found,) = outside(NVLINK, "all-reduce", 0.01, ranks=72.0, bytes=1e6)
    assert found.words == "all-reduce over 72 ranks; fitted on 2 to 4"
    assert not list(outside(NVLINK, "all-reduce", 0.009, ranks=72.0))
    (found,) = outside(NVLINK, "all-reduce", 1.0, ranks=2.0, bytes=4e9)
    assert found.words == "all-reduce of 4.00 GB; fitted on 1.02 kB to 268 MB"


def test_ranges_of_shipped_fits_are_read() -> None:
    """Every collective that was fitted states its ranks and bytes, every matrix product its shapes."""
    seen = 0
    for name in names("efficiency"):
        document: Efficiency = read("efficiency", name)
        for fit in (*document.collectives.values(), *document.alone.values()):
            if fit.fitted is not None and fit.fitted.points is not None and fit.fitted.range:
                bounds, seen = fit.fitted.bounds, seen + 1
                assert bounds["ranks"][0] >= 2, name
                assert 256 <= bounds["bytes"][0] < bounds["bytes"][1] < 1e12, name
        for product in document.matmul.values():
            if product.fitted is not None and product.fitted.range:
                assert {"m", "n", "k"} <= set(product.fitted.bounds)
    assert seen > 20


def test_a_collective_over_a_rack_is_not_as_measured() -> None:
    """72 ranks by a fit of 2 to 4: a band of 4.2 residuals more, and no claim that it was measured."""
    flags = ScenarioFlags(node="gb200-nvl72", gpus=72)
    found = collective("all-reduce", ("1MB",), flags)
    assert [each.words for each in found.outside] == ["all-reduce over 72 ranks; fitted on 2 to 4"]
    near = collective("all-reduce", ("1MB",), ScenarioFlags(node="gb200-nvl72", gpus=4))
    assert not near.outside
    wide, narrow = (spread_of(each.rows[-1].time, each.rows[-1].high) for each in (found, near))
    assert wide == pytest.approx(narrow * (1 + math.log2(18)), rel=1e-6)
    fit: CollectiveFit = read("efficiency", "gb200").collectives["all_reduce"]
    assert fit.fitted is not None
    assert fit.fitted.bounds["ranks"] == (2.0, 4.0)


def test_training_names_tensor_parallelism_outside_its_fit() -> None:
    """tp 16 by fits of 2 to 4 ranks: the same step, a wider band; tp 4 of the same machine has neither."""
    asked = ("model=llama-3-70b", "cluster={node: gb200-nvl72, nodes: 16}")
    wide, near = (
        predict(load("llama-3-70b-512", (*asked, f"plan={{tp: {tp}, pp: 4, micro_batch: 1}}"))) for tp in (16, 4)
    )
    assert "N054" in wide.remarked
    assert {item.value for item in wide.assumed if item.path.endswith("outside its fit")} == {"16 ranks"}
    assert "N054" not in near.remarked


def test_services_and_reinforcement_learning_name_it_too() -> None:
    load = "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64, precision: fp8}"  # fits in tp 4
    served = predicted("model=llama-3.1-405b", "limits={}", load, RACK, "plan={tp: 16}")
    assert "N054" in served.remarked
    near = predicted("model=llama-3.1-405b", "limits={}", load, RACK, "plan={tp: 4}")
    assert "N054" not in near.remarked
    spread = {name: spread_of(each.costs["tpot_low"], each.costs["tpot_high"]) for name, each in
              (("wide", served), ("near", near))}  # fmt: skip
    part = served.costs["tp_exposed"] / served.costs["tpot"]
    assert spread["wide"] > math.hypot(spread["near"], 0.5 * part * 0.09)
    engines = ("model=llama-3.1-405b", "cluster={node: gb200-nvl72, nodes: 36}")
    plan = "plan={zero: 3, rollout: {tp: 16, colocated: false, ranks: 72}}"
    trained = predict_rl(reinforced(load_any("grpo-qwen-2.5-7b-64", (*engines, plan))))
    assert any(item.path == "all-reduce outside its fit" for item in trained.assumed)


STREAMS = Fitted(points=975, median=0.085, p90=0.291, out_of="sample", range="nbytes 9.44 MB to 7.55 GB")


def test_large_streams_are_no_less_certain() -> None:
    assert widened(0.1, STREAMS, nbytes=1e12) == 0.1
    assert widened(0.1, STREAMS, nbytes=9.44e6 / 1.4) == 0.1
    assert float(np.asarray(widened(0.1, STREAMS, nbytes=9.44e6 / 2))) == pytest.approx(0.2)
    (found,) = outside(STREAMS, "memory-bound kernel", 0.5, nbytes=2e6)
    assert found.words == "memory-bound kernel of 2.00 MB; fitted on 9.44 MB to 7.55 GB"


def small_model(sequence: int, node: str = "dgx-h100") -> Answer:
    """GPT-2 with short sequences, so that an addition to its residual stream moves 6 · 768 B a token."""
    plan = "plan={tp: 1, pp: 1, micro_batch: 1}"
    work = f"workload={{kind: training, sequence: {sequence}, global_batch: 512, precision: bf16}}"
    return predict(load("quickstart", ("model=gpt-2-small", f"cluster={{node: {node}, nodes: 4}}", work, plan)))


def test_training_names_memory_bound_kernels_smaller_than_those_of_the_fit() -> None:
    """Additions of 2.4 MB by a fit from 9.44 MB on: memory-bound time is off by three times as much, updates as
    before; a part whose fit states no range has none to leave.
    """
    small, other = small_model(512), small_model(512, node="dgx-b200")
    assert "N054" in small.remarked
    named = {item.path: item.value for item in small.assumed if item.path.endswith("outside its fit")}
    assert named["memory-bound kernel outside its fit"] == "2.36 MB"
    assert not any(item.path.startswith("memory-bound kernel") for item in other.assumed)
    fit = small.inputs.case.efficiency.memory
    assert fit is not None
    step, spread = small.evaluation.step, float(np.asarray(residual(fit)))
    errors = kind_errors(small.inputs, step)
    within, updates = (float(np.asarray(step.terms[name])[0]) for name in ("memory_bound", "optimizer"))
    assert fit.fitted is not None
    factor = 1 + min(math.log2(fit.fitted.bounds["nbytes"][0] / (512 * 768 * 2 * 3)), 2.0)
    assert number(errors["memory-bound"]) == pytest.approx(spread * (factor * within + updates), rel=1e-9)


def test_kernels_as_large_as_those_of_the_fit_are_not_named() -> None:
    named = [item.path for item in small_model(2048).assumed if item.path.endswith("outside its fit")]
    assert "memory-bound kernel outside its fit" not in named


@pytest.mark.parametrize(
    ("prompt", "outside_fit"), [(64, True), (256, True), (400, False), (512, False), (4096, False)]
)
def test_services_name_prompts_shorter_than_those_of_the_fit(prompt: int, outside_fit: bool) -> None:
    """Attention to prompts was fitted from 512 tokens on; 400 are as near as the ends are written."""
    work = f"workload={{kind: serving, prompt: {prompt}, output: 64, concurrency: 8}}"
    found = predicted("model=llama-3-8b", "limits={}", work, "plan={tp: 1}")
    assert ("N054" in found.remarked) is outside_fit
    named = [item for item in found.assumed if item.path == "attention to prompts outside its fit"]
    assert [item.value for item in named] == ([f"{prompt} tokens"] if outside_fit else [])
    assert (found.inputs.beyond_first > 0) is outside_fit
    if not outside_fit:
        return
    first, token = (spread_of(found.costs[f"{name}_low"], found.costs[f"{name}_high"]) for name in ("ttft", "tpot"))
    spread = found.inputs.engine.spread
    assert first == pytest.approx(math.hypot(spread.ttft, found.inputs.beyond_first), rel=1e-6)
    assert token == pytest.approx(spread.tpot, rel=1e-2)
