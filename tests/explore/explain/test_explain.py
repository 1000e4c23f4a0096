"""Explanations: every figure of a plan, from the calls really made, down to where its inputs were written."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from each import each
from estimate.cases import costs, inputs, mixed

from costmodel.documents.reader.library import read
from costmodel.documents.reader.load_scenario import load
from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.memory_breakdown import LINES, STAGES
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training_answer.evaluate_training import Evaluation
from costmodel.estimate.training_answer.predict_training import Answer, answer, own_plan
from costmodel.explore.explain.equation_trees import (
    ExplainedFigure,
    explain,
    explained_figure,
    figure_trees,
    quantities,
    traced_evaluation,
)
from costmodel.ground.units import gib, show, show_time
from costmodel.report.answers.explain import figure_rows
from costmodel.report.terminal.formatting import TIME_TERMS, result
from costmodel.report.terminal.trace_tree import TreeDrawing

SCENARIOS: dict[str, tuple[str, ...]] = {
    "llama-3-70b-512": ("run={}",),
    "gpt-3-175b-1024": (
        "stack=megatron-2021",
        "plan.recompute=selective",
        "assume.price=2 USD/GPU/h",
        "run.checkpoint.mode=sync",
    ),
    "deepseek-v3-2048": ("assume.price=2 USD/GPU/h", "run.checkpoint.mode=memory", "run.evaluation=1 %"),
}
every_scenario = each("name", SCENARIOS)

# What composition writes itself: how often in a layer, nothing, one of a thing, half of both directions, operations of
# modules computed again, a million tokens.
CONSTANTS = {0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 7.0, 1e6}


@functools.cache
def asked(name: str) -> TrainingInputs:
    return training_inputs(load(name, SCENARIOS[name]))


@functools.cache
def answered(name: str) -> Answer:
    return answer(asked(name), own_plan(asked(name)))


@functools.cache
def made(name: str) -> Evaluation:
    return traced_evaluation(asked(name), own_plan(asked(name)))


@functools.cache
def explained(name: str, quantity: str) -> ExplainedFigure:
    return explained_figure(asked(name), made(name), quantity)


@functools.cache
def every_figure(name: str) -> dict[str, ExplainedFigure]:
    """All that can be asked of a scenario, in trees that share what they have in common."""
    return figure_trees(asked(name), made(name), quantities())


def drawn(root: ExplainedFigure, depth: int) -> list[str]:
    """The lines of a tree, below the head."""
    return [line.plain for line in TreeDrawing(root).lines(depth, result(root.name, root.value, root.unit, 4))]


def nodes(*roots: ExplainedFigure) -> Iterator[ExplainedFigure]:
    """Every node of some trees once: most are met in many places."""
    seen = {id(root): root for root in roots}
    waiting = list(seen.values())
    while waiting:
        node = waiting.pop()
        yield node
        fresh = {id(inner): inner for inner in node.beneath if id(inner) not in seen}
        seen.update(fresh)
        waiting += fresh.values()


def figure(name: str, quantity: str) -> float:
    """The figure by the evaluation without a trace."""
    evaluation = answered(name).evaluation
    if quantity in TRAINING_COLUMNS:
        return evaluation.costs.row()[quantity]
    peaks = [number(peak) for peak in evaluation.ledger.peaks]
    return number(evaluation.ledger.line(quantity, peaks.index(max(peaks))))


def remade(node: ExplainedFigure) -> float:
    """A node's value from what lies beneath it."""
    values = [inner.value for inner in node.beneath]
    if node.equation is not None:
        return float(node.equation.function(*values, **node.choices))
    if node.operation == "sum":
        return math.fsum(values)
    if node.operation == "difference":
        return values[0] - math.fsum(values[1:])
    if node.operation in ("product", "quotient"):
        one, other = values
        return one * other if node.operation == "product" else one / other
    return {"maximum": max, "minimum": min}[node.operation](values)


def test_every_column_and_every_line_can_be_asked() -> None:
    assert set(quantities()) == {*TRAINING_COLUMNS, *LINES}


