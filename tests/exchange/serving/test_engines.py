"""Serving plans as commands of engines: read back the same, or a key that the engine cannot say."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from pathlib import Path

import pytest

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.reader.hub_names import is_hub_name, shape_of
from costmodel.documents.reader.library import DocumentReader, names
from costmodel.documents.reader.load_scenario import any_from, load_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.text.yaml_tree import copied
from costmodel.estimate.serving.predict_serving import predict
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.exchange.serving.exported_command import ENGINES as TARGETS
from costmodel.exchange.write_yaml import CHECKPOINTS, checkpoint_name
from costmodel.explore.import_export.export_serving import ExportedEngine, export_engine
from costmodel.explore.import_export.import_file import GivenBesideFile, import_files
from costmodel.explore.serving.search_layouts import search
from costmodel.ground.errors import CostModelError
from costmodel.ground.units import show_time
from costmodel.report.answers.export import file_text

SCENARIO = "serve-llama-3.1-70b"
ENGINES = [name for name, target in TARGETS.items() if target.stack == name]
MANIFESTS = [name for name in TARGETS if name not in ENGINES]
MODELS = {
    "dense": ["workload.precision=fp8"],
    "experts": ["model=qwen-3-30b-a3b", "stack.sequences=256", "workload.cache=fp8"],
    "latent": [
        "model=deepseek-v3",
        "cluster.node=dgx-h200",
        "workload.precision=fp8-block",
        "stack.prefix_cache=false",
    ],
}


@functools.cache
def asked(engine: str, name: str, *more: str) -> ServingCase:
    """The scenario on an engine, with the keys of a model and further ones."""
    settings = {path_of(item): item for item in [f"stack={engine}", *MODELS[name], *more]}
    return serving(load_any(SCENARIO, list(settings.values())))


def exported(engine: str, name: str, *more: str, to: str = "") -> ExportedEngine:
    return export_engine(asked(engine, name, *more), to or engine)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_plan_of_a_search_comes_back_or_its_key_is_named(
    engine: str, name: str, request: pytest.FixtureRequest
) -> None:
    """One in three of a share of engines with models, unless --whole asks for all."""
    found = search(inputs_of(asked(engine, name)), 40, bands=False)
    refused: Counter[str] = Counter()
    plans = [plan.sizes for plan in found.best[:: 1 if request.config.getoption("--whole") else 3]]
    assert len(plans) > 3
    for sizes in plans:
        keys = [f"plan.{key}={value:g}" for key, value in sizes.items() if key != "budget"]
        case = serving(
            load_any(SCENARIO, [f"stack={engine}", *MODELS[name], *keys, f"stack.budget={sizes['budget']:g}"])
        )
        for fault in export_engine(case, engine).file.faults:
            assert fault.code == "X009"
            assert "comes back" not in fault.sentence, fault.sentence
            refused[fault.place.path if fault.place else ""] += 1
    allowed = {"plan.ep"} if engine == "vllm" else {"plan.dp_attention"} if engine == "trt-llm" else set()
    assert refused.keys() <= allowed
    assert sum(refused.values()) < len(plans)


@pytest.mark.parametrize("to", ["sglang", "trt-llm"])
def test_the_share_of_memory_is_translated_so_that_the_pool_stays(to: str) -> None:
    there, own = (
        exported("vllm", "dense", "workload.precision=bf16", to=to),
        predict(asked("vllm", "dense", "workload.precision=bf16")),
    )
    assert there.job.share != 0.92
    held = float(own.costs["cache_pool_tokens"])
    assert there.job.pool == pytest.approx(held, rel=2e-3)  # the share is rounded down to four digits
    assert f"{there.job.share:.4g} of {to}" in there.translated
    assert there.file.faults == ()


@pytest.mark.parametrize(
    ("share", "words"), [(-0.1, "every share leaves a larger cache"), (1.2, "no share leaves as large a cache")]
)
def test_a_cache_that_no_share_leaves_is_larger_or_smaller(
    share: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costmodel.explore.import_export.export_serving._memory_share_for_pool", lambda *_: share)
    there = exported("vllm", "dense", "workload.precision=bf16", to="sglang")
    assert f"its own: {words}, this one " in there.translated


@pytest.mark.parametrize("to", ENGINES)
@pytest.mark.parametrize("name", MODELS)
def test_a_command_that_is_imported_again_has_the_same_pool(to: str, name: str, tmp_path: Path) -> None:
    """`export`, then `import` and `memory`: the tokens of the cache to 2 %, on the engine it is written for."""
    case = asked("vllm", name)
    file = tmp_path / "serve.sh"
    file.write_text(export_engine(case, to).file.text, "utf-8")
    load = ("workload.prompt=2048", "workload.output=512", "workload.rate=8 /s")
    found = import_files([str(file)], GivenBesideFile(case.node.name, None, None, False, load)).found
    there = predict(serving(any_from(DocumentReader(), copied(found.document), "serve.sh", ())))
    assert there.inputs.engine.name.startswith(to) or there.inputs.engine.like == to
    assert there.costs["cache_pool_tokens"] == pytest.approx(predict(case).costs["cache_pool_tokens"], rel=0.02)


def test_a_plan_of_several_kinds_of_nodes_is_no_command() -> None:
    """The plan of one of them was written for all."""
    groups = "cluster={groups: [{node: dgx-h100, nodes: 1}, {node: dgx-h200, nodes: 1}]}"
    for plan in ("plan={groups: [{tp: 8}, {tp: 4}]}", "plan={tp: 8}"):
        with pytest.raises(CostModelError, match="one command is of nodes of one kind") as raised:
            export_engine(serving(load_any(SCENARIO, [groups, plan])), "vllm")
        assert [fault.code for fault in raised.value.faults] == ["X009"]


@pytest.mark.parametrize(("engine", "option"), [("vllm", "--enable-dbo"), ("sglang", "--enable-two-batch-overlap")])
def test_half_batches_come_back_where_tokens_go_to_their_experts(engine: str, option: str) -> None:
    """Experts on two domains take DeepEP as predicted; on one they are gathered, and halves are of no effect."""
    halves = "stack.dispatch.two_batches=true"
    wide = ("plan.tp=1", "plan.dp_attention=16", "plan.ep=16", "plan.replicas=1")
    there = exported(engine, "latent", *wide, halves)
    assert there.file.faults == ()
    assert "deepep" in there.file.text
    assert option in there.file.text
    assert option not in exported(engine, "latent", *wide).file.text
    narrow = exported(engine, "latent", "plan.tp=1", "plan.dp_attention=8", "plan.ep=8", "plan.replicas=2", halves)
    assert "deepep" not in narrow.file.text + "".join(fault.sentence for fault in narrow.file.faults)
    assert "without effect" in [each.value for each in narrow.answer.inputs.assumed]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("draft", ["eagle", "mtp", "ngram", "llama-3.2-1b"])
def test_a_draft_comes_back_and_its_acceptance_is_said(engine: str, draft: str) -> None:
    plan = f"plan.speculation={{tokens: 3, chance: 70 %, draft: {draft}}}"
    model = "latent" if draft == "mtp" else "dense"
    more = ("plan.dp_attention=2",) if draft == "mtp" and engine != "trt-llm" else ()
    more = ("plan.tp=1", "plan.dp_attention=16") if draft == "mtp" and engine == "trt-llm" else more
    file = exported(engine, model, plan, *more).file
    if draft == "llama-3.2-1b":
        assert [fault.place.path for fault in file.faults if fault.place] == ["plan.speculation.draft"]
        return
    assert not file.faults
    assert any("drafted tokens are accepted: chance: 70 %" in note for note in file.notes)


@pytest.mark.parametrize("engine", ENGINES)
def test_ranks_that_divide_the_cache_come_back(engine: str) -> None:
    """The log is then expected to show the cache of all of them; Helix of TensorRT-LLM adds ranks instead."""
    plan = ("plan.tp=16", "plan.dcp=16")
    if engine == "trt-llm":
        with pytest.raises(CostModelError, match="L065"):
            exported(engine, "latent", *plan)
        own = "stack={like: trt-llm, prefix_cache: false, decode_context: {caches: [latent]}}"
        case = serving(load_any(SCENARIO, [own, *(each for each in MODELS["latent"] if "stack" not in each), *plan]))
        [fault] = export_engine(case, engine).file.faults
        assert fault.place is not None
        assert fault.place.path == "plan.dcp"
        return
    found = exported(engine, "latent", *plan)
    assert not found.file.faults
    option = "--decode-context-parallel-size 16" if engine == "vllm" else "--dcp-size 16"
    assert option in " ".join(found.file.text.replace("\\\n", " ").split())
    alone = exported(engine, "latent", "plan.tp=16")
    assert found.job.pool == pytest.approx(16 * alone.job.pool)


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_of_experts_come_back(engine: str) -> None:
    """TensorRT-LLM states slots of experts in a file of their own."""
    plan = ("plan.tp=1", "plan.dp_attention=16", "plan.ep=16", "plan.redundant_experts=16")
    file = exported(engine, "latent", *plan).file
    if engine == "trt-llm":
        assert [fault.place.path for fault in file.faults if fault.place] == ["plan.redundant_experts"]
        return
    assert not file.faults
    words = " ".join(file.text.replace("\\\n", " ").split())
    stated = (
        """--eplb-config '{"num_redundant_experts": 16}'""" if engine == "vllm" else "--ep-num-redundant-experts 16"
    )
    assert f"--enable-eplb {stated}" in words


@pytest.mark.parametrize(
    ("engine", "size", "words"),
    [
        ("vllm", "size=48 GiB", "--kv-offloading-size 384"),  # of 8 ranks together
        ("vllm", "size=30 GB", "--kv-offloading-size 223.5174179"),
        ("sglang", "size=64 GB", "--enable-hierarchical-cache --hicache-size 64"),
        ("sglang", "ratio=2.5", "--enable-hierarchical-cache --hicache-ratio 2.5"),
        ("trt-llm", "size=48 GiB", "host_cache_size: 51539607552"),
    ],
)
def test_a_cache_on_the_host_comes_back(engine: str, size: str, words: str) -> None:
    file = exported(engine, "dense", f"stack.host_cache.{size}").file
    assert not file.faults
    assert words in " ".join(file.text.replace("\\\n", " ").split())


def test_a_cache_on_the_host_that_no_option_states_is_refused() -> None:
    """vLLM and TensorRT-LLM take a size alone, SGLang one in whole GB; a translated command keeps it."""
    for engine, size in (("vllm", "ratio=2"), ("trt-llm", "ratio=2"), ("sglang", "size=48 GiB")):
        [fault] = exported(engine, "dense", f"stack.host_cache.{size}").file.faults
        assert fault.place is not None
        assert (fault.code, fault.place.path) == ("X009", "stack.host_cache")
    assert "--hicache-size 64" in exported("vllm", "dense", "stack.host_cache.size=64 GB", to="sglang").file.text


def test_what_does_not_fit_is_refused() -> None:
    for more, code in ((("plan.tp=1",), "M001"), (("plan.tp=3",), "L0")):
        with pytest.raises(CostModelError) as caught:
            exported("vllm", "dense", "workload.precision=bf16", *more)
        assert caught.value.faults[0].code == "C004"
        assert code in caught.value.faults[0].sentence


def test_types_that_the_checkpoint_must_have_are_said() -> None:
    quantised = exported("vllm", "dense", "workload.precision=bf16", "workload.weights=int4-g128").file
    assert "--quantization awq" in quantised.text
    assert any("yours to name: a checkpoint" in note for note in quantised.notes)
    [fault] = exported("vllm", "latent", "workload.precision=fp8", "plan.pp=2").file.faults
    assert fault.place is not None
    assert (fault.place.path, fault.hint) == ("workload.precision", "--set workload.precision=fp8-block is what it has")


@pytest.mark.share(5)
@pytest.mark.parametrize("model", ["gpt-oss-120b", "gpt-oss-20b", "deepseek-v3", "deepseek-v4-flash", "minimax-m2"])
@pytest.mark.parametrize("node", ["dgx-h200", "dgx-a100"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_checkpoint_in_narrow_types_needs_no_option(engine: str, node: str, model: str) -> None:
    """Experts in mxfp4 were refused, and weights in fp8-block that an A100 reads into 16 bits.

    A share of engines, nodes and models, unless --whole asks for all.
    """
    asked = {"kind": "serving", "prompt": 1000, "output": 300, "rate": "1 /s"}
    load = ", ".join(f"{key}: {value}" for key, value in asked.items())
    keys = [f"model={model}", f"stack={engine}", f"cluster.node={node}", "cluster.nodes=4", "plan={tp: 8, pp: 2}"]
    for to in ENGINES:
        found = export_engine(serving(load_any(SCENARIO, [*keys, f"workload={{{load}}}", "limits={}"])), to)
        assert found.file.faults == ()
        assert "quant" not in found.file.text
        assert "N050" not in found.answer.remarked


@pytest.mark.parametrize(
    ("model", "stated", "refused"),
    [("gpt-oss-120b", "precision=fp8", {"expert_weights=mxfp4", "precision=bf16"}),
     ("gpt-oss-120b", "weights=bf16", {"expert_weights=mxfp4"}),
     ("gpt-oss-120b", "expert_weights=bf16", {"expert_weights=mxfp4"}),
     ("deepseek-v3", "precision=fp8", {"precision=fp8-block"}),
     ("deepseek-v3", "precision=bf16", {"precision=fp8-block"})],
)  # fmt: skip
def test_types_that_need_another_checkpoint_are_remarked_and_their_remedy_works(
    model: str, stated: str, refused: set[str]
) -> None:
    keys = [f"model={model}", "cluster.node=dgx-h200", "plan={tp: 16}", f"workload.{stated}"]
    own = [] if "precision" in stated else ["workload.precision=bf16"]
    found = export_engine(serving(load_any(SCENARIO, [*keys, *own])), "vllm")
    assert "N050" in found.answer.remarked
    remedies = {fault.hint.removeprefix("--set workload.").partition(" is ")[0] for fault in found.file.faults}
    assert remedies == refused
    assert all("need another checkpoint" in fault.sentence for fault in found.file.faults)
    again = export_engine(
        serving(load_any(SCENARIO, [*keys, *own, *(f"workload.{each}" for each in remedies)])), "vllm"
    )
    assert (again.file.faults, "N050" in again.answer.remarked) == ((), False)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_command_says_what_its_log_will_and_how_to_measure_it(engine: str) -> None:
    found = exported(engine, "dense", "workload.precision=bf16", "workload.prompt=1000", "workload.output=200")
    tokens = f"{found.job.pool:,.0f}" if engine == "vllm" else f"{found.job.pool:.0f}"
    assert tokens in found.file.text
    assert "--random-input-len 1000" in found.file.text
    benchmark = found.file.text.partition("to measure the prediction:")[2]
    assert "--model meta-llama/" in benchmark
    assert "--request-rate 4 " in found.file.text  # 8 of two replicas
    bursts = exported(engine, "dense", "workload.arrival_spread=2").file.text
    assert ("--burstiness 0.4 " in bursts) is (engine != "sglang")  # of two replicas: c² = 1 + (4 − 1) / 2
    assert all(len(line) <= 110 for line in found.file.text.splitlines())


@pytest.mark.parametrize("engine", ENGINES)
def test_the_benchmark_of_a_closed_loop_stands_beside_what_it_prints_with_its_first_wave(engine: str) -> None:
    load = "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64, precision: bf16%s}"
    steady, burst = (exported(engine, "dense", load % more) for more in ("", ", traffic: burst"))
    first = show_time(burst.answer.costs["ttft"])
    assert burst.answer.costs["ttft"] > 2 * steady.answer.costs["ttft"]
    assert first in steady.job.printed
    assert not burst.job.printed


def test_checkpoints_have_the_shape_that_they_stand_for() -> None:
    known = names("model")
    stated = {model: checkpoint_name(model, []) for model in (*CHECKPOINTS, *known)}
    found = {model: shape_of(name, known) for model, name in stated.items() if name}
    assert found == {model: shape_of(model, known) for model in found}
    assert all(is_hub_name(name) for name in stated.values() if name)
    assert len(found) > 100
    assert checkpoint_name("pythia-160m", []) == ""  # its source names another size


@pytest.mark.parametrize("engine", ENGINES)
def test_adapters_come_back(engine: str) -> None:
    """TensorRT-LLM names maps and adapters in a file; vLLM takes ranks of a list."""
    file = exported(engine, "dense", "workload.precision=bf16", "workload.adapters={count: 20, rank: 24}").file
    refused = [fault.place.path for fault in file.faults if fault.place]
    assert refused == ([] if engine == "sglang" else ["workload.adapters"])
    if engine == "vllm":
        assert file.faults[0].hint == "--set workload.adapters.rank=32"
        file = exported(engine, "dense", "workload.precision=bf16", "workload.adapters={count: 20, rank: 32}").file
        assert not file.faults
        assert "--enable-lora --max-loras 20 --max-lora-rank 32" in " ".join(file.text.replace("\\\n", " ").split())


@pytest.mark.parametrize("engine", ENGINES)
def test_what_one_command_does_not_hold_is_refused(engine: str) -> None:
    """Instances apart need their connector."""
    apart = "plan={prefill: {tp: 4}, decode: {tp: 4}}"
    file = exported(engine, "dense", "workload.precision=bf16", apart).file
    assert [fault.place.path for fault in file.faults if fault.place] == ["plan.prefill", "plan.decode"]


@pytest.mark.parametrize(
    ("engine", "degree", "longest"),
    [("vllm", "--tensor-parallel-size", "--max-model-len"), ("sglang", "--tp-size", "--context-length"),
     ("trt-llm", "--tp_size", "--max_seq_len")],
)  # fmt: skip
def test_instances_apart_are_two_commands_that_let_in_the_longest_request(
    engine: str, degree: str, longest: str
) -> None:
    """Each has the degrees of its own kind; the benchmark asks the whole plan."""
    apart = "plan={prefill: {tp: 4, replicas: 2}, decode: {tp: 8}}"
    there = exported(engine, "dense", "workload.precision=bf16", apart)
    words = there.file.text.replace("\\\n", " ").split()
    values = [[after for word, after in itertools.pairwise(words) if word == name] for name in (degree, longest)]
    assert values == [["4", "8"], ["131072", "131072"]]
    assert words.count("--request-rate") == 1
    assert words[words.index("--request-rate") + 1] == f"{there.job.workload.rate:g}"
    head = file_text(there).partition("an instance for prompts")[0]
    assert "prefill: 2 × tp 4," in head
    assert "decode: 1 × tp 8," in head


def test_instances_apart_let_in_what_the_smaller_cache_of_both_holds() -> None:
    narrow = exported("vllm", "dense", "workload.precision=bf16", "plan={prefill: {tp: 2}, decode: {tp: 8}}")
    assert narrow.prefill is not None
    assert 2560 < narrow.job.context == narrow.prefill.context < narrow.prefill.pool < 131072


@pytest.mark.parametrize("size", ["0.5b", "1.5b", "3b", "7b", "14b", "32b", "72b"])
def test_qwen_2_5_ends_where_its_instruct_checkpoints_do(size: str) -> None:
    """32,768 tokens in config.json of each; beyond that an engine starts only with YaRN."""
    options = (f"model=qwen-2.5-{size}", "workload.precision=bf16", f"plan.tp={4 if size in ('32b', '72b') else 2}")
    file = exported("vllm", "dense", *options)
    assert f"Qwen/Qwen2.5-{size.upper()}-Instruct" in file.file.text
    assert option(file, "--max-model-len") == 32768
    assert not any("YaRN" in note for note in file.file.notes)
    longer = exported("vllm", "dense", *options, "workload.context=65536").file
    assert any("65,536 tokens exceed the 32,768" in note and "YaRN" in note for note in longer.notes)


def test_the_executor_of_vllm_is_written_and_read_back() -> None:
    assert "--distributed-executor-backend ray" in exported("vllm", "dense", "stack.executor=ray").file.text


def test_trt_llm_gets_prompts_in_parts_only_where_one_is_longer_than_a_step() -> None:
    long = ("workload.prompt=16384", "workload.context=20000", "workload.rate=1 /s")
    text = export_engine(asked("vllm", "dense", *long), "trt-llm").file.text
    assert "enable_chunked_prefill: true" in text
    assert "enable_chunked_prefill" not in exported("vllm", "dense", to="trt-llm").file.text
    assert "--no-enable-chunked-prefill" in exported("vllm", "dense", "stack.chunked=false").file.text


def test_the_advice_for_prompts_longer_than_a_step_works_as_flags() -> None:
    """Each way to write it, in any order; `stack.like` kept the engine of the scenario and repeated the advice."""
    found = export_engine(asked("vllm", "dense"), "trt-llm")
    [advice] = [note for note in found.file.notes if "would be refused" in note]
    stated = advice.partition("; --set ")[2].removesuffix(" admits them").split(" --set ")
    ways = (stated, ["stack.like=trt-llm", "stack.chunked=true"], ["stack.chunked=true", "stack.like=trt-llm"])
    for way in ways:
        admitted = export_engine(serving(load_any(SCENARIO, [*MODELS["dense"], *way])), "trt-llm")
        assert "enable_chunked_prefill: true" in admitted.file.text
        assert not any("would be refused" in note for note in admitted.file.notes)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_head_tells_which_plan_is_written_and_how_to_get_the_best(engine: str) -> None:
    """Rank 1 of the search is the plan that `Best` of its table sets, with another budget than the engine's."""
    own = export_engine(asked(engine, "dense"), engine)
    budget = float(own.answer.inputs.budget)
    assert own.chosen == f"plan: as stated; token budget {budget:,.0f}; --rank 1 writes Best of costmodel search"
    best = export_engine(asked(engine, "dense"), engine, 1)
    row = search(inputs_of(asked(engine, "dense")), 1, bands=False).best[0].sizes
    assert best.chosen == f"plan: rank 1 of costmodel search; token budget {row['budget']:,.0f}"
    assert best.job.budget == row["budget"]
    words = " ".join(file_text(own).replace("\n#  ", "").split())
    target, engine_title = TARGETS[engine], own.answer.inputs.engine.title
    assert own.chosen in words
    assert f"the options are of {target.version}; the figures describe {engine_title}" in words


