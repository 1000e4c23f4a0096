"""Commands of serving engines: what each spelling says, what hangs on the model, several files, what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.reader.load_scenario import any_from
from costmodel.documents.text.yaml_tree import copied
from costmodel.exchange.import_result import Imported
from costmodel.explore.import_export.import_file import GivenBesideFile, import_files
from costmodel.explore.scenario_from_flags import ScenarioFlags, scenario_from_flags
from costmodel.ground.errors import CostModelError

ASKED = ("workload.prompt=2048", "workload.output=512", "workload.rate=8 /s")
VLLM = (
    "vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 4 --pipeline-parallel-size 2 "
    "--max-model-len 8192 --gpu-memory-utilization 0.9 --max-num-seqs 256 --kv-cache-dtype fp8\n"
)
SCRIPT = """#!/bin/bash
export MODEL=${MODEL:-Qwen/Qwen3-235B-A22B}
TP=2
ARGS=(--enable-expert-parallel --trust-remote-code)   # all ranks
ARGS+=("-dp=4")
python -m vllm.entrypoints.openai.api_server --model "$MODEL" -tp $TP "${ARGS[@]}" \\
    --max-model-len=32k --max_num_batched_tokens 16K --no-enable-prefix-caching --enforce-eager &
vllm bench serve --model "$MODEL" --dataset-name random --random-input-len 1024 --random-output-len 256 \\
    --random-prefix-len 512 --max-concurrency 64 --num-prompts 640
"""
SGLANG = (
    "docker run --gpus all lmsysorg/sglang python3 -m sglang.launch_server --model deepseek-ai/DeepSeek-V3 --tp 16 "
    "--dp 8 --enable-dp-attention --moe-a2a-backend deepep --chunked-prefill-size 131072 --max-running-requests 1024 "
    "--mem-fraction-static 0.85 --nnodes 2 --node-rank 0 --disable-radix-cache\n"
)
TRT = """#!/bin/bash
extra=/tmp/extra.yml
cat << EOF > ${extra}
enable_attention_dp: true
kv_cache_config:
  dtype: fp8
  free_gpu_memory_fraction: 0.8
EOF
mpirun -n 8 trtllm-llmapi-launch trtllm-serve openai/gpt-oss-120b --tp_size 8 --ep_size 8 --max_batch_size 512 \\
  --max_num_tokens 4096 --extra_llm_api_options ${extra}
"""
POD = """apiVersion: v1
kind: Service
metadata: {name: llm}
---
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: llm
          image: vllm/vllm-openai:v0.20.0
          args: ["--model", "Qwen/Qwen3-8B", "--tensor-parallel-size", "2", "--dtype", "auto"]
          resources: {limits: {nvidia.com/gpu: 2}}
