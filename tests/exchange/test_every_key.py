"""Every key of a foreign file is in the answer: read, without effect, approximated or not expressible.

An unknown key, one that is known but not modelled, and one that contradicts another are planted at every level of every
format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from each import each

from costmodel.documents.text.yaml_tree import key_at, parse
from costmodel.exchange.foreign_keys import Format
from costmodel.exchange.import_result import VERDICTS, Imported, Verdict
from costmodel.exchange.logs.benchmark_result import benchmark_results
from costmodel.exchange.megatron.options import TABLE as OF_MEGATRON
from costmodel.exchange.option_rows import EVERY, Row, Table, nested_sections
from costmodel.exchange.rl import areal, nemo_rl, openrlhf, slime, trl, verl
from costmodel.exchange.serving import sglang, tensorrt_llm, vllm
from costmodel.exchange.serving.deployments import keys_around, table_of
from costmodel.exchange.training import (
    accelerate,
    axolotl,
    bridge,
    deepspeed,
    llama_factory,
    maxtext,
    nanotron,
    torchtitan,
    torchtune,
    transformers,
)
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.values import as_placed
from costmodel.ground.errors import CostModelError, Fault, Place
from exchange import published
from exchange.logs import test_benchmark_result
from exchange.rl import configurations as rl
from exchange.scripts import LLAMA_8B
from exchange.scripts import read as read_script
from exchange.serving import test_deployments
from exchange.serving.test_serve_commands import POD

PLANTED = "planted_key"
Tree = dict[str, Any]
READERS: dict[str, tuple[Format, Callable[[Any, str], Layer], Tree]] = {
    "accelerate": (accelerate.FORMAT, accelerate.read_accelerate, {"distributed_type": "FSDP", "num_processes": 8}),
    "axolotl": (axolotl.FORMAT, axolotl.read_axolotl, {"base_model": "a/b"}),
    "bridge": (bridge.FORMAT, bridge.read_bridge, {"model.seq_length": 4096}),
    "deepspeed": (deepspeed.FORMAT, deepspeed.read_deepspeed, {"train_batch_size": 8}),
    "hf": (transformers.FORMAT, transformers.read_training_arguments, {"learning_rate": 1e-4}),
    "llama-factory": (llama_factory.FORMAT, llama_factory.read_llama_factory, {"model_name_or_path": "a/b"}),
    "maxtext": (maxtext.FORMAT, maxtext.read_maxtext, {"model_name": "llama3-8b"}),
    "nanotron": (nanotron.FORMAT, nanotron.read_nanotron, {"parallelism.tp": 2}),
    "sglang": (sglang.FORMAT, sglang.read_sglang, {"model-path": "a/b"}),
    "torchtitan": (torchtitan.FORMAT, lambda tree, file: torchtitan.read_torchtitan(tree, file, "toml"),
                   {"training.seq_len": 4096}),
    "torchtune": (torchtune.FORMAT, torchtune.read_torchtune, {"batch_size": 1}),
    "trt-llm": (tensorrt_llm.FORMAT, tensorrt_llm.read_trtllm, {"model": "a/b"}),
    "vllm": (vllm.FORMAT, vllm.read_vllm, {"model": "a/b"}),
    "areal": (areal.FORMAT, areal.FORMAT.read, {"actor.path": "a/b"}),
    "nemo-rl": (nemo_rl.FORMAT, nemo_rl.FORMAT.read, {"policy.model_name": "a/b"}),
    "openrlhf": (openrlhf.FORMAT, openrlhf.FORMAT.read, {"actor.model_name_or_path": "a/b", "vllm.num_engines": 8}),
    "slime": (slime.FORMAT, slime.FORMAT.read, {"hf-checkpoint": "a/b", "colocate": True}),
    "trl": (trl.FORMAT, trl.FORMAT.read, {"num_generations": 8, "use_vllm": True}),
    "verl": (verl.FORMAT, verl.FORMAT.read, {"actor_rollout_ref.model.path": "a/b"}),
}  # fmt: skip


def keys_of(name: str, planted: Tree) -> tuple[dict[str, Verdict], list[Fault]]:
    """What a format makes of keys beside those that every file of it has; faults that its reader found."""
    _, read, base = READERS[name]
    tree = {key: value for key, value in base.items() if not any(f"{key}.".startswith(f"{new}.") for new in planted)}
    layer = read(as_placed(nested_sections(tree | planted), "a"), "a")
    return {key.name: key.verdict for key in layer.keys}, [*layer.faults, *(fault for _, fault in layer.unless)]


def levels(entry: Format) -> set[str]:
    """The sections of a format that have rows in them, with the point behind; the top is empty."""
    found = {""}
    for option in entry.table:
        parts = option.split(".")
        found |= {".".join(parts[:depth]) + "." for depth in range(1, len(parts))}
    free = {section for section in found if f"{section}*" in entry.table}  # all of whose keys cost nothing
    return {
        section
        for section in found - free
        if section.removesuffix(".") not in entry.table and not any(section.startswith(each) for each in free)
    }


def value_of(row: Row) -> Any:
    """A value of an option, as its software writes it."""
    if row.gone:
        return True
    if row.kind.words:
        return next(reversed(row.kind.words))
    return row.kind.write(row.kind.samples[0]) if row.kind.samples else "word"


@pytest.mark.parametrize("name", READERS)
def test_an_unknown_key_at_every_level_is_not_expressible(name: str) -> None:
    for section in levels(READERS[name][0]):
        verdicts, _ = keys_of(name, {f"{section}{PLANTED}": 3})
        assert verdicts[f"{section}{PLANTED}"] == "not expressible", section


def test_a_section_without_cost_has_a_key_of_any_name_and_what_it_states_beside_counts() -> None:
    verdicts, _ = keys_of("verl", {"trainer.planted": 3, "trainer.nnodes": 4, "critic.model.path": "c/d"})
    assert (verdicts["trainer.planted"], verdicts["trainer.nnodes"]) == ("no effect", "read")
    assert verdicts["critic.model.path"] == "approximated"


def each_row() -> Iterator[tuple[str, Row]]:
    """Every row that a file may state; torchtitan's TOML has a section where its recipe has one value."""
    for name, (entry, _, _) in READERS.items():
        rows = (row for row in entry.table.values() if not row.option.endswith(EVERY))
        yield from ((name, row) for row in rows if row.option != "activation_checkpoint")


