"""Bands: they hold the value, widen with every spread that is added, and close when nothing is uncertain."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from each import each

from costmodel.documents.reader.library import UNMEASURED, read
from costmodel.documents.reader.load_scenario import load
from costmodel.documents.schemas.efficiency import Fitted
from costmodel.documents.schemas.results import OF_RUN, OF_STEP, banded_results
from costmodel.documents.schemas.stack import RunSpread
from costmodel.estimate.shared.plan_batch import Block, Structure, one_row
from costmodel.estimate.training.memory_breakdown import LINES, MEMORY_KINDS, memory_band
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training.training_step import TERMS
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.estimate.training_answer.training_error_band import banded, residual, time_spread
from costmodel.ground.counts import EXCHANGING, SIZES
from costmodel.ground.errors import CostModelError
from estimate.cases import TRAINING_STACKS, ask, case, inputs, with_rates

SPREADS = [name for name, field in RunSpread.model_fields.items() if field.annotation is float]
NOTHING = Fitted(median=0.0, p90=0.0)


def priced(
    stack: str = "megatron-core", *, shape: str = "llama-3-8b", node: str = "dgx-h100", precision: str = "bf16"
) -> TrainingInputs:
    return inputs(
        shape,
        node=node,
        nodes=2,
        stack=stack,
        workload={"tokens": "1 T", "precision": precision},
        assume={"price": "2.50 USD/GPU/h"},
    )


def certain(asked: TrainingInputs) -> TrainingInputs:
    """The same case with every residual and every spread at nothing."""

    def exact(fit: Any) -> Any:
        return fit.model_copy(update={"fitted": NOTHING})

    parts = asked.case.efficiency
    efficiency = parts.model_copy(update={"memory": exact(parts.memory), "sustained": exact(parts.sustained)})
    stack = spread(asked, dict.fromkeys(SPREADS, 0.0)).stack
    return replace(
        asked,
        case=replace(asked.case, efficiency=efficiency),
        rates=replace(
            asked.rates,
            linear=replace(asked.rates.linear, fit=exact(asked.rates.linear.fit)),
            attention=None if asked.rates.attention is None else exact(asked.rates.attention),
        ),
        collectives={name: exact(fit) for name, fit in asked.collectives.items()},
        network=exact(asked.network),
        stack=stack,
    )


def spread(asked: TrainingInputs, changes: dict[str, float]) -> TrainingInputs:
    """The same case with other spreads of its stack."""
    changed = asked.stack.spread.model_copy(update=changes)
    return replace(asked, stack=asked.stack.model_copy(update={"spread": changed}))


def width(given: Answer, name: str = "step_time") -> float:
    row = given.evaluation.costs.row()
    return row[f"{name}_high"] / row[f"{name}_low"]


@each("stack", TRAINING_STACKS)
def test_a_band_holds_its_value(stack: str) -> None:
    row = ask(priced(stack), tp=2, pp=2).evaluation.costs.row()
    for name in (item for item in banded_results(OF_RUN) if item in OF_STEP):
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"], name


@pytest.mark.parametrize("stack", ["megatron-core", "megatron-2021", "fsdp2"])
def test_nothing_uncertain_has_no_width(stack: str) -> None:
    row = ask(certain(priced(stack)), tp=2, pp=2).evaluation.costs.row()
    for name in (item for item in banded_results(OF_RUN) if item in OF_STEP):
        assert row[f"{name}_low"] == pytest.approx(row[name], rel=1e-12)
        assert row[f"{name}_high"] == pytest.approx(row[name], rel=1e-12)


@pytest.mark.parametrize("name", SPREADS)
def test_every_spread_of_the_stack_widens(name: str) -> None:
    shape = "mixtral-8x7b" if name == "experts" else "llama-3-8b"
    asked, plan = priced(shape=shape), {"tp": 8, "pp": 2, "recompute": "full"}
    timed = ("step", "unseen", "experts", "launch", "overlap")
    column = "step_time" if name in timed else "memory_peak"
    widths = [width(ask(spread(asked, {name: value}), **plan), column) for value in (0.0, 0.2, 0.4)]
    assert widths[0] < widths[1] < widths[2]


@pytest.mark.parametrize(("shape", "measured"), [("llama-3-8b", True), ("deepseek-v3", True), ("mixtral-8x7b", False)])
def test_memory_of_layers_without_a_measured_run_is_less_sure(shape: str, *, measured: bool) -> None:
    """By what their activations may be off alone: weights, gradients and states are counted as those of any layer."""
    given = ask(certain(priced(shape=shape)), recompute="full", zero=3, micro_batch=1)
    ledger, new = given.evaluation.ledger, given.inputs.case.common.layers
    assert new is not None
    most = max(range(3), key=lambda place: float(np.max(ledger.peaks[place])))
    doubtful = sum(float(np.max(ledger.line(name, most))) for name in MEMORY_KINDS["activations"])
    off = 0.0 if measured else new.spread * doubtful / float(np.max(ledger.peaks[most]))
    row = given.evaluation.costs.row()
    assert math.log(row["memory_peak_high"] / row["memory_peak"]) == pytest.approx(1.2816 * off, rel=0.02, abs=1e-9)
    assert ("memory of attention + experts" in {item.path for item in given.assumed}) is not measured


@pytest.mark.parametrize("group", ["matmul", "attention", "network", "memory", "sustained", "collectives"])
def test_every_residual_widens(group: str) -> None:
    asked, widths = certain(priced()), []
    for error in (0.0, 0.1, 0.2):
        fitted = {"fitted": Fitted(median=error, p90=2 * error)}
        if group == "collectives":
            fits = {name: fit.model_copy(update=fitted) for name, fit in asked.collectives.items()}
            other = replace(asked, collectives=fits)
        elif group in ("memory", "sustained"):
            parts = asked.case.efficiency
            changed = parts.model_copy(update={group: getattr(parts, group).model_copy(update=fitted)})
            other = replace(asked, case=replace(asked.case, efficiency=changed))
        elif group == "matmul":
            linear = asked.rates.linear
            other = with_rates(asked, linear=replace(linear, fit=linear.fit.model_copy(update=fitted)))
        else:
            held = asked if group == "network" else asked.rates
            changed = {group: getattr(held, group).model_copy(update=fitted)}
            other = replace(asked, **changed) if group == "network" else with_rates(asked, **changed)
        widths.append(width(ask(other, tp=2, pp=2)))
    assert widths[0] == pytest.approx(1.0)
    assert widths[0] < widths[1] < widths[2]


@pytest.mark.parametrize(("stack", "slowed"), [("megatron-core", ["matmul"]), ("fsdp2", ["matmul", "attention"])])
def test_what_power_slows_is_as_uncertain_as_the_slow_down(stack: str, slowed: list[str]) -> None:
    asked = certain(priced(stack))
    parts = asked.case.efficiency
    wrong = parts.sustained.model_copy(update={"fitted": Fitted(median=0.1, p90=0.2)})  # type: ignore[union-attr]
    efficiency = parts.model_copy(update={"sustained": wrong})
    given = ask(replace(asked, case=replace(asked.case, efficiency=efficiency)))
    terms = given.evaluation.step.terms
    working = sum(float(np.asarray(time).flat[0]) for name, time in terms.items() if name != "bubble")
    share = sum(float(np.asarray(terms[name]).flat[0]) for name in slowed) / working
    found = float(np.asarray(time_spread(given.inputs, given.evaluation.step)).flat[0])
    assert found == pytest.approx(share * float(residual(wrong)))


@pytest.mark.parametrize("shape", ["nemotron-h-8b", "llama-3-8b"])
def test_cores_are_as_uncertain_as_they_slow_down(shape: str) -> None:
    """Of state spaces and attention side by side only the former's, by how much longer a step is when all slow down."""
    asked = certain(priced(shape=shape))
    asked = replace(asked, sequence=32768.0)
    wrong = Fitted(median=0.1, p90=0.2)
    sustained = asked.case.efficiency.sustained.model_copy(update={"fitted": wrong})  # type: ignore[union-attr]
    slower = sustained.model_copy(update={"factor": 1.02 * sustained.factor})
    terms = []
    for fit in (sustained, slower):
        efficiency = asked.case.efficiency.model_copy(update={"sustained": fit})
        given = ask(replace(asked, case=replace(asked.case, efficiency=efficiency)), recompute="full")
        terms.append({name: float(np.asarray(time).flat[0]) for name, time in given.evaluation.step.terms.items()})
    working = sum(time for name, time in terms[1].items() if name != "bubble")
    longer = (terms[1]["attention"] - terms[0]["attention"]) / (0.02 / 1.02) + terms[1]["matmul"]
    found = float(np.asarray(time_spread(given.inputs, given.evaluation.step)).flat[0])
    assert found == pytest.approx(longer / working * float(residual(sustained)), rel=0.006)  # heads of 64