"""


def read(text: str, path: Path, *more: str, given: tuple[str, ...] = ASKED, nodes: int | None = None) -> Imported:
    """What a text comes to beside the load, which opens as a scenario."""
    file = path / "serve.sh"
    file.write_text(text, "utf-8")
    found = import_files([str(file), *more], GivenBesideFile("dgx-h100", nodes, None, False, given)).found
    any_from(DocumentReader(), copied(found.document), "serve.sh", ())
    return found


def sections(found: Imported) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    tree = found.document
    return dict(tree["plan"]), tree["stack"], dict(tree["workload"])


def test_a_command_of_vllm(tmp_path: Path) -> None:
    plan, stack, workload = sections(read(VLLM, tmp_path))
    assert plan == {"tp": 4, "pp": 2, "replicas": 1}
    assert stack == {"like": "vllm", "memory": {"share": "90 %"}, "sequences": 256}
    assert (workload["context"], workload["cache"], workload["precision"]) == (8192, "fp8", "bf16")
    assert read(VLLM, tmp_path).document["cluster"] == {"node": "dgx-h100", "nodes": 1}
    assert read(VLLM, tmp_path, nodes=3).document["plan"]["replicas"] == 3


def test_data_parallel_ranks_share_experts_and_are_replicas_of_a_dense_model(tmp_path: Path) -> None:
    plan, stack, workload = sections(read(SCRIPT, tmp_path, given=()))
    assert plan == {"tp": 2, "dp_attention": 4, "ep": 8, "replicas": 1}
    assert stack == {"like": "vllm", "budget": 16384, "prefix_cache": False, "graphs": False}
    assert (workload["context"], workload["prompt"], workload["shared_prefix"]) == (32000, 1536, 512)
    assert (workload["concurrency"], workload["traffic"]) == (64, "burst")
    dense = read(SCRIPT.replace("Qwen3-235B-A22B", "Qwen3-8B"), tmp_path, given=())
    assert dense.document["plan"] == {"tp": 2, "replicas": 4}


def test_sglang_has_its_groups_of_attention_inside_tp(tmp_path: Path) -> None:
    plan, stack, workload = sections(read(SGLANG, tmp_path))
    assert plan == {"tp": 2, "dp_attention": 8, "ep": 16, "replicas": 1}
    # Sizes of all groups together: each of the eight has its part.
    assert stack["budget"] == 131072 // 8
    assert stack["sequences"] == 1024 // 8
    assert (stack["memory"], stack["prefix_cache"]) == ({"share": "85 %"}, False)
    assert workload["precision"] == "fp8-block"  # of the checkpoint
    copies = read(SGLANG.replace("--enable-dp-attention --moe-a2a-backend deepep", ""), tmp_path)
    assert copies.document["plan"] == {"tp": 16, "replicas": 8}
    newer = read(SGLANG.replace("--dp 8 --enable-dp-attention", "--attn-dp-size 8"), tmp_path)
    assert newer.document["plan"] == plan


def test_ranks_that_divide_the_cache(tmp_path: Path) -> None:
    """Inside tp, and of SGLang inside a group of attention; another exchange between them is a loss."""
    vllm = "vllm serve deepseek-ai/DeepSeek-V3 -tp 16"
    assert "dcp" not in read(f"{vllm} -dcp 1\n", tmp_path).document["plan"]
    found = read(f"{vllm} -dcp 8 --dcp-comm-backend ag_rs\n", tmp_path)
    assert found.document["plan"]["dcp"] == 8
    assert not any("dcp" in loss.sentence for loss in found.losses)
    other = read(f"{vllm} --decode-context-parallel-size 8 --dcp-comm-backend a2a -pcp 2\n", tmp_path)
    assert {loss.kind for loss in other.losses} >= {"approximated", "not expressible"}
    for option in ("--dcp-size", "--decode-context-parallel-size"):
        plan = read(f"{SGLANG.rstrip().replace('--dp 8', '--dp 2')} {option} 4\n", tmp_path).document["plan"]
        assert (plan["tp"], plan["dp_attention"], plan["dcp"]) == (8, 2, 4)


def test_copies_of_experts(tmp_path: Path) -> None:
    """Both engines refuse to balance without --enable-eplb: copies then stand where they may."""
    found = read(f"{SGLANG.rstrip()} --enable-eplb --ep-num-redundant-experts 16\n", tmp_path)
    assert found.document["plan"]["redundant_experts"] == 16
    still = read(f"{SGLANG.rstrip()} --ep-num-redundant-experts 16\n", tmp_path)
    assert any("without regard to their load" in loss.sentence for loss in still.losses)
    with pytest.raises(CostModelError, match="X005"):
        read(f"{SGLANG.rstrip()} --enable-eplb --ep-num-redundant-experts many\n", tmp_path)


@pytest.mark.parametrize(
    ("text", "option", "stated"),
    [
        (VLLM, "--kv-offloading-size 64 --kv-offloading-backend native", {"size": "8 GiB"}),  # of 8 ranks together
        (VLLM, """--kv-transfer-config '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
            "kv_connector_extra_config": {"cpu_bytes_to_use": 200000000000}}'""", {"size": "25 GB"}),
        (SGLANG, "--enable-hierarchical-cache --hicache-size 30", {"size": "30 GB"}),
        (SGLANG, "--enable-hierarchical-cache", {"ratio": 2.0}),
        (SGLANG, "--hicache-ratio 3", None),
    ],
)  # fmt: skip
def test_a_cache_on_the_host(text: str, option: str, stated: dict[str, Any] | None, tmp_path: Path) -> None:
    """vLLM states what all ranks of an engine share, SGLang each rank's, if it is switched on."""
    stack = read(f"{text.rstrip()} {' '.join(option.split())}\n", tmp_path).document["stack"]
    assert (stack.get("host_cache") if isinstance(stack, dict) else None) == stated


