"""`explain SCENARIO LABEL` takes every label that an answer about a serving scenario prints, with its numbers there."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.explore.label_lookup import LabelledFigures, meaning_in_answer
from costmodel.explore.serving.explain_serving import explain_all, traced_evaluation
from costmodel.explore.workloads import workload_of
from costmodel.ground.errors import CostModelError
from costmodel.report.terminal.serving_formatting import result

from ..printed_labels import labels_of, printed

SERVED = "serve-llama-3.1-70b"
OFFLINE = "--set 'workload={kind: serving, prompt: 2048, output: 512, requests: 2000}'"
TURNS = (
    "--set workload.turns=4 --set workload.prompt=500 --set 'workload.think_time=600 s' "
    "--set 'stack.host_cache.size=128 GiB'"
)
DRAFTED = "--set 'plan.speculation={tokens: 4, chance: 70%, draft: eagle}'"
APART = "--set cluster.nodes=3 --set 'plan={prefill: {tp: 8, replicas: 2}, decode: {tp: 8}}'"
WIDE = (
    "--set model=deepseek-v3 --set workload.precision=fp8 --set cluster.node=dgx-h200 "
    "--set 'plan={tp: 8, ep: 16, dp_attention: 2, replicas: 1}'"
)
ASKED = {
    "": ("estimate {} -v", "memory {} -v", "comm {}", "search {} --top 2", "search {} --top 3 --pareto tpot,latency",
         "scale {} --rate 2,8", "sweep {} --over workload.prompt=512,2048", "sensitivity {}", "check {} -v",
         "solve {} --over workload.rate=4,8 --for ttft_p99<=500ms", "diff {} --set plan.tp=4"),
    OFFLINE: ("estimate {}",),
    TURNS: ("estimate {}", "memory {}"),
    DRAFTED: ("estimate {}",),
    APART: ("estimate {}", "comm {}", "search {} --top 2"),
    WIDE: ("estimate {}", "comm {}"),
}  # fmt: skip
_NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)?)(?: (us|ms|s)\b)?")
_SECONDS = {"us": 1e-6, "ms": 1e-3}


def _answer(setting: str) -> ServingAnswer:
    settings = [word for word in shlex.split(setting) if word != "--set"]
    return predict(serving(load_any(SERVED, settings)))


def _labelled(answer: ServingAnswer, label: str) -> LabelledFigures:
    return meaning_in_answer(workload_of(answer.inputs.case), answer, label)


@pytest.mark.parametrize("setting", ASKED)
def test_every_printed_label_is_explained_in_the_scenario(setting: str, run: Any) -> None:
    labels = {each for command in ASKED[setting] for each in labels_of(run, f"{command.format(SERVED)} {setting}")}
    assert len(labels) > 20
    answer, unexplained = _answer(setting), set()
    for label in labels | {label.upper() for label in labels}:
        try:
            meant = _labelled(answer, label)
            assert meant.figures or (meant.page and (meant.page.text.strip() or meant.page.formulas))
        except (CostModelError, AssertionError):
            unexplained.add(label)
    assert unexplained == set()


@pytest.mark.share(2)
@pytest.mark.parametrize("setting", ASKED)
def test_a_printed_figure_is_the_one_that_its_label_explains(setting: str, run: Any) -> None:
    """Beside each label of an estimate stands a number; one of the figures explained has it, to the digits printed.

    Times of one column have one unit, 0.300 ms; alone they have their usual one, 300.0 us.
    A share of the settings, unless --whole asks for all.
    """
    _, grids = printed(run, f"estimate {SERVED} {setting}")
    facts = next(grid for grid in grids if len(grid.names) > 3 and not any(grid.names))
    terms = next(grid for grid in grids if grid.names[0] == "part")
    pairs = [pair for row in facts.rows for pair in (row[:2], row[2:4]) if pair[0] and pair[0] != "P10 – P90"]
    pairs += [row[:2] for row in terms.rows]
    assert len(pairs) > 12
    answer = _answer(setting)
    traced = explain_all(answer.inputs, traced_evaluation(answer.inputs))
    missed = {}
    for label, value in pairs:
        shown = [result(name, traced[name].value, 4) for name in _labelled(answer, label).figures if name in traced]
        known = [number for words in shown for number in _numbers(words)[:1]]
        if not any(abs(stated - number) <= 0.006 * stated for stated in _numbers(value)[:1] for number in known):
            missed[label] = (value, shown)
    assert missed == {}


def _numbers(words: str) -> list[float]:
    """The numbers in words, times in seconds."""
    return [float(each.replace(",", "")) * _SECONDS.get(unit, 1.0) for each, unit in _NUMBER.findall(words)]


def test_a_label_need_not_be_quoted_nor_spelt_as_printed(run: Any) -> None:
    quoted = run("explain", SERVED, "in flight")
    assert (quoted.code, "requests being decoded at a time" in quoted.out) == (0, True)
    assert run("explain", SERVED, "in", "flight") == quoted


@pytest.mark.parametrize("label", ["throughput", "per GPU"])
def test_a_service_generates_tokens_and_trains_none(label: str, run: Any) -> None:
    assert "trained" not in run("explain", SERVED, label).out
    assert "generated" in run("explain", label).out


def test_a_key_has_its_value_and_origin(run: Any) -> None:
    assert "plan.tp is 8, from scenarios/serve-llama-3.1-70b.yaml:22" in run("explain", SERVED, "tp").out
    assert "plan.replicas is 2, from 16 GPUs ÷ 8 per replica" in run("explain", SERVED, "plan.replicas").out


def test_what_the_engine_claims_is_the_sum_of_the_lines_of_its_memory(run: Any) -> None:
    parts = ("weights", "activations", "runtime", "requested")
    found = {name: json.loads(run("explain", SERVED, name, "--json").out)["figures"][0]["value"] for name in parts}
    rest = found["requested"] - sum(found[name] for name in parts[:-1])
    pool = json.loads(run("explain", SERVED, "cache_pool", "--json").out)["figures"][0]["value"]
    assert rest == pytest.approx(pool)