def test_your_own_runs_take_the_spread_of_sources_away() -> None:
    """What is left is how far runs of one source lie apart; a source of somebody else's fit changes nothing."""
    asked = priced()
    alike, parts = spread(asked, {"unseen": 0.0}), asked.case.efficiency
    assert parts.sustained is not None

    def cited(source: str) -> TrainingInputs:
        changed = parts.model_copy(update={"sustained": parts.sustained.model_copy(update={"source": source})})  # type: ignore[union-attr]
        return replace(asked, case=replace(asked.case, efficiency=changed))

    assert width(ask(cited("calibrate-0123abcd"))) == pytest.approx(width(ask(alike)))
    assert width(ask(cited("their-fit"))) == width(ask(asked)) > 1.05 * width(ask(alike))


def test_a_part_of_another_maker_is_less_sure() -> None:
    """MI250X and L40S have no runs that were fitted; the constants come from parts of NVIDIA."""
    foreign, own = priced(node="mi250x-frontier"), priced(node="pcie-l40s-8")

    def apart(asked: TrainingInputs) -> float:
        fit = asked.case.efficiency.sustained.model_copy(update={"others": 0.0})  # type: ignore[union-attr]
        same = replace(
            asked, case=replace(asked.case, efficiency=asked.case.efficiency.model_copy(update={"sustained": fit}))
        )
        return width(ask(asked)) / width(ask(same))

    assert apart(foreign) > 1.3
    assert apart(own) == 1.0