def test_a_cache_that_another_program_keeps_is_a_loss(tmp_path: Path) -> None:
    found = read(f"{VLLM.rstrip()} --kv-offloading-size 64 --kv-offloading-backend lmcache\n", tmp_path)
    assert any("another program" in loss.sentence for loss in found.losses)
    found = read(VLLM.rstrip() + ' --kv-transfer-config \'{"kv_connector": "LMCacheConnectorV1"}\'\n', tmp_path)
    assert any("another program" in loss.sentence for loss in found.losses)


def test_options_of_tensorrt_llm_stand_in_a_file_that_the_script_writes(tmp_path: Path) -> None:
    plan, stack, workload = sections(read(TRT, tmp_path))
    assert plan == {"tp": 1, "dp_attention": 8, "ep": 8, "replicas": 1}
    assert stack == {"like": "trt-llm", "budget": 4096, "sequences": 512, "memory": {"share": "80 %"}}
    assert (workload["cache"], workload["expert_weights"]) == ("fp8", "mxfp4")
    apart = tmp_path / "extra.yml"
    apart.write_text(
        "enable_attention_dp: true\nkv_cache_config: {dtype: fp8, free_gpu_memory_fraction: 0.8}\n", "utf-8"
    )
    command = "trtllm-serve" + TRT.partition("trtllm-serve")[2].replace("${extra}", "extra.yml")
    assert sections(read(command, tmp_path))[0] == plan
    apart.unlink()
    with pytest.raises(CostModelError) as caught:
        read(command, tmp_path)
    assert "tried" in caught.value.faults[0].hint


def test_a_manifest_and_a_line_in_quotes(tmp_path: Path) -> None:
    found = read(POD, tmp_path)
    assert found.document["plan"] == {"tp": 2, "replicas": 1}
    assert found.origins["plan.tp"].place.line == 12  # type: ignore[union-attr]
    quoted = f"kubectl exec pod -- bash -lc '{VLLM.strip()}'\n"
    assert read(quoted, tmp_path).document["plan"] == read(VLLM, tmp_path).document["plan"]


@pytest.mark.parametrize(
    "started",
    [
        'command: ["/bin/sh", "-c"]\n          args: ["exec vllm serve Qwen/Qwen3-8B -tp 2"]',
        'command: ["/bin/bash", "-c", "vllm serve Qwen/Qwen3-8B -tp 2"]',
        'command: ["vllm", "serve", "Qwen/Qwen3-8B", "-tp", "2"]',
        'command: ["vllm", "serve"]\n          args: ["Qwen/Qwen3-8B", "-tp", "2"]',
        'command: ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "Qwen/Qwen3-8B", "-tp", "2"]',
    ],
)
def test_a_command_of_a_container_counts_more_than_its_image(started: str, tmp_path: Path) -> None:
    argued = 'args: ["--model", "Qwen/Qwen3-8B", "--tensor-parallel-size", "2", "--dtype", "auto"]'
    found = read(POD.replace(argued, started), tmp_path)
    assert (found.document["model"], found.document["plan"]) == ("Qwen/Qwen3-8B", {"tp": 2, "replicas": 1})