@each("name, row", list(each_row()))
def test_a_known_key_is_in_the_answer_by_what_becomes_of_it(name: str, row: Row) -> None:
    verdicts, faults = keys_of(name, {row.option: value_of(row)})
    assert row.option in verdicts or faults
    if row.costs_nothing:
        assert verdicts[row.option] == "no effect"
    elif row.loss is not None and not row.fills:
        assert verdicts[row.option] == VERDICTS[row.loss[0]]
    elif row.gone:
        assert any(row.option in fault.sentence for fault in faults)


@each("name, row", list(each_row()))
def test_a_key_without_a_value_or_left_to_another_is_in_the_answer(name: str, row: Row) -> None:
    for value in (None, "auto"):
        verdicts, faults = keys_of(name, {row.option: value})
        assert row.option in verdicts or faults


@each("name, row", [(name, row) for name, row in each_row() if row.old in READERS[name][0].table and not row.gone])
def test_two_names_of_one_key_that_contradict_each_other_are_refused(name: str, row: Row) -> None:
    kind = READERS[name][0].table[row.old].kind
    one, other = (*kind.words, *kind.words)[:2] if kind.words else (1, 2) if kind.name != "flag" else (True, False)
    if one == other:
        return
    _, faults = keys_of(name, {row.option: one, row.old: other})
    assert any(fault.code == "X004" and row.option in fault.sentence and row.old in fault.sentence for fault in faults)