@pytest.mark.parametrize("fit", ["a100-sxm-80", "b200-sxm", "gb200", "gb300", "h100-sxm", "h200-sxm", "l40s"])
def test_a_part_of_another_maker_that_borrows_a_fit_is_less_sure(fit: str) -> None:
    """The document of an accelerator may name the kernels of another maker's; nothing was measured on it then."""

    def band(vendor: str) -> float:
        settings = (f"cluster.node.accelerator.efficiency={fit}", f"cluster.node.accelerator.vendor={vendor}")
        return width(ask(training_inputs(load("llama-3-70b-512", settings))))

    assert band("Acme") > 1.2 * band("NVIDIA")


def test_an_accelerator_never_fitted_has_a_wider_band() -> None:
    """The same accelerator under constants common to all: only what was fitted is told apart."""
    fitted = priced()
    common = fitted.case.common
    unfitted = replace(
        fitted,
        case=replace(fitted.case, efficiency=common),
        rates=replace(fitted.rates, linear=replace(fitted.rates.linear, fit=common.matmul["bf16"])),
        collectives=common.collectives,
    )
    assert width(ask(unfitted, tp=2)) > 1.1 * width(ask(fitted, tp=2))


def test_the_remark_on_it_says_so() -> None:
    never, fitted = ask(priced(node="mi250x-frontier"), tp=2), ask(priced(), tp=2)
    assert "N005" in never.remarked
    assert "N005" not in fitted.remarked
    assert width(never) > 1.1 * width(fitted)