def test_whole_prompts_are_not_dropped_on_an_engine_without_them() -> None:
    """SGLang got prompts in parts, and the file claimed to be the same plan."""
    assert "stack.chunked" in str(exported("vllm", "dense", "stack.chunked=false", to="sglang").file.faults)


def option(file: ExportedEngine, name: str) -> int:
    words = file.file.text.replace("\\\n", " ").split()
    return int(words[words.index(name) + 1])


@pytest.mark.parametrize(
    ("engine", "name"), [("vllm", "--max-model-len"), ("sglang", "--context-length"), ("trt-llm", "--max_seq_len")]
)
def test_a_command_lets_in_the_longest_requests_of_its_model_unless_the_scenario_states_others(
    engine: str, name: str
) -> None:
    """An engine refuses longer requests: the mean of a workload, 2,560 tokens, would refuse half of them."""
    plain = exported(engine, "dense")
    assert option(plain, name) == plain.job.model.max_sequence == 131072
    assert "requests over 131,072 tokens would be refused:" in plain.file.text
    stated = exported(engine, "dense", "workload.context=6000")
    assert option(stated, name) == 6000
    assert "# workload.context of the scenario" in stated.file.text


def test_vllm_starts_with_the_longest_request_of_an_exported_command() -> None:
    """vLLM starts only where its cache holds one such request and, without chunked prefill, a step does."""
    small = ("workload.precision=bf16", "plan.tp=2")
    narrow, memory = exported("vllm", "dense", *small), predict(asked("vllm", "dense", *small)).costs
    assert 2560 < option(narrow, "--max-model-len") <= memory["cache_pool_tokens"] * (1 - 0.03)
    assert option(narrow, "--max-model-len") > memory["cache_pool_tokens"] * (1 - 0.03) - 16
    whole = exported("vllm", "dense", "stack.chunked=false")
    assert option(whole, "--max-model-len") == option(whole, "--max-num-batched-tokens") == 8192
    [fault] = exported("vllm", "dense", "stack.chunked=false", "workload.context=9000").file.faults
    assert fault.hint.startswith("--set stack.budget=9000")