@pytest.mark.parametrize(
    ("name", "tree", "passed_over"),
    [
        ("accelerate", {"megatron_lm_config.megatron_lm_tp_degree": 8}, "megatron_lm_config.megatron_lm_tp_degree"),
        ("accelerate", {"fsdp_config.fsdp_version": 2, "fsdp_config.fsdp_sharding_strategy": "NO_SHARD"},
         "fsdp_config.fsdp_sharding_strategy"),
        ("accelerate", {"parallelism_config.parallelism_config_cp_comm_strategy": "alltoall",
                        "fsdp_config.fsdp_version": 2}, "parallelism_config.parallelism_config_cp_comm_strategy"),
        ("bridge", {"model.recompute_method": "block"}, "model.recompute_method"),
        ("torchtitan", {"parallelism.pipeline_parallel_schedule": "GPipe"}, "parallelism.pipeline_parallel_schedule"),
        ("llama-factory", {"recompute_granularity": "full"}, "recompute_granularity"),
        ("vllm", {"max-loras": 4}, "max-loras"),
        ("sglang", {"hicache-size": 64}, "hicache-size"),
    ],
)  # fmt: skip
def test_a_key_that_another_one_switches_off_has_no_effect(name: str, tree: Tree, passed_over: str) -> None:
    verdicts, _ = keys_of(name, tree)
    assert verdicts[passed_over] == "no effect"


@pytest.mark.parametrize(
    ("name", "option", "inside"),
    [
        ("vllm", "speculative-config", {"method": "eagle3", "num_speculative_tokens": 3}),
        ("vllm", "eplb-config", {"num_redundant_experts": 4}),
        ("vllm", "kv-transfer-config", {"kv_connector": "OffloadingConnector"}),
        ("trt-llm", "speculative_config", {"decoding_type": "Eagle", "max_draft_len": 3}),
        ("hf", "fsdp_config", {"version": 2}),
    ],
)
def test_an_unknown_key_inside_a_value_is_not_expressible(name: str, option: str, inside: Tree) -> None:
    given = inside | {PLANTED: 1}
    fsdp = {"fsdp": True} if name == "hf" else {}
    verdicts, _ = keys_of(name, {option: json.dumps(given) if name == "vllm" else given, **fsdp})
    assert verdicts[f"{option}.{PLANTED}"] == "not expressible"


def verdicts_of(found: Imported) -> dict[str, Verdict]:
    return {key.name: key.verdict for key in found.keys}


@each("name, row", list(OF_MEGATRON.items()))
def test_every_option_of_megatron_is_in_the_answer(name: str, row: Row) -> None:
    text = LLAMA_8B.replace("--bf16", f"--bf16 --{name} {'' if row.kind.name == 'flag' else value_of(row)}", 1)
    try:
        verdicts = verdicts_of(read_script(text))
    except CostModelError:
        return
    expected = {"no effect"} if row.costs_nothing else {"read", "no effect", "approximated", "not expressible"}
    assert verdicts[f"--{name}"] in (expected if row.loss is None or row.fills else {row.loss[0], "no effect"})


def test_an_option_that_megatron_does_not_have_is_not_expressible() -> None:
    verdicts = verdicts_of(read_script(LLAMA_8B.replace("--bf16", "--bf16 --planted-key 3", 1)))
    assert verdicts["--planted-key"] == "not expressible"
    assert verdicts["--hidden-size"] == "read"


def test_every_key_of_a_config_is_in_the_answer() -> None:
    config = published.configs()["llama-3.1-8b"]
    planted = {PLANTED: 3, "clip_qkv": 8.0, "num_mtp_modules": 1, "temperature": 0.6}
    verdicts = verdicts_of(published.read(config | planted))
    assert verdicts.keys() == config.keys() | planted
    assert {key: verdicts[key] for key in (*planted, "hidden_size")} == {
        PLANTED: "not expressible", "clip_qkv": "approximated", "num_mtp_modules": "not expressible",
        "temperature": "no effect", "hidden_size": "read",
    }  # fmt: skip


def test_every_key_of_a_multimodal_config_is_in_the_answer_inside_its_text_model_and_around_it() -> None:
    config = published.configs()["qwen3-vl-30b-a3b"]
    inside = config["text_config"] | {PLANTED: 3}
    verdicts = verdicts_of(published.read(config | {"text_config": inside, PLANTED: 4}))
    assert verdicts.keys() == {*(f"text_config.{key}" for key in inside), *(config.keys() - {"text_config"}), PLANTED}
    assert {key for key, verdict in verdicts.items() if verdict == "not expressible"} == {
        f"text_config.{PLANTED}", PLANTED,
    }  # fmt: skip