@every_scenario
def test_the_root_is_the_figure(name: str) -> None:
    for quantity, root in every_figure(name).items():
        assert root.value == figure(name, quantity)
        assert root.name == quantity
        assert root.unit == (TRAINING_COLUMNS[quantity].unit if quantity in TRAINING_COLUMNS else "B")


@pytest.mark.parametrize("quantity", ["step_time", "memory_peak", "mfu", "bubble", "logits"])
def test_a_figure_asked_alone_has_the_tree_it_has_among_all(quantity: str) -> None:
    name = "gpt-3-175b-1024"
    alone, among = nodes(explained(name, quantity)), nodes(every_figure(name)[quantity])
    for one, other in zip(alone, among, strict=True):
        assert replace(one, beneath=[]) == replace(other, beneath=[])
        assert [inner.name for inner in one.beneath] == [inner.name for inner in other.beneath]


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("host", ["0 s", "30 us"])
def test_the_host_s_wait_for_experts_is_what_was_estimated(count: int, host: str) -> None:
    asked = inputs(mixed(count=count, top_k=1), node="dgx-h100", assume={"experts": {"host": host}})
    assert explain(asked, Plan(ep=1), "launch").value == costs(asked, ep=1)["launch"] > 0


@every_scenario
def test_every_node_follows_from_what_lies_beneath(name: str) -> None:
    assert_follows(*every_figure(name).values())


@pytest.mark.parametrize("quantity", ["step_time", "offload_exposed", "memory_peak", "host_share", "bubble"])
def test_every_node_of_offload_follows_from_what_lies_beneath(quantity: str) -> None:
    """Where differences below nothing are cut off, and more is chosen between."""
    other = training_inputs(load("offload-llama-2-13b-8"))
    assert_follows(explain(other, own_plan(other), quantity))


def assert_follows(*roots: ExplainedFigure) -> None:
    """Each figure is what is told of it done with what lies beneath it."""
    for node in nodes(*roots):
        if node.beneath:
            assert remade(node) == pytest.approx(node.value, rel=1e-9, abs=1e-12), node.name


def test_of_a_choice_what_was_asked_decides() -> None:
    """Without a pipeline there is no bubble, though no rank waits for another either."""
    other = training_inputs(load("offload-llama-2-13b-8"))
    root = explain(other, own_plan(other), "bubble")
    assert (root.value, root.beneath) == (0.0, [])


@every_scenario
def test_what_nothing_names_is_called_by_what_was_done(name: str) -> None:
    for node in nodes(*every_figure(name).values()):
        if node.name in ("sum", "difference", "product", "quotient", "maximum", "minimum"):
            assert (node.operation, node.equation) == (node.name, None)


@every_scenario
def test_every_leaf_has_a_place(name: str) -> None:
    assert_placed(*every_figure(name).values())


@pytest.mark.parametrize("quantity", ["step_time", "memory_peak"])
@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("offload-llama-2-13b-8", ()),
        ("lora-llama-3-70b-8", ()),
        ("llama-3-70b-512", ("model=nemotron-h-8b",)),
    ],
)
def test_every_leaf_has_a_place_elsewhere(name: str, changed: tuple[str, ...], quantity: str) -> None:
    other = training_inputs(load(name, changed))
    assert_placed(explain(other, own_plan(other), quantity))


def assert_placed(*roots: ExplainedFigure) -> None:
    """A leaf was written in a document or the plan, or is a constant of the composition."""
    for node in nodes(*roots):
        if node.beneath or node.written is not None or node.name.startswith("plan."):
            continue
        assert node.value in CONSTANTS, f"{node.name} = {node.value} came from nowhere"


@every_scenario
def test_inputs_of_equations_carry_their_units(name: str) -> None:
    for node in nodes(*every_figure(name).values()):
        if node.equation is None:
            continue
        declared = {item.name: item.unit for item in node.equation.contract.arguments}
        for inner in node.beneath:
            if inner.name in declared and declared[inner.name] not in (None, "u"):
                assert inner.unit == declared[inner.name]