RUN = "docker run lmsysorg/sglang:v0.4.6.post1-cu124 python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B\n"
IMAGES = {
    "described": (POD, "vllm-0.20", "image vllm/vllm-openai:v0.20.0: vLLM 0.17 to 0.20, V1 engine", ""),
    "older": (POD.replace("v0.20.0", "v0.11.2"), "vllm-0.16", "image vllm/vllm-openai:v0.11.2: vLLM 0.6 to 0.16", ""),
    "newer": (
        POD.replace("v0.20.0", "v9.1.0"),
        "vllm",
        "estimated as vLLM 0.29 to 0.33",
        "no stack describes release 9.1.0",
    ),
    "no release": (POD.replace(":v0.20.0", "@sha256:12"), "vllm", "estimated as vLLM 0.29 to 0.33", ""),
    "docker run": (
        RUN,
        "sglang",
        "sglang:v0.4.6.post1-cu124: estimated as SGLang 0.5",
        "no stack describes release 0.4.6.post1",
    ),
}


@pytest.mark.parametrize("name", IMAGES)
def test_the_release_of_an_image_selects_the_stack_and_is_named_where_none_describes_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # faults show the text of files in the working folder alone
    text, stack, origin, warning = IMAGES[name]
    found = read(text, tmp_path)
    assert found.document["stack"] == stack
    assert origin in str(found.origins["stack"])
    assert [fault.sentence.startswith(warning) for fault in found.warnings] == ([True] if warning else [])
    chosen = read(text, tmp_path, given=(*ASKED, "stack=trt-llm"))
    assert (chosen.document["stack"], chosen.warnings) == ("trt-llm", ())


def test_a_container_that_starts_another_program_is_none_of_an_engine(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="no command of a serving engine"):
        read(POD.replace("args:", 'command: ["/start.sh"]\n          args:'), tmp_path)
    unset = POD.replace(
        "args: [", 'command: ["/bin/sh", "-c", "vllm serve Qwen/Qwen3-8B -tp $RANKS"]\n          args: ['
    )
    with pytest.raises(CostModelError, match="X002: no file states a value"):
        read(unset, tmp_path)


def test_replicas_of_a_manifest(tmp_path: Path) -> None:
    """Each runs the command; a compose file states them at the service."""
    three = POD.replace("spec:\n  template", "spec:\n  replicas: 3\n  template")
    found = read(three, tmp_path)
    assert (found.document["plan"], found.document["cluster"]["nodes"]) == ({"tp": 2, "replicas": 3}, 1)
    assert found.origins["plan.replicas"].place.line == 7  # type: ignore[union-attr]
    copies = read(three.replace('"--dtype", "auto"', '"-dp", "2"'), tmp_path)
    assert copies.document["plan"] == {"tp": 2, "replicas": 6}
    assert read(three, tmp_path, given=(*ASKED, "plan.replicas=5")).document["plan"]["replicas"] == 5
    service = "services:\n  llm:\n    image: vllm/vllm-openai\n    command: --model Qwen/Qwen3-8B -tp 2\n"
    deployed = f"{service}    deploy:\n      replicas: 4\n"
    assert read(deployed, tmp_path).document["plan"] == {"tp": 2, "replicas": 4}
    with pytest.raises(CostModelError, match="X005"):
        read(three.replace("replicas: 3", "replicas: 0"), tmp_path)


@pytest.mark.parametrize(
    ("text", "options", "stated"),
    [
        (VLLM, "--enable-lora --max-loras 20 --max-lora-rank 32", {"count": 20, "rank": 32}),
        (VLLM, "--enable-lora", {"count": 1, "rank": 16}),
        (VLLM, "--max-loras 20", None),
        (SGLANG, "--enable-lora --max-loras-per-batch 4 --max-lora-rank 64", {"count": 4, "rank": 64}),
        (SGLANG, "--lora-paths a=/a b=/b --max-lora-rank 8", {"count": 8, "rank": 8}),
    ],
)
def test_adapters_beside_the_model(text: str, options: str, stated: dict[str, int] | None, tmp_path: Path) -> None:
    found = read(f"{text.rstrip()} {options}\n", tmp_path)
    assert found.document["workload"].get("adapters") == stated
    assert stated or any("without --enable-lora" in loss.sentence for loss in found.losses)