def test_it_is_said_too_where_steps_alone_were_measured() -> None:
    """Of what calibrate begins for such a part nothing has a residual but what it fits."""
    asked = priced()
    parts = asked.case.efficiency
    bare = {
        group: {name: fit.model_copy(update={"fitted": None}) for name, fit in getattr(parts, group).items()}
        for group in ("matmul", "attention", "collectives")
    }
    bare["memory"] = parts.memory.model_copy(update={"fitted": None})
    begun = replace(asked, case=replace(asked.case, efficiency=parts.model_copy(update=bare)))
    assert "N005" in ask(begun, tp=2).remarked
    for one in ({"matmul": {**bare["matmul"], "bf16": parts.matmul["bf16"]}}, {"memory": parts.memory}):
        kernels = replace(asked, case=replace(asked.case, efficiency=parts.model_copy(update={**bare, **one})))
        assert "N005" not in ask(kernels, tp=2).remarked


def test_rates_are_the_other_end_of_the_time() -> None:
    row = ask(priced(), tp=2).evaluation.costs.row()
    for one, other in (("low", "high"), ("high", "low")):
        ratio = row[f"step_time_{one}"] / row["step_time"]
        for name in ("tokens_per_s", "tokens_per_s_per_gpu", "mfu"):
            assert row[f"{name}_{other}"] == pytest.approx(row[name] / ratio)
        for name in ("cost_per_mtoken", "run_time", "run_cost"):
            assert row[f"{name}_{one}"] == pytest.approx(row[name] * ratio)


def test_a_step_drawn_term_by_term_has_that_band() -> None:
    """Kinds drawn apart, the terms of one kind together, the bubble as wrong as the work it waits for."""
    asked = spread(priced("megatron-2021"), {"overlap": 0.0, "unseen": 0.0})
    given = ask(asked, tp=4, pp=2)
    terms = {name: float(np.asarray(value).flat[0]) for name, value in given.evaluation.step.terms.items()}
    common, draws = asked.case.common, np.random.default_rng(4)

    def error(relative: Any) -> Any:
        return np.exp(float(relative) * draws.normal(size=100_000))

    # Llama 3 8B by hand: query, key and value; projection; MLP up and down; two products of scores; head.
    layer = [4096 * 6144, 4096 * 4096, 4096 * 28672, 4096 * 14336, 2 * 4096 * asked.sequence]
    flop = np.array([*(32 * np.array(layer)), 128256 * 4096])
    assert asked.rates.attention is None
    apart = draws.normal(size=(100_000, flop.size)) * float(residual(asked.rates.linear.fit))
    matmul, sustained = np.exp(apart) @ flop / flop.sum(), error(residual(asked.case.efficiency.sustained))
    streams, software = error(residual(asked.case.efficiency.memory, common.memory)), error(asked.stack.spread.step)
    inside = max(float(residual(asked.collectives[name], common.collectives[name])) for name in ("all_reduce",))
    working = (terms["matmul"] + terms["attention"]) * matmul * sustained
    working = working + (terms["memory_bound"] + terms["optimizer"]) * streams
    working = working + terms["launch"] * error(asked.stack.spread.launch)
    working = working + terms["tp"] * error(inside) + terms["pp"] + terms["dp"]
    busy = sum(terms.values()) - terms["bubble"]
    drawn = working * (1 + terms["bubble"] / busy) * software
    row = given.evaluation.costs.row()
    assert row["step_time_low"] == pytest.approx(np.percentile(drawn, 10), rel=0.01)
    assert row["step_time_high"] == pytest.approx(np.percentile(drawn, 90), rel=0.01)