MANIFESTS = {
    "KServe": test_deployments.PREDICTOR,
    "KServe for language models": test_deployments.SERVICE,
    "Dynamo": test_deployments.GRAPH,
    "production stack": test_deployments.STACK,
    "llm-d": test_deployments.VALUES,
    "Kubernetes": POD.partition("---\n")[2],
    "group of pods": test_deployments.GROUP,
    "Docker Compose": test_deployments.COMPOSED,
}


def around(name: str, path: str = "", value: Any = None) -> tuple[dict[str, Verdict], Table]:
    """What a manifest makes of its keys, with one more at a path, and the table of them."""
    tree = parse(MANIFESTS[name], "a")
    *above, last = path.split(".") if path else [""]
    here: Any = tree
    while above:
        section = next((".".join(above[:n]) for n in range(len(above), 0, -1) if ".".join(above[:n]) in here), above[0])
        above = above[section.count(".") + 1 :]
        here = here.setdefault(section, {})
        here = here[0] if isinstance(here, list) else here
    if path:
        here[key_at(last, Place("a"), Place("a"))] = value
    return {key.name: key.verdict for key in keys_around(tree, "a").keys}, table_of(tree)[1]


@pytest.mark.parametrize("name", MANIFESTS)
def test_every_key_of_a_manifest_is_in_the_answer(name: str) -> None:
    verdicts, table = around(name)
    lost = {key for key, verdict in verdicts.items() if verdict not in ("read", "no effect")}
    assert lost == ({"servingEngineSpec.modelSpec.lmcacheConfig"} if name == "production stack" else set())
    for section in levels(Format("", "", "", table)):
        verdicts, _ = around(name, f"{section}{PLANTED}", 3)
        assert verdicts[f"{section}{PLANTED}"] == "not expressible", section


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_known_key_of_a_manifest_is_in_the_answer_by_what_becomes_of_it(name: str) -> None:
    for option, row in around(name)[1].items():
        if not option.endswith(EVERY) and option != "kind":
            verdict = around(name, option, "2")[0][option]
            assert verdict == (row.loss[0] if row.loss is not None else "read" if row.fills else "no effect"), option


VLLM, PROFILE = test_benchmark_result.VLLM, test_benchmark_result.PROFILE
[GUIDED, *_] = test_benchmark_result.GUIDED["benchmarks"]
ONE_PRINTED = test_benchmark_result.PRINTED.format(rate="2.0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps({**VLLM, PLANTED: 3, "failed": 2, "p99_itl_ms": 20.0, "burstiness": 0.5, "ramp_up_strategy": None}),
         {PLANTED: "not expressible", "failed": "approximated", "p99_itl_ms": "no effect", "mean_ttft_ms": "read",
          "burstiness": "approximated", "ramp_up_strategy": "no effect"}),
        (json.dumps({**VLLM, "backend": "sglang", "server_info": {"tp_size": 2, "seed": 1}, "accept_length": 2.5}),
         {"server_info.tp_size": "read", "server_info.seed": "no effect", "accept_length": "not expressible"}),
        (json.dumps({"benchmarks": [GUIDED, GUIDED | {PLANTED: 3, "duration": 60.0}], "planted_too": 3}),
         {f"benchmarks.{PLANTED}": "not expressible", "planted_too": "not expressible",
          "benchmarks.duration": "no effect", "benchmarks.config.strategy": "read",
          "benchmarks.metrics.prompt_token_count": "read"}),
        (json.dumps({**PROFILE, PLANTED: 3, "was_cancelled": True, "request_count": {"avg": 10.0}}),
         {PLANTED: "not expressible", "was_cancelled": "approximated", "request_count": "no effect",
          "input_config.loadgen.concurrency": "read"}),
        (ONE_PRINTED.replace("Backend:", "Planted key: 3\nFailed requests: 2\nP99 ITL (ms): 9.0\nBackend:"),
         {"Planted key": "not expressible", "failed": "approximated", "P99 ITL (ms)": "no effect",
          "completed": "read"}),
    ],
)  # fmt: skip
def test_every_key_of_a_result_is_in_the_answer(text: str, expected: dict[str, Verdict]) -> None:
    found = benchmark_results(text, "a")
    assert found is not None
    verdicts = {key.name: key.verdict for key in found.keys}
    assert {key: verdicts[key] for key in expected} == expected


