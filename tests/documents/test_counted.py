"""What is counted is a unit: a batch in tokens is divided, any other count of the wrong things is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from each import each

from costmodel.documents.keys.schema_paths import key_of
from costmodel.documents.reader.load_scenario import load, vary
from costmodel.documents.schemas.base import FromTokens
from costmodel.documents.schemas.limits import Limits
from costmodel.documents.schemas.results import TRAINING_RESULTS
from costmodel.documents.schemas.scenario import Scenario
from costmodel.estimate.training_answer.predict_training import predict
from costmodel.ground.errors import CostModelError
from costmodel.ground.parsing import UnitError, parse

Faults = Callable[[Any], list[Any]]

CASE = """schema: costmodel/scenario/v1
title: Global batch of 4 M tokens
model: llama-3-8b
cluster: {node: dgx-h100, nodes: 4}
workload: {kind: training, sequence: 8192, global_batch: 4M tokens, precision: bf16, optimizer: adamw}
stack: megatron-core
plan: {tp: 4, pp: 1, micro_batch: 1}
"""


def test_a_global_batch_in_tokens_is_divided_by_the_sequence(run: Any) -> None:
    """4,000,000 / 8,192 = 488.28: the nearest whole number, as if it had been written, and the answer says so."""
    ran = run("estimate", "-", "--json", stdin=CASE)
    in_sequences = run("estimate", "-", "--json", stdin=CASE.replace("4M tokens", "488"))
    answer, same = json.loads(ran.out), json.loads(in_sequences.out)
    assert answer["plans"] == same["plans"]
    assert {"path": "workload.global_batch", "value": "488 sequences"}.items() <= answer["assumed"][0].items()
    assert answer["assumed"][0]["from"] == "4,000,000 tokens / 8,192 = 488.281, rounded"
    assert [note["code"] for note in answer["notes"]] == ["N020"]
    assert answer["scenario"]["document"]["workload"]["global_batch"] == "4M tokens"
    printed = run("estimate", "-", stdin=CASE).out
    assert "N020" in printed
    assert "488 sequences" in printed


def test_a_batch_of_whole_sequences_is_not_rounded(run: Any) -> None:
    answer = json.loads(run("estimate", "-", "--json", stdin=CASE.replace("4M tokens", "4Mi tokens")).out)
    assert answer["assumed"][0]["value"] == "512 sequences"
    assert "rounded" not in answer["assumed"][0]["from"]
    assert answer["notes"] == []


@pytest.mark.parametrize(
    ("batch", "sequence", "sequences"),
    [("4M tokens", 8192, 488), ("4Mi tokens", 4096, 1024), ("1 million tokens", 4096, 244), ("8192 tokens", 8192, 1)],
)
@pytest.mark.parametrize("way", ["yaml", "set", "both set", "sequence set later"])
def test_every_way_to_write_it_gives_the_same(batch: str, sequence: int, sequences: int, way: str) -> None:
    """The division waits for the sequence that counts in the end."""
    settings = {"workload.global_batch": batch, "workload.sequence": str(sequence)}
    if way == "yaml":
        case = load("quickstart", [f"{path}={value}" for path, value in settings.items()])
    elif way == "both set":
        case = vary(load("quickstart"), [f"{path}={value}" for path, value in reversed(settings.items())])
    elif way == "set":
        case = vary(load("quickstart", ["workload.sequence=100"]), [f"{path}={v}" for path, v in settings.items()])
    else:
        case = vary(load("quickstart", ["workload.global_batch=" + batch, "workload.sequence=64"]), [
            f"workload.sequence={sequence}"
        ])  # fmt: skip
    found = case.scenario.workload.global_batch
    assert found == sequences
    assert isinstance(found, FromTokens)
    assert abs(found.tokens / sequence - found) <= 0.5


def test_micro_batches_in_tokens_too() -> None:
    case = load("quickstart", ["plan.micro_batch=16Ki tokens", "search.micro_batch=[1, 16Ki tokens, 4 sequences]"])
    assert case.scenario.plan is not None
    assert case.scenario.search is not None
    assert case.scenario.plan.micro_batch == 2
    assert case.scenario.search.micro_batch == [1, 2, 4]
    assert [item.path for item in predict(case).assumed[:2]] == ["plan.micro_batch", "search.micro_batch"]


def test_a_batch_in_tokens_varies_as_any_value(run: Any) -> None:
    swept = run("sweep", "quickstart", "--over", "workload.global_batch=2Mi tokens,4Mi tokens,1024", "--json")
    points = json.loads(swept.out)["points"]
    assert [point["workload.global_batch"] for point in points] == [256, 512, 1024]
    longer = run(
        "sweep", "quickstart", "--set", "workload.global_batch=4Mi tokens", "--over", "workload.sequence=4Ki,8Ki"
    )
    assert longer.code == 0
    span = run("solve", "quickstart", "--over", "workload.global_batch=1..1.2 Mi tokens", "--for", "step_time<=20 s")
    assert "tokens" in span.out
    scaled = run("scale", "quickstart", "--ranks", "16..32 GPUs", "--weak", "--set", "workload.global_batch=4Mi tokens")
    assert scaled.code == 0
    found = run("search", "quickstart", "--top", "1", "--set", "workload.global_batch=4Mi tokens", "--json")
    assert json.loads(found.out)["assumed"][0]["value"] == "512 sequences"


def test_measured_documents_take_a_batch_in_tokens(tmp_path: Path, run: Any) -> None:
    scenario = "".join(f"  {line}\n" for line in CASE.replace("4M tokens", "4Mi tokens").splitlines())
    runs = "- {name: a, set: {workload.global_batch: 2Mi tokens}, measured: {step_time: 7 s}}\n"
    (tmp_path / "mine.yaml").write_text(
        "schema: costmodel/measured/v1\nname: mine\ntitle: mine\nsource: {key: own, where: here}\n"
        "sources: {own: {title: own}}\ntolerance: {step_time: 90 %}\n"
        f"scenario:\n{scenario}runs:\n{runs}"
        "- {name: b, set: {cluster.nodes: 4 tokens}, measured: {step_time: 7 s}}\n",
        "utf-8",
    )
    ran = run("validate", "mine.yaml", cwd=tmp_path)
    assert (ran.code, ran.err.count("error[")) == (2, 1)
    assert "'4 tokens' counts tokens, and here nodes are counted" in ran.err


# The assignment, and words of the sentence.
REFUSED = {
    "cluster.nodes=4 tokens": "'4 tokens' counts tokens, and here nodes are counted; write e.g. '4 nodes'",
    "plan.tp=4 tokens": "'4 tokens' counts tokens, and here GPUs are counted; write e.g. '4 GPUs'",
    "plan.pp=4 layers": "'4 layers' counts layers, and here GPUs or stages are counted",
    "plan.micro_batch=2 GPUs": "'2 GPUs' counts GPUs, and here sequences are counted",
    "workload.sequence=8192 sequences": "tokens are sequences times the length of one; write e.g. '8192 tokens'",
    "workload.tokens=1000 steps": "tokens are steps times those of a batch",
    "workload.global_batch=4 nodes": "'4 nodes' counts nodes, and here sequences are counted",
    "workload.global_batch=1k tokens": "1,000 tokens are less than a sequence of 8,192",
    "plan.micro_batch=100 tokens": "100 tokens are less than a sequence of 8,192; write e.g. '1 sequence'",
    "search.micro_batch=[1, 100 tokens]": "100 tokens are less than a sequence of 8,192",
    "search.tp=[1, 2 tokens]": "'2 tokens' counts tokens, and here GPUs are counted",
    "cluster.nodes=32 GPUs": "nodes are GPUs over those of a node; write e.g. '4 nodes'",
    "cluster.node.accelerators=2 nodes": "GPUs are nodes times those of a node; write e.g. '8 GPUs'",
    "model.layers.0.count=32 tokens": "'32 tokens' counts tokens, and here layers are counted",
    "model.layers.0.attention.heads=32 layers": "here heads are counted",
    "model.hidden=4096 tokens": "here elements are counted",
    "plan.offload_layers=4 heads": "here layers are counted",
    "plan.tp=400 %": "'400 %' is a share, and here GPUs are counted; write e.g. '400 GPUs'",
    "assume.price=20 USD/node/h": "'USD/node/h' is for each node, and this is for each GPU",
    "limits.tokens_per_s.at_least=50 samples/s": "'samples/s' counts sequences, and here tokens are counted",
    "limits.tokens_per_s.at_least=9000 token/s/GPU": "is for each GPU, and this is for the whole",
    "limits.run_cost.at_most=5 USD/Mtoken": "'USD/Mtoken' is for each token, and this is for the whole",
    "cluster.accelerator.memory.bandwidth=3.35 TB/s/node": "is for each node, and this is for each GPU",
    "cluster.node.memory.capacity=2 TB/GPU": "is for each GPU, and this is for each node",
    "assume.fragmentation=5 tokens": "'5 tokens' is not a plain number",
}


@pytest.mark.parametrize("assignment", REFUSED)
@pytest.mark.parametrize("option", ["--set", "--over"])
def test_a_count_of_other_things_is_refused_exactly(assignment: str, option: str, run: Any, faults: Faults) -> None:
    command = "estimate" if option == "--set" else "sweep"
    if option == "--over" and "[" in assignment:
        pytest.skip("a list is a list of values there")
    (found,) = faults(run(command, "quickstart", option, assignment))
    assert found.code == "D007"
    assert REFUSED[assignment] in found.sentence
    assert found.marked in assignment


def test_the_price_of_a_node_is_not_that_of_a_gpu(run: Any, faults: Faults) -> None:
    price = ("--set", "cluster.node=p5", "--set", "cluster.node.price.hourly=2.50 USD/GPU/h")
    (found,) = faults(run("estimate", "quickstart", *price))
    assert "a price for each accelerator does not fit per: node" in found.sentence


def test_yaml_says_the_same(run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", "-", stdin=CASE.replace("nodes: 4", "nodes: 4 tokens")))
    assert found.sentence == "'4 tokens' counts tokens, and here nodes are counted; write e.g. '4 nodes'"
    assert found.marked == "4 tokens"


ACCEPTED = {
    "cluster.nodes=2 nodes": 2.0,
    "plan.tp=2 GPUs": 2.0,
    "plan.tp=2 ranks": 2.0,
    "plan.pp=2 stages": 2.0,
    "plan.micro_batch=2 samples": 2.0,
    "workload.sequence=16Ki tokens": 16384.0,
    "workload.sequence=8k": 8000.0,
    "workload.tokens=15 T tokens": 15e12,
    "workload.global_batch=512 sequences": 512.0,
    "workload.global_batch=512 samples": 512.0,
    "cluster.node.accelerators=4 GPUs": 4.0,
    "model.layers.0.count=16 layers": 16.0,
    "model.layers.0.attention.kv_heads=8 heads": 8.0,
    "assume.price=2 USD/GPU/h": 2 / 3600,
    "workload.optimizer.moments=8 B/parameter": 8.0,
    "cluster.fabric.bandwidth=400 Gbps": 50e9,
    "cluster.fabric.bandwidth=400 Gbit/s": 50e9,
    "limits.tokens_per_s_per_gpu.at_least=9 ktoken/s/GPU": 9000.0,
    "limits.cost_per_mtoken.at_most=0.5 USD/Mtoken": 0.5,
}


@pytest.mark.parametrize("assignment", ACCEPTED)
def test_a_count_with_its_own_word_is_taken(assignment: str) -> None:
    path, _, value = assignment.partition("=")
    case, found = load("quickstart", [assignment]), ACCEPTED[assignment]
    where = {"cluster.fabric": case.scale_out, "workload.optimizer": case.optimizer, "model": case.model}
    where |= {"cluster.node": case.node, "": case.scenario}
    held = next(name for name in where if f"{path}.".startswith(f"{name}.") or not name)
    here: Any = where[held]
    for part in path.removeprefix(held).strip(".").split("."):
        here = here[int(part)] if isinstance(here, list) else getattr(here, part)
    assert here == pytest.approx(found, rel=1e-15), value


def test_a_rate_of_400_gbps_is_one_of_400_gb(run: Any) -> None:
    rates = ("400 Gbps", "400 Gbit/s", "400 Gb/s", "50 GB/s")
    answers = [run("estimate", "quickstart", "--set", f"cluster.fabric.bandwidth={rate}").answer for rate in rates]
    assert len({str(answer) for answer in answers}) == 1


@pytest.mark.parametrize(
    ("assignment", "codes"),
    [
        ("workload.sequence=16k", {"N021"}),
        ("workload.sequence=16000", {"N021"}),
        ("workload.sequence=16Ki", set()),
        ("workload.sequence=10000", set()),
        ("workload.sequence=8", {"N021"}),
        ("workload.global_batch=4000000", {"N022"}),
        ("workload.global_batch=512", set()),
    ],
)
def test_a_sequence_or_batch_that_is_rarely_meant_is_remarked(assignment: str, codes: set[str]) -> None:
    remarked = predict(load("quickstart", [assignment, "plan.sequence_parallel=false"])).remarked
    assert {code for code in remarked if code.startswith("N02")} == codes


@each("name", TRAINING_RESULTS)
def test_a_limit_and_a_target_take_the_unit_of_their_result(name: str, run: Any) -> None:
    """`limits:` and `solve --for` refuse the same."""
    key = next((key for key, field in Limits.model_fields.items() if (field.title or key) == name), name)
    unit = TRAINING_RESULTS[name].written
    assert key_of(Scenario, f"limits.{key}.at_most") is not None
    for text in ("5 tokens/s", "5 samples/s", "5 token/s/GPU", "5 USD", "5 USD/Mtoken", "5 s", "5 GiB", "5 %"):
        try:
            load("quickstart", [f"limits.{key}.at_most={text}"])
            taken = True
        except CostModelError as error:
            taken = error.faults[0].code == "D008"  # a share over one
        try:
            parse(text, unit)
            parsed = True
        except UnitError:
            parsed = False
        assert taken == parsed, (name, text)