@pytest.mark.parametrize("unseen", [0.02, 0.055, 0.2])
def test_a_source_drawn_with_heavy_tails_has_that_band(unseen: float) -> None:
    """Most of what is drawn around a normal error by a Student t of three degrees lies where the band says."""
    asked, draws = priced(), np.random.default_rng(4)
    normal, whole = (ask(spread(asked, {"unseen": scale})) for scale in (0.0, unseen))
    sigma = math.log(width(normal)) / 2 / 1.28155
    drawn = sigma * draws.normal(size=200_000) + unseen * draws.standard_t(3, size=200_000)
    assert np.mean(np.abs(drawn) < math.log(width(whole)) / 2) == pytest.approx(0.8, abs=0.012)


def test_shapes_alike_average_less() -> None:
    """A mixture of experts spends its products in one shape; constants of no measurement are wrong for all shapes."""
    fitted = {"fitted": Fitted(median=0.1, p90=0.2)}

    def alone(asked: TrainingInputs) -> float:
        """How wide the band is by products alone, for their share of the step."""
        fit = asked.rates.linear.fit.model_copy(update=fitted)
        given = ask(with_rates(certain(asked), linear=replace(asked.rates.linear, fit=fit)))
        row = given.evaluation.costs.row()
        return float(np.log(width(given)) * row["step_time"] / row["matmul"])

    never = priced(node="mi250x-frontier")
    assert 0.0 < alone(priced()) < alone(priced(shape="mixtral-8x7b")) < alone(never)


def test_every_term_and_line_is_of_a_kind() -> None:
    """A term that is added to the step or the ledger has to say how uncertain it is."""
    assert {*TERMS} == {"matmul", "attention", "memory_bound", "launch", *EXCHANGING, "bubble", "offload", "optimizer"}
    lines = [name for members in MEMORY_KINDS.values() for name in members]
    assert sorted(lines) == sorted(LINES)


def test_the_time_spread_is_that_of_its_largest_kinds() -> None:
    given = ask(priced(), tp=2)
    found = float(np.asarray(time_spread(given.inputs, given.evaluation.step)).flat[0])
    assert float(given.inputs.stack.spread.step) < found < 0.25


def test_part_of_a_ledger_has_its_own_band() -> None:
    given = ask(priced(), tp=2)
    lines = dict.fromkeys(LINES, 1000000000.0)
    states = memory_band(given.inputs, lines, MEMORY_KINDS["states"])
    everything = memory_band(given.inputs, lines, LINES)
    assert states[0] < len(MEMORY_KINDS["states"]) * 1e9 < states[1]
    assert everything[0] < len(LINES) * 1e9 < everything[1]
    assert states[1] / states[0] < everything[1] / everything[0]


def test_the_band_of_a_plan_is_its_own_in_a_table() -> None:
    """Collectives that a neighbour makes, and this plan does not, leave its band alone."""
    asked = inputs("mixtral-8x7b", node="dgx-b200", nodes=4)
    sizes = {"dp": 8.0, "tp": 2.0, "pp": 2.0, "vpp": 1.0, "micro_batch": 1.0, "ep": 8.0}
    single, double = (one_row(Structure(), **sizes, etp=etp) for etp in (1.0, 2.0))
    both = Block(Structure(), *(np.concatenate([getattr(single, name), getattr(double, name)]) for name in SIZES))
    alone, table = (banded(asked, evaluate(asked, block)).costs.column("step_time_high") for block in (single, both))
    assert table[0] == pytest.approx(alone[0], rel=1e-12)


def test_what_is_common_to_all_gives_every_residual() -> None:
    common = read("efficiency", UNMEASURED)
    fits = [common.matmul["bf16"], common.matmul["fp16"], *common.attention.values(), *common.collectives.values()]
    for fit in (*fits, common.memory, common.sustained, common.network):
        assert residual(None, fit) > 0


def test_no_residual_anywhere_is_a_fault() -> None:
    with pytest.raises(CostModelError) as caught:
        residual(None, case().efficiency.memory.model_copy(update={"fitted": None}))
    assert caught.value.faults[0].code == "D017"