def places(node: ExplainedFigure) -> dict[str, str]:
    return {str(inner.written.place): inner.written.check for inner in nodes(node) if inner.written is not None}


def test_leaves_lead_to_the_line_they_were_written_on() -> None:
    """The peak of the part, the fit, the software and the model, each with file, line, column and path."""
    found = " ".join(places(explained("llama-3-70b-512", "step_time")))
    for written in (
        "hardware/accelerators/h100-sxm.yaml:",
        "hardware/efficiencies/h100-sxm.yaml:",
        "hardware/fabrics/ib-ndr.yaml:",
        "scenarios/models/llama-3-70b.yaml:",
        "scenarios/stacks/megatron-core.yaml:",
        "scenarios/llama-3-70b-512.yaml:",
        "(peak.bf16)",
        "(hidden)",
        "(overlap.dp)",
        "(workload.global_batch)",
    ):
        assert written in found, written


def test_known_facts_are_flagged() -> None:
    """The bytes of a context were not read in a source: the tree says so, and of the bandwidth it does not."""
    root = explained("llama-3-70b-512", "runtime")
    assert set(places(root).values()) == {"known"}
    assert any("from general knowledge, page not re-read" in line for line in drawn(root, 9))
    weights = explained("llama-3-70b-512", "weights")
    assert "known" not in {check for place, check in places(weights).items() if "stacks" in place}


def test_an_override_is_a_place_too() -> None:
    inputs = training_inputs(load("llama-3-70b-512", ("workload.global_batch=2048",)))
    root = explain(inputs, own_plan(inputs), "tokens_per_s")
    found = [
        str(node.written.place)
        for node in nodes(root)
        if node.name == "global_batch" and node.written is not None and node.value == 2048
    ]
    assert found
    assert all("command line" in place for place in found)


def test_a_slow_down_by_power_is_told_from_both_parts() -> None:
    """The GB200's own power and peak, and the B200's, on which the factor was fitted."""
    inputs = training_inputs(load("quickstart", ("cluster.node=gb200-nvl72",)))
    root = explain(inputs, own_plan(inputs), "matmul")
    (found, *_) = (node for node in nodes(root) if node.equation is not None and node.equation.name == "part_slowdown")
    factor = read("efficiency", "b200-sxm").sustained.factor
    assert [inner.value for inner in found.beneath] == [factor, 1200.0, 2.5e15, 1000.0, 2.25e15]
    assert all(inner.written is not None for inner in found.beneath)


def test_what_a_step_makes_is_told_from_software_and_optimizer() -> None:
    inputs = training_inputs(load("quickstart", ("stack=internevo", "plan.recompute=full", "plan.zero=0")))
    root = explain(inputs, own_plan(inputs), "update")
    given = {inner.name: inner for inner in root.beneath}
    assert [given[name].value for name in ("step_gradient", "roots", "root")] == [4.0, 2.0, 4.0]
    assert all(given[name].written is not None for name in ("step_gradient", "roots", "root"))


def test_trees_name_what_repeats() -> None:
    """Two calls of one equation can be told apart by their labels."""
    root = explained("llama-3-70b-512", "step_time")
    labels = {label for node in nodes(root) for label in node.labels}
    assert {"mlp up", "mlp down", "attention core", "head"} <= labels


@pytest.mark.parametrize("name", [*SCENARIOS, "offload-llama-2-13b-8"])
def test_a_step_is_told_by_the_names_that_estimate_prints(name: str) -> None:
    """Every term, as much as there, with the word by which it can be asked for; and nothing else beside them."""
    found = answer(training_inputs(load(name)), own_plan(training_inputs(load(name)))).evaluation.costs.row()
    inputs = training_inputs(load(name))
    evaluation = traced_evaluation(inputs, own_plan(inputs))
    root = explained_figure(inputs, evaluation, "step_time")
    assert {node.quantity: node.value for node in root.beneath} == {
        key: found[key] for _, key in TIME_TERMS if found[key]
    }
    lines = drawn(root, 2)
    for title, key in TIME_TERMS:
        if found[key]:
            (line,) = (line for line in lines if line[4:].startswith(f"{title}  "))
            assert line[4:].startswith(f"{title}  {show_time(found[key], 4)}")
            assert key in line
            asked = explained_figure(inputs, evaluation, key)
            (branch,) = (node for node in root.beneath if node.quantity == key)
            assert (branch.value, len(branch.beneath)) == (asked.value, len(asked.beneath))


