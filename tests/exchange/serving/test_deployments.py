"""KServe, Dynamo, vLLM's production stack and llm-d: their keys come to the scenario of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.explore.import_export.import_file import GivenBesideFile, import_files
from costmodel.ground.errors import CostModelError, Fault

ASKED = ("workload.prompt=512", "workload.output=64", "workload.rate=1/s")
PREDICTOR = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
spec:
  predictor:
    minReplicas: 2
    model:
      modelFormat: {name: huggingface}
      args: ["--model_name=mine", "--model_id=Qwen/Qwen3-8B", "--tensor-parallel-size=2", "--max_model_len=8192"]
      resources: {limits: {nvidia.com/gpu: "2"}}
"""
SERVICE = """
kind: LLMInferenceService
spec:
  model: {uri: hf://Qwen/Qwen3-30B-A3B}
  replicas: 3
  parallelism: {tensor: 4, expert: true}
  template: {containers: [{name: main, image: vllm/vllm-openai:v0.20.0, args: [--max-model-len, "16384"]}]}
"""
GRAPH = """
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
spec:
  services:
    Frontend: {replicas: 1, extraPodSpec: {mainContainer: {image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.9.0}}}
    VllmDecodeWorker:
      replicas: 4
      extraPodSpec:
        mainContainer:
          command: [python3, -m, dynamo.vllm]
          args: [--model, Qwen/Qwen3-32B, --tensor-parallel-size, "2"]
"""
STACK = """
servingEngineSpec:
  modelSpec:
  - name: mine
    repository: vllm/vllm-openai
    tag: v0.20.0
    modelURL: meta-llama/Llama-3.1-8B-Instruct
    replicaCount: 2
    requestGPU: 2
    vllmConfig:
      {enablePrefixCaching: false, maxModelLen: 16384, tensorParallelSize: 2, extraArgs: ["--max-num-seqs=64"]}
    lmcacheConfig: {enabled: true}
"""
VALUES = """
modelArtifacts: {uri: "hf://Qwen/Qwen3-32B", name: Qwen/Qwen3-32B}
decode:
  replicas: 8
  parallelism: {tensor: 2, data: 1}
  containers: [{name: vllm, modelCommand: vllmServe, args: ["--gpu-memory-utilization=0.95"]}]
prefill: {create: false}
"""
GROUP = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        containers:
        - name: vllm
          image: vllm/vllm-openai:v0.20.0
          args: [--model, Qwen/Qwen3-32B, --tensor-parallel-size, "8", --pipeline-parallel-size, "2"]
          resources: {limits: {nvidia.com/gpu: "8"}}
"""
COMPOSED = """
services:
  llm:
    image: vllm/vllm-openai:v0.20.0
    command: --model Qwen/Qwen3-8B --tensor-parallel-size 2
    ipc: host
    deploy: {replicas: 3, resources: {reservations: {devices: [{driver: nvidia, count: all}]}}}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults show the text of files in the working folder alone."""
    monkeypatch.chdir(tmp_path)


def imported(text: str, folder: Path) -> dict[str, Any]:
    """What a manifest comes to: its model, plan, and values of its stack and its context."""
    (folder / "manifest.yaml").write_text(text, "utf-8")
    found = import_files([str(folder / "manifest.yaml")], GivenBesideFile("dgx-h100", assignments=ASKED)).found
    stack = found.document["stack"]
    stated = {**stack, **stack.get("memory", {})} if isinstance(stack, dict) else {"like": stack}
    lost = {key.name for key in found.keys if key.verdict == "not expressible"}
    return {"model": found.document["model"], **found.document["plan"], **stated, "lost": lost,
            "context": found.document["workload"]["context"]}  # fmt: skip


def faults(text: str, folder: Path) -> list[Fault]:
    with pytest.raises(CostModelError) as caught:
        imported(text, folder)
    return list(caught.value.faults)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PREDICTOR, {"model": "Qwen/Qwen3-8B", "tp": 2, "replicas": 2, "context": 8192, "lost": set()}),
        (SERVICE, {"model": "Qwen/Qwen3-30B-A3B", "tp": 4, "ep": 4, "replicas": 3, "context": 16384, "lost": set()}),
        (GRAPH, {"model": "Qwen/Qwen3-32B", "tp": 2, "replicas": 4, "like": "vllm", "lost": set()}),
        (GRAPH.replace("dynamo.vllm", "dynamo.sglang").replace("tensor-parallel-size", "tp-size"),
         {"tp": 2, "replicas": 4, "like": "sglang", "lost": set()}),
        (STACK, {"model": "meta-llama/Llama-3.1-8B-Instruct", "tp": 2, "replicas": 2, "sequences": 64,
                 "prefix_cache": False, "context": 16384,
                 "lost": {"servingEngineSpec.modelSpec.lmcacheConfig"}}),
        (VALUES, {"model": "Qwen/Qwen3-32B", "tp": 2, "replicas": 8, "share": "95 %", "lost": set()}),
        (GROUP, {"model": "Qwen/Qwen3-32B", "tp": 8, "pp": 2, "replicas": 2, "lost": set()}),
        (COMPOSED, {"model": "Qwen/Qwen3-8B", "tp": 2, "replicas": 3, "lost": set()}),
    ],
)  # fmt: skip
def test_keys_of_a_deployment_are_options_of_its_engine(text: str, expected: dict[str, Any], tmp_path: Path) -> None:
    found = imported(text, tmp_path)
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (VALUES.replace("create: false", "create: true"), "X003", "instances for prompts and for answers apart"),
        (SERVICE + "  prefill: {replicas: 1}\n", "X003", "instances for prompts and for answers apart"),
        (GRAPH + "    Prefill: {extraPodSpec: {mainContainer: {command: [python3, -m, dynamo.vllm], "
         "args: [--model, Qwen/Qwen3-32B, --is-prefill-worker]}}}\n", "X003", "instances for prompts"),
        (PREDICTOR.replace("name: huggingface", "name: sklearn"), "X003", "a model of the format sklearn"),
        (PREDICTOR.replace('gpu: "2"', 'gpu: "1"'), "X004", "a command for 2 accelerators, of which nvidia.com/gpu"),
        (STACK.replace("requestGPU: 2", "requestGPU: 1"), "X004", "of which requestGPU names 1"),
        (STACK.replace("--max-num-seqs=64", "--tensor_parallel_size=4"), "X004",
         "--tensor-parallel-size is '4' here and '2' in"),
        (VALUES.replace("--gpu-memory-utilization=0.95", "-tp=4"), "X004", "is '4' here and '2' in"),
        (SERVICE.replace('--max-model-len, "16384"', '--tensor-parallel-size, "2"'), "X004", "is '2' here and '4' in"),
        (PREDICTOR + "    workerSpec: {tensorParallelSize: 4}\n", "X004", "is '2' here and '4' in"),
        (GRAPH.replace("replicas: 4", "replicas: 4\n      resources: {limits: {gpu: 1}}"), "X004",
         "of which gpu names 1"),
    ],
)  # fmt: skip
def test_what_is_not_read_or_contradicts_itself_is_refused(text: str, code: str, words: str, tmp_path: Path) -> None:
    [fault] = faults(text, tmp_path)
    assert (fault.code, words in fault.sentence) == (code, True), fault.sentence
    assert fault.place is not None
    assert fault.place.line


def test_a_deployment_without_a_model_asks_for_it(tmp_path: Path) -> None:
    [fault] = faults(VALUES.replace('uri: "hf://Qwen/Qwen3-32B", ', ""), tmp_path)
    assert (fault.code, fault.sentence) == ("X002", "the model is not stated")
