"""--set path=value goes through the same door as YAML, and its faults stand on the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from each import each

from costmodel.documents.reader.load_scenario import load_any

Faults = Callable[[Any], list[Any]]

NAME = "llama-3-70b-512"
CAPACITY = "cluster.node.accelerator.memory.capacity"

# The assignment; the code, the text under the caret, words of the sentence and of the help.
FAULTS = {
    "no equals": ("plan.tp", "C001", "plan.tp", "is not path=value", "for example --set plan.tp=4"),
    "no path": ("=4", "C001", "=4", "is not path=value", "for example"),
    "gap in the path": ("plan..tp=4", "C001", "plan..tp", "'plan..tp' names no key", "plan.tp"),
    "dot": (".=4", "C001", ".", "'.' names no key", ""),
    "no value": ("plan.tp=", "C001", "", "nothing follows the '='", "null leaves a key out"),
    "through a value": (
        "plan.tp.x=4",
        "C001",
        "plan.tp.x",
        "'plan.tp' is a value and has no 'x'",
        "set 'plan.tp' itself",
    ),
    "broken value": ("plan.tp=[", "C001", "[", "'[' is not a value", "not YAML"),
    "anchor": ("plan.tp=&a 4", "C001", "&a 4", "is not a value", "anchors"),
    "tag": ("plan.tp=!!python/object:x 1", "C001", "!!python/object:x 1", "is not a value", "the tag"),
    "second line": ("plan.tp=4\nfoo: 1", "C001", "4 foo: 1", "is not a value", ""),
    "beyond a list": ("model.layers.5.count=4", "C001", "model.layers.5.count", "no item '5'", "it holds 1"),
    "word into a list": ("model.layers.x.count=4", "C001", "model.layers.x.count", "no item 'x'", ""),
    "unknown key": ("plan.tpp=4", "D003", "plan.tpp", "unknown key 'tpp'", "did you mean 'tp'?"),
    "unknown room": ("foo.x=1", "D003", "foo.x", "unknown key 'foo'", "known: schema"),
    "unknown key in a list": ("model.layers.0.attention.kvheads=4", "D003", None, "'kvheads'", "'kv_heads'?"),
    "unknown name": ("model=nope", "D009", "nope", "no model named 'nope'", "costmodel list models"),
    "unknown inner name": ("cluster.node.accelerator=h100-sx", "D009", "h100-sx", "no accelerator", "'h100-sxm'?"),
    "unknown name on the way": ("cluster.node=dgx-h10", "D009", "dgx-h10", "no node named", "'dgx-h100'?"),
    "unknown unit": (f"{CAPACITY}=1 parsec", "D007", "1 parsec", "unknown unit 'parsec'; write e.g. '80 GiB'", ""),
    "wrong unit": ("cluster.node.scale_up.fabric.bandwidth=1 TB", "D007", "1 TB", "'TB' is not a unit of B/s", ""),
    "no unit": ("assume.price=3", "D007", "3", "3 has no unit", ""),
    "zero": ("plan.tp=0", "D008", "0", "0 is out of range: at least 1", ""),
    "choice": ("plan.recompute=ful", "D010", "ful", "is not one of", "did you mean 'full'?"),
    "schema": ("schema=x", "D011", "x", "'x' is no schema", "costmodel/scenario/v1"),
    "value for a list": ("search.zero=3", "D006", "3", "a list is expected here, not 3", "[3]"),
    "value for a list of mappings": (
        "model.layers=4",
        "D006",
        "4",
        "a list is expected here, not 4",
        "is a mapping: [{count: …}]",
    ),
    "value for a mapping": ("plan=4", "D006", "4", "a mapping of keys to values is expected here, not 4", ""),
    "nothing for a value": ("workload.sequence=null", "D006", "null", "a number is expected here, not nothing", ""),
    "measured faster than the peak": (
        "cluster.accelerator.best_matmul.bf16=2 PFLOP/s",
        "D006",
        "2 PFLOP/s",
        "is more than peak.bf16",
        "best_matmul is {}",
    ),
    "a peak below what was measured": (
        "cluster.accelerator.peak.bf16=100 TFLOP/s",
        "D006",
        "100 TFLOP/s",
        "best_matmul.bf16, 794 TFLOP/s, is more than peak.bf16, 100 TFLOP/s",
        "best_matmul is {}",
    ),
    "more memory than there is": (
        f"{CAPACITY}=1 GiB",
        "D006",
        "1 GiB",
        "usable is more than the",
        "change both: usable",
    ),
    "memory as sold alone": (
        f"{CAPACITY}=192 GB",
        "C031",
        "192 GB",
        "does not change what a job can have",
        "memory.usable=…",
    ),
    "name of another engine": (
        "stack.name=deepspeed",
        "C033",
        None,
        "stack.name renames megatron-core and takes nothing from deepspeed",
        "--set stack=deepspeed",
    ),
    "name of another accelerator": (
        "cluster.node.accelerator.name=h200-sxm",
        "C033",
        None,
        "cluster.node.accelerator.name renames h100-sxm and takes nothing from h200-sxm",
        "--set cluster.accelerator=h200-sxm",
    ),
    "item of a list not there": ("search.tp.0=5", "D006", "search.tp.0", "a list is expected here", ""),
}


@each("name", FAULTS)
def test_fault(name: str, run: Any, faults: Faults) -> None:
    assignment, code, marked, sentence, hint = FAULTS[name]
    (found,) = faults(run("estimate", NAME, "--set", assignment))
    assert found.code == code
    assert sentence in found.sentence
    assert hint in found.help
    assert found.place.startswith("command line")
    assert found.marked.strip() == (assignment.partition("=")[0] if marked is None else marked)


@pytest.mark.parametrize("engine", ["sglang", "trt-llm"])
def test_like_exchanges_an_engine_as_stack_does(engine: str) -> None:
    """It relabelled the document of the engine before, and kept its constants."""
    of_name = load_any("serve-llama-3.1-70b", [f"stack={engine}", "stack.block=64"]).stack
    for order in ([f"stack.like={engine}", "stack.block=64"], ["stack.block=64", f"stack.like={engine}"]):
        assert load_any("serve-llama-3.1-70b", order).stack == of_name
    inline = load_any("serve-llama-3.1-70b", [f"stack={{like: {engine}, block: 64}}"]).stack
    assert inline.model_copy(update={"like": None}) == of_name
    assert load_any("serve-llama-3.1-70b", ["stack={block: 64, like: vllm}", f"stack.like={engine}"]).stack == inline


def test_a_label_of_the_users_own_stays() -> None:
    assert load_any("serve-llama-3.1-70b", ["stack.name=mine"]).stack.name == "mine"


def test_more_experts_for_a_token_than_there_are(run: Any, faults: Faults) -> None:
    mixture = ("--set", "model=mixtral-8x7b", "--set")
    for key, value in (("top_k", 9), ("count", 1)):
        (found,) = faults(run("estimate", NAME, *mixture, f"model.layers.0.experts.{key}={value}"))
        assert (found.code, found.marked.strip()) == ("D006", str(value))


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("layers.1.experts.groups", 7, "7 groups do not divide the 256 experts"),
        ("layers.1.experts.group_limit", 9, "group_limit 9 is more than the 8 groups there are"),
        ("layers.1.experts.top_k", 129, "top_k 129 is more than the 128 experts of the 4 groups a token may choose"),
        ("prediction.layer.count", 2, "a module has one layer, not 2; set depth for more"),
    ],
)
def test_experts_and_predictions_that_cannot_be(run: Any, faults: Faults, key: str, value: int, sentence: str) -> None:
    (found,) = faults(run("estimate", "deepseek-v3-2048", "--set", f"model.{key}={value}"))
    assert (found.code, sentence in found.sentence) == ("D006", True), found.sentence
    assert str(value) in found.marked


@pytest.mark.parametrize(
    ("assignment", "code", "sentence"),
    [
        ("model.layers.0.parallel=true", "D006", "streams are mixed around halves in turn"),
        (
            "model.layer_embedding={rows: 100, width: 64}",
            "D006",
            "hyper-connections and a layer_embedding are not modelled",
        ),
        ("model.layers.2.experts.hashed=true", "D006", "hashed experts are not chosen by scores"),
        ("model.layers.1.compressed.output_groups=7", "D006", "7 output_groups do not divide the 64 heads"),
        ("workload.tuning.method=lora", "D016", "not modelled beside the matrices of compressed attention"),
    ],
)
def test_what_models_of_several_streams_cannot_be(
    run: Any, faults: Faults, assignment: str, code: str, sentence: str
) -> None:
    model = ("--set", "model=deepseek-v4-flash", "--set")
    (found,) = faults(run("estimate", "deepseek-v3-2048", *model, assignment))
    assert (found.code, sentence in found.sentence) == (code, True), found.sentence


def test_without_a_measured_rate_no_peak_is_below_it(run: Any) -> None:
    rates = ("--set", "cluster.accelerator.peak.bf16=100 TFLOP/s", "--set", "cluster.accelerator.best_matmul={}")
    assert run("estimate", NAME, *rates).code == 0


def test_all_faults_of_a_command_line_at_once(run: Any, faults: Faults) -> None:
    broken = ("--set", "plan.tp", "--set", "plan.pp=[", "--set", "plan.tp.x=4")
    assert [fault.code for fault in faults(run("estimate", NAME, *broken))] == ["C001"] * 3


@pytest.mark.parametrize(
    ("assignment", "path", "expected"),
    [
        ("plan.tp=4", "plan.tp", 4),
        (" plan.tp =4", "plan.tp", 4),
        ("plan={tp: 4, pp: 8}", "plan", {"tp": 4, "pp": 8}),
        ("search.tp=[1, 2]", "search.tp", [1, 2]),
        ("workload.sequence=16Ki", "workload.sequence", "16Ki"),
        ("assume.overlap.tp=50 %", "assume.overlap.tp", "50 %"),
        ("model.layers.0.count=40", "model.layers.0.count", 40),
        ("cluster.node.accelerator.memory.bandwidth=4 TB/s", "cluster.node.accelerator.memory.bandwidth", "4 TB/s"),
        ("title=a = b", "title", "a = b"),
        ("plan.sequence_parallel=false", "plan.sequence_parallel", False),
        ("workload.tokens=null", "workload.tokens", None),
    ],
)
def test_what_is_set_stands_in_the_result(assignment: str, path: str, expected: Any, run: Any) -> None:
    ran = run("estimate", NAME, "--set", assignment, "--json")
    assert ran.code in (0, 1), ran.err
    here = json.loads(ran.out)["scenario"]["document"]
    for part in path.split("."):
        here = here[int(part)] if isinstance(here, list) else here[part]
    assert here == expected


def test_the_last_one_holds(run: Any) -> None:
    twice = run("estimate", NAME, "--set", "plan.tp=2", "--set", "plan.tp=4", "--set", "plan.pp=8")
    remark = "--set plan.tp=2 has no effect: --set plan.tp=4 counts"
    code, lines, faults = twice.answer
    assert remark in lines
    once = run("estimate", NAME, "--set", "plan.pp=8", "--set", "plan.tp=4").answer
    assert (code, [line for line in lines if line != remark], faults) == once


def test_without_its_plan_a_file_gets_the_best_one(run: Any) -> None:
    """That of its search, as flags without a plan do, and the answer states so."""
    answer = run("estimate", NAME, "--set", "plan=null", "--json")
    best = json.loads(run("search", NAME, "--set", "plan=null", "--top", "1", "--json").out)["plans"][0]
    assert json.loads(answer.out)["plans"][0]["step_time_s"] == pytest.approx(best["step_time_s"])
    stated = run("estimate", NAME, "--set", "plan=null").out
    assert re.search(r"assumed plan .*: the best of [\d,]+ plans of costmodel search", stated)


@pytest.mark.parametrize(
    ("assignment", "quantity"),
    [
        ("workload.global_batch=2048", "bubble"),
        ("cluster.node.accelerator.peak.bf16=1 PFLOP/s", "mfu"),
        ("model.layers.0.mlp.ffn_hidden=28672", "matmul"),
        ("assume.overlap.tp=0.5", "tp_exposed"),
    ],
)
def test_explain_says_what_came_from_the_command_line(assignment: str, quantity: str, run: Any) -> None:
    path = assignment.partition("=")[0]
    ran = run("explain", NAME, quantity, "--depth", "20", "--set", assignment)
    assert f"← command line  ({path})" in ran.out
    plain = run("explain", NAME, quantity, "--depth", "20")
    assert "command line" not in plain.out


def test_a_document_that_nobody_named_is_the_usual_one(run: Any) -> None:
    """The scenario names no optimizer."""
    peaks = []
    for settings in ([], ["workload.optimizer.moments=8 B"], ["workload.optimizer.moments=16 B"]):
        options = [part for setting in settings for part in ("--set", setting)]
        ran = run("estimate", NAME, "--json", *options)
        peaks.append(json.loads(ran.out)["plans"][0]["memory_peak_bytes"])
    assert peaks[0] == peaks[1] < peaks[2]