def test_the_rank_of_adapters_that_their_files_state_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="rank of the adapters"):
        read(f"{SGLANG.rstrip()} --lora-paths a=/a\n", tmp_path)
    given = (*ASKED, "workload.adapters.rank=8")
    found = read(f"{SGLANG.rstrip()} --lora-paths a=/a\n", tmp_path, given=given)
    assert found.document["workload"]["adapters"] == {"count": 8, "rank": 8}


def test_a_command_without_a_load_has_that_of_flags(tmp_path: Path) -> None:
    """The scenario of the command has the load that `--model … --stack vllm` has, each value with its flag."""
    found = read(VLLM, tmp_path, given=())
    flags = ScenarioFlags(model="llama-3.1-70b", stack="vllm", gpu="h100")
    assumed = {each.path: each.origin for each in scenario_from_flags(None, flags).asked.assumed}
    for key, flag in (("prompt", "--prompt"), ("output", "--answer"), ("concurrency", "--rate")):
        origin = found.origins[f"workload.{key}"]
        assert (origin.kind, origin.text) == ("assumed", assumed[f"workload.{key}"])
        assert flag in origin.text


def test_what_stands_nowhere_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(CostModelError) as caught:
        read(VLLM.replace("meta-llama/Llama-3.1-70B-Instruct", "/models/mine"), tmp_path)
    assert "/models/mine" in caught.value.faults[0].sentence
    given = read(VLLM.replace("meta-llama/Llama-3.1-70B-Instruct", "/models/mine"), tmp_path,
                 "scenarios/examples/qwen3-8b")  # fmt: skip
    assert given.document["model"]["hidden"] == 4096
    with pytest.raises(CostModelError) as caught:
        read(VLLM.replace(" 4 ", " $TP "), tmp_path)
    assert [fault.code for fault in caught.value.faults] == ["X002"]


def test_a_quantised_checkpoint_is_the_shape_that_its_name_has_before_its_type(tmp_path: Path) -> None:
    name = "some/Llama-3.1-70B-Instruct-AWQ"
    found = read(VLLM.replace("meta-llama/Llama-3.1-70B-Instruct", name), tmp_path)
    assert (found.document["model"], found.document["workload"]["weights"]) == (name, "int4-g128")
    words = f"model: the shape of {name} on the hub; weights in int4-g128, by its name"
    assert found.origins["model"].text == words


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("moonshotai/Kimi-K2.5", {"precision": "bf16", "expert_weights": "int4-g32"}),
        ("/models/Llama-3.1-70B-Instruct-FP8", {"precision": "fp8"}),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", {"precision": "fp8", "cache": "fp8"}),
    ],
)
def test_the_types_of_a_checkpoint_are_those_that_its_name_states(
    name: str, types: dict[str, str], tmp_path: Path
) -> None:
    workload = read(VLLM.replace("meta-llama/Llama-3.1-70B-Instruct", name), tmp_path).document["workload"]
    assert {key: workload[key] for key in types} == types


def test_an_unknown_model_has_the_three_nearest_in_its_hint(tmp_path: Path) -> None:
    with pytest.raises(CostModelError) as caught:
        read(VLLM.replace("meta-llama/Llama-3.1-70B-Instruct", "some/Qwen3-31B"), tmp_path)
    (fault,) = [fault for fault in caught.value.faults if "none of the library" in fault.sentence]
    assert fault.hint.startswith("add its config.json, or --set model=qwen-3-")
    assert fault.hint.count("qwen-3-") == 4


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ('--speculative-config \'{"method": "medusa", "num_speculative_tokens": 3}\'', "not expressible"),
        ("--quantization-config x", "not expressible"),
        ("--cpu-offload-gb 10", "not expressible"),
        ("--all2all-backend deepep_low_latency", "approximated"),
        ("--port 8000", "ignored"),
    ],
)
def test_what_no_scenario_says_is_a_loss_of_its_class(option: str, kind: str, tmp_path: Path) -> None:
    name = option.split()[0].lstrip("-")
    losses = [loss for loss in read(f"{VLLM.strip()} {option}\n", tmp_path).losses if loss.sentence.startswith(name)]
    assert [loss.kind for loss in losses] == [kind]