def test_the_peak_is_told_by_its_stages_and_the_lines_of_the_ledger() -> None:
    root, evaluation = explained("llama-3-70b-512", "memory_peak"), answered("llama-3-70b-512").evaluation
    assert root.operation == "maximum"
    assert {node.name: node.value for node in root.beneath} == {
        f"{stage} stage": number(peak) for stage, peak in zip(STAGES, evaluation.ledger.peaks, strict=True)
    }
    for position, stage in enumerate(root.beneath):
        lines = {name: number(evaluation.ledger.line(name, position)) for name in LINES}
        assert {node.name: node.value for node in stage.beneath} == {
            name: value for name, value in lines.items() if value
        }


def test_memory_is_in_gib_and_traffic_is_not() -> None:
    """As `memory` and `estimate` say the one and `comm` the other; shares say what they are shares of."""
    row = answered("llama-3-70b-512").evaluation.costs.row()
    figures = (row["memory_peak"], number(asked("llama-3-70b-512").usable_memory))
    peak, usable = (f"{gib(value, 4)} GiB" for value in figures)
    for quantity, said in (
        ("memory_peak", [f"memory_peak {peak}"]),
        ("memory_share", [f"memory_share {row['memory_share'] * 100:.2f} %", f"  = {peak} / {usable}"]),
        ("tp_volume", [f"tp_volume {show(row['tp_volume'], 'B', 4)}"]),
        ("mfu", [f"mfu {row['mfu'] * 100:.2f} %"]),
        ("tokens_per_s", [f"tokens_per_s {show(row['tokens_per_s'], 'token/s', 4)}"]),
    ):
        lines = drawn(explained("llama-3-70b-512", quantity), 9)
        assert lines[: len(said)] == said
        in_memory = any("iB" in line for line in lines)
        assert in_memory == quantity.startswith("memory")
        if in_memory:
            assert not any(re.search(r"\d [kMGT]B\b(?!/s)", line.partition("←")[0]) for line in lines)


@pytest.mark.parametrize("depth", [1, 3])
def test_a_tree_is_no_deeper_than_asked(depth: int) -> None:
    lines = drawn(explained("llama-3-70b-512", "dp_exposed"), depth)
    deepest = max(len(line) - len(line.lstrip("│ ")) for line in lines if "── " in line)
    assert deepest <= 4 * (depth - 1)


def test_each_group_of_branches_ends_once() -> None:
    """Also where the last part is met twice, as forward and backward of one exchange."""
    ends = ExplainedFigure("ends", 3.0, "s")
    root = ExplainedFigure(
        "step_time", 7.0, "s", operation="sum", beneath=[ends, ExplainedFigure("other", 1.0, "s"), ends]
    )
    assert drawn(root, 2) == [
        "step_time 7.000 s",
        "  = 3.000 s + 1.000 s + 3.000 s",
        "├── ends  3.000 s",
        "├── other  1.000 s",
        "└── ends  3.000 s",
    ]


def test_json_is_the_same_tree_with_each_figure_once() -> None:
    root = explained("llama-3-70b-512", "optimizer")
    rows, (place,) = figure_rows([root])
    assert len(rows) == len([*nodes(root)])

    def check(node: ExplainedFigure, place: int) -> None:
        assert (rows[place]["name"], rows[place]["value"], rows[place]["unit"]) == (node.name, node.value, node.unit)
        for inner, below in zip(node.beneath, rows[place]["inputs"], strict=True):
            check(inner, below)

    check(root, place)


def test_the_parts_of_the_busiest_rank_are_named() -> None:
    labels = {label for node in nodes(explained("llama-3-70b-512", "matmul")) for label in node.labels}
    assert {"its layers", "slowest of all ranks"} <= labels