@pytest.mark.parametrize("target", MANIFESTS)
def test_a_manifest_starts_all_replicas_and_comes_back(target: str, tmp_path: Path) -> None:
    case = serving(load_any(SCENARIO, ["stack=vllm", "model=qwen-3-30b-a3b", "plan={tp: 2, ep: 2, replicas: 3}"]))
    found = export_engine(case, target)
    assert (found.file.faults, found.job.count("replicas")) == ((), 3)
    (tmp_path / "manifest.yaml").write_text(file_text(found), "utf-8")
    flags = {"prompt": "2048", "answer": "512", "rate": "8"}
    back = import_files([str(tmp_path / "manifest.yaml")], GivenBesideFile("dgx-h100", 1, load=flags)).found
    plan = back.document["plan"]
    assert {key: plan[key] for key in ("tp", "ep", "replicas")} == {"tp": 2, "ep": 2, "replicas": 3}
    assert not [key.name for key in back.keys if key.verdict == "not expressible"]


def test_the_pool_of_a_model_with_windows_comes_back(tmp_path: Path) -> None:
    """A command lets in the model's longest request; the pool still holds as many tokens of requests of the load."""
    keys = ["model=gemma-3-27b", "stack=vllm", "plan={tp: 2, replicas: 1}", "limits={}"]
    load = "workload={kind: serving, prompt: 2000, output: 500, concurrency: 64}"
    case = serving(load_any(SCENARIO, [*keys, load]))
    (tmp_path / "serve.sh").write_text(file_text(export_engine(case, "vllm")), "utf-8")
    flags = {"prompt": "2000", "answer": "500", "concurrency": "64"}
    found = import_files([str(tmp_path / "serve.sh")], GivenBesideFile("dgx-h100", 1, load=flags)).found
    back = serving(any_from(DocumentReader(), copied(found.document), "back", ()))
    assert back.scenario.workload.context == case.model.max_sequence
    ours, theirs = (predict(each, bands=False) for each in (case, back))
    assert theirs.costs["cache_pool_tokens"] == ours.costs["cache_pool_tokens"]
    assert theirs.costs["concurrency_steady"] == ours.costs["concurrency_steady"]
    assert theirs.evaluation.memory.logged > 4 * theirs.evaluation.memory.tokens


def test_windows_leave_room_for_a_longest_request_that_fits() -> None:
    """A window's share of the cache grows as requests get shorter, and with it what a token takes."""
    file = exported(
        "vllm",
        "dense",
        "model=gemma-3-27b",
        "plan.tp=1",
        "workload.weights=bf16",
        "workload.precision=bf16",
        "stack.memory.share=75 %",
    )
    longest = option(file, "--max-model-len")
    assert longest < 131072
    assert longest <= file.job.pool
    assert file.job.requests >= 1