def test_a_draft_needs_the_share_that_is_accepted(tmp_path: Path) -> None:
    drafted = f'{VLLM.strip()} --speculative-config \'{{"method": "eagle3", "num_speculative_tokens": 3}}\'\n'
    with pytest.raises(CostModelError) as caught:
        read(drafted, tmp_path)
    assert [fault.code for fault in caught.value.faults] == ["X002"]
    found = read(drafted, tmp_path, given=(*ASKED, "plan.speculation.acceptance=70 %"))
    assert found.document["plan"]["speculation"] == {"tokens": 3, "draft": "eagle", "acceptance": "70 %"}


@pytest.mark.parametrize(
    ("options", "draft"),
    [
        ("EAGLE", "mtp"),
        ("EAGLE --speculative-draft-model-path deepseek-ai/DeepSeek-V3-0324", "mtp"),
        ("EAGLE --speculative-draft-model-path lmsys/DeepSeek-V3-EAGLE", "eagle"),
        ("EAGLE3", "eagle"),
    ],
)
def test_the_models_own_layer_drafts_where_sglang_is_given_no_other(options: str, draft: str, tmp_path: Path) -> None:
    command = "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3-0324 --tp 8"
    text = f"{command} --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-algorithm {options}\n"
    found = read(text, tmp_path, given=(*ASKED, "plan.speculation.acceptance=70 %"))
    assert found.document["plan"]["speculation"] == {"tokens": 3, "draft": draft, "acceptance": "70 %"}


def test_options_of_another_version_and_slips_are_said(tmp_path: Path) -> None:
    found = read(f"{VLLM.strip()} --disable-log-requests --max-num-seq 9\n", tmp_path)
    assert sorted(fault.code for fault in found.warnings) == ["X006", "X007"]
    assert "max-num-seqs" in next(fault.hint for fault in found.warnings if fault.code == "X007")


def test_two_engines_are_a_conflict_and_too_few_accelerators_a_fault(tmp_path: Path) -> None:
    with pytest.raises(CostModelError) as caught:
        read(VLLM + VLLM.replace(" 4 ", " 2 "), tmp_path)
    assert caught.value.faults[0].code == "X004"
    with pytest.raises(CostModelError) as caught:
        read(SGLANG, tmp_path, nodes=1)
    assert caught.value.faults[0].code == "X005"


@pytest.mark.parametrize(
    ("option", "whole"),
    [("--enable-chunked-prefill", False), ("--no-enable-chunked-prefill", True), ("--disable-chunked-prefill", True)],
)
def test_prompts_are_split_unless_it_is_switched_off(option: str, whole: bool, tmp_path: Path) -> None:
    found = read(f"vllm serve Qwen/Qwen3-8B {option} --max-num-seqs 64\n", tmp_path)
    assert (found.document["stack"].get("chunked") is False) == whole
    assert not found.warnings


def test_prompts_of_trt_llm_are_split_where_an_option_states_it(tmp_path: Path) -> None:
    (tmp_path / "options.yaml").write_text("enable_chunked_prefill: true\n")
    found = read("trtllm-serve Qwen/Qwen3-8B --extra_llm_api_options options.yaml\n", tmp_path)
    assert found.document["stack"]["chunked"] is True


def test_a_misspelt_option_is_a_warning_with_the_name_that_is_meant(tmp_path: Path) -> None:
    [warning] = read("vllm serve Qwen/Qwen3-8B --tensor-paralel-size 4\n", tmp_path).warnings
    assert (warning.code, "tensor-parallel-size" in warning.hint) == ("X007", True)