BASE = "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\nfsdp_config: {fsdp_version: 2}\n"
GIVEN = ("--node", "dgx-h100", "--set", "model=llama-3.1-8b", "--set", "workload.sequence=4096")


@pytest.mark.parametrize(
    ("line", "verdict", "code"),
    [
        ("", "", 0),
        ("debug: true\n", "no effect", 0),
        ("megatron_lm_config: {megatron_lm_tp_degree: 8}\n", "no effect", 0),
        ("dynamo_config: {dynamo_backend: INDUCTOR}\n", "approximated", 1),
        ("use_cpu: true\n", "not expressible", 1),
        ("planted_key: 3\n", "not expressible", 1),
    ],
)
def test_strict_exits_with_1_for_what_is_approximated_or_not_expressible(
    line: str, verdict: str, code: int, run: Any, tmp_path: Path
) -> None:
    file = tmp_path / "accelerate.yaml"
    file.write_text(BASE + line, "utf-8")
    ran = run("import", str(file), *GIVEN, "--set", "plan.micro_batch=1", "--strict", "--format", "json")
    verdicts = {key["key"]: key["verdict"] for key in json.loads(ran.out)["keys"]}
    assert (ran.code, verdicts["mixed_precision"]) == (code, "read")
    planted = [key for key in verdicts if line and key.startswith(line.partition(":")[0])]
    assert [verdicts[key] for key in planted] == ([verdict] if verdict else [])
    ran = run("import", str(file), *GIVEN, "--set", "plan.micro_batch=1", "-o", str(tmp_path / "mine.yaml"))
    assert ran.code == 0
    assert all(key in ran.out for key in verdicts)


LOADS = ("--prompt", "300", "--answer", "1k")
CONCURRENT = (*LOADS, "--concurrency", "8")
ENDS: dict[str, tuple[str, str, tuple[str, ...]]] = {  # a text, the same with a planted key, and what is given beside
    "KServe": (test_deployments.PREDICTOR, test_deployments.PREDICTOR + "    planted_key: 3\n", CONCURRENT),
    "Dynamo": (test_deployments.GRAPH, test_deployments.GRAPH + "    planted_key: {planted: 3}\n", CONCURRENT),
    "llm-d": (test_deployments.VALUES, test_deployments.VALUES + "planted_key: 3\n", CONCURRENT),
    "production stack": (test_deployments.STACK.replace("enabled: true", "enabled: false"),
                         test_deployments.STACK + "    planted_key: 3\n", CONCURRENT),
    "result": (json.dumps(VLLM), json.dumps({**VLLM, PLANTED: 3}), ("--as", "runs")),
    "verl": (rl.VERL, rl.VERL.replace("trainer.nnodes", "planted_key=3 trainer.nnodes"), LOADS),
    "nemo-rl": (rl.NEMO_BASE, f"{rl.NEMO_BASE}planted_key: 3\n", LOADS),
    "openrlhf": (rl.OPENRLHF, rl.OPENRLHF.replace("--logger.wandb", "--planted_key 3 --logger.wandb"), LOADS),
    "trl": (rl.TRL, f"{rl.TRL}planted_key: 3\n", (*LOADS, "--gpus", "8")),
    "slime": (rl.SLIME, rl.SLIME.replace("--sglang-ep-size", "--planted-key 3 --sglang-ep-size"), LOADS),
    "areal": (rl.AREAL, f"{rl.AREAL}planted_key: 3\n", LOADS),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_strict_exits_with_1_for_a_key_that_is_not_known_in_every_format(name: str, run: Any, tmp_path: Path) -> None:
    for text, code in zip(ENDS[name][:2], (0, 1), strict=True):
        (tmp_path / "mine.txt").write_text(text, "utf-8")
        ran = run("import", "mine.txt", "--gpu", "h100", *ENDS[name][2], "--strict", "--json", cwd=tmp_path)
        assert (ran.code, "planted" in ran.out) == (code, code == 1), ran.err + ran.out