def test_a_file_states_once_what_is_meant_by_a_misspelt_option(run: Any, tmp_path: Path) -> None:
    text = "vllm serve meta-llama/Llama-3.1-8B-Instruct --gpu-memory-utilisation 0.9\n"
    (tmp_path / "serve.sh").write_text(text, "utf-8")
    load = ("workload.rate=5/s", "workload.prompt=2000", "workload.output=500")
    ran = run("import", "serve.sh", "--gpu", "h100", *(word for each in load for word in ("--set", each)), cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert ran.out.replace("\n# ", " ").count("did you mean gpu-memory-utilization") == 1


def test_unknown_options_are_shown_beside_what_is_missing(run: Any, tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text("vllm serve Qwen/Qwen3-8B --gpu-mem-util 0.9 --frobnicate 3\n", "utf-8")
    ran = run("import", str(tmp_path / "serve.sh"))
    assert ran.code == 2
    assert "error[X002]: no file states the machine" in ran.err
    assert "warning[X007]: keys that are not known: gpu-mem-util, frobnicate" in ran.err
    assert "did you mean gpu-memory-utilization for gpu-mem-util?" in ran.err


def test_a_plan_that_cannot_exist_is_a_warning_as_an_estimate_of_it_is_refused(run: Any, tmp_path: Path) -> None:
    """64 query heads, 8 key-value heads and layers 28,672 wide over 3 ranks."""
    text = "vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 3\n"
    found = read(text, tmp_path)
    assert [fault.code for fault in found.warnings] == ["L051", "L052", "L054"]
    assert not read(text.replace("3\n", "4\n"), tmp_path).warnings
    (tmp_path / "serve.sh").write_text(text, "utf-8")
    asked = ("--gpu", "h100", "--rate", "2", "--prompt", "2000", "--answer", "500")
    assert run("import", str(tmp_path / "serve.sh"), *asked, "--strict").code == 1


def test_bursts_of_a_benchmark(tmp_path: Path) -> None:
    """The option states the key of its name."""
    text = "vllm serve Qwen/Qwen3-8B\nvllm bench serve --model Qwen/Qwen3-8B --random-input-len 900 "
    text += "--random-output-len 100 --request-rate 4 --burstiness 0.25 --best-of 4\n"
    found = read(text, tmp_path, given=())
    workload = found.document["workload"]
    assert (workload["rate"], workload["burstiness"], workload["samples"]) == ("4 /s", 0.25, 4)
    assert not any("at random" in loss.sentence for loss in found.losses)


def test_several_prefixes_of_a_benchmark(tmp_path: Path) -> None:
    """Of vLLM's data set of that name, whose defaults are 256, 256, 10 and 128."""
    text = "vllm serve Qwen/Qwen3-8B\nvllm bench serve --model Qwen/Qwen3-8B --dataset-name prefix_repetition "
    text += "--request-rate 4 --prefix-repetition-prefix-len 1024 --prefix-repetition-num-prefixes 30\n"
    workload = read(text, tmp_path, given=()).document["workload"]
    assert (workload["prompt"], workload["output"]) == (1024 + 256, 128)
    assert workload["beginnings"] == [{"tokens": 1024, "count": 30}]


def test_a_tree_of_drafts_of_sglang(tmp_path: Path) -> None:
    """Its tokens count the model's own; a tree without its levels is refused."""
    command = f"{SGLANG.strip()} --speculative-algorithm EAGLE3 --speculative-eagle-topk 4 "
    text = f"{command}--speculative-num-steps 5 --speculative-num-draft-tokens 16\n"
    found = read(text, tmp_path, given=(*ASKED, "plan.speculation.length=3.1"))
    tree = {"tokens": 15, "depth": 5, "width": 4, "draft": "eagle", "length": 3.1}
    assert found.document["plan"]["speculation"] == tree
    with pytest.raises(CostModelError, match="states its steps"):
        read(f"{command}--speculative-num-draft-tokens 16\n", tmp_path, given=(*ASKED, "plan.speculation.length=3"))
