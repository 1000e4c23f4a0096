"""Writes a serving job as the command of an engine, or as a manifest that deploys vLLM, and reads it back."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from costmodel.documents.schemas.serving import ACCEPTED, ServingPlan, Speculation
from costmodel.exchange.import_result import Origin, OriginValue
from costmodel.exchange.option_rows import Remarks
from costmodel.exchange.serving import sglang, tensorrt_llm, vllm
from costmodel.exchange.serving.benchmark import MEASURED
from costmodel.exchange.serving.engine_files import merged_serving, read_serve_command
from costmodel.exchange.serving.engine_options import UNWRITTEN, EngineFormat, ServingJob, command_words
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.write_yaml import document_text
from costmodel.ground.counts import number_of
from costmodel.ground.errors import CostModelError, Fault
from costmodel.ground.parsing import parse
from costmodel.ground.record import record

# --- manifests that deploy vLLM: a Deployment of Kubernetes, values of llm-d, a graph of Dynamo


_NAME = "model-server"
_GPU = "nvidia.com/gpu"
_OTHER_GPU = "the resource of its accelerators is yours to name in the place of nvidia.com/gpu"


def _engine_words(job: ServingJob, remarks: Remarks) -> list[str]:
    """The command line of the engine, split into separate words."""
    words = command_words(vllm.written_options(job, remarks))
    return [part for word in words for part in shlex.split(word)]


def _checked_accelerators(job: ServingJob, remarks: Remarks, ranks: int) -> str:
    """The accelerators of a container; a remark where no single node holds them."""
    if ranks > job.per_node:
        remarks.note(
            f"{ranks} accelerators of a replica are on several nodes: a LeaderWorkerSet starts one container on each"
        )
    if job.vendor != "NVIDIA":
        remarks.note(_OTHER_GPU)
    return str(ranks)


def write_kubernetes(job: ServingJob, remarks: Remarks) -> str:
    """A Deployment of as many replicas as the plan has."""
    gpus = _checked_accelerators(job, remarks, job.ranks)
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:latest",
        "args": ["--model", job.checkpoint, *_engine_words(job, remarks)],
        "ports": [{"containerPort": 8000}],
        "resources": {"limits": {_GPU: gpus}},
    }
    remarks.note("yours to change: the image's release, and what mounts the weights and /dev/shm")
    labels = {"app": _NAME}
    tree: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": _NAME},
        "spec": {
            "replicas": job.count("replicas"),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    return document_text(tree, {})


def write_llm_d(job: ServingJob, remarks: Remarks) -> str:
    """Values of llm-d's chart of model services; prompts and answers are computed together."""
    gpus = _checked_accelerators(job, remarks, job.ranks)
    container = {
        "name": "vllm",
        "image": "ghcr.io/llm-d/llm-d-cuda:latest",
        "modelCommand": "vllmServe",
        "args": _engine_words(job, remarks),
        "resources": {"limits": {_GPU: gpus}},
    }
    remarks.note("yours to change: the image's release, and the size of the model's volume")
    tree: dict[str, Any] = {
        "modelArtifacts": {"name": job.checkpoint, "uri": f"hf://{job.checkpoint}"},
        "decode": {"create": True, "replicas": job.count("replicas"), "containers": [container]},
        "prefill": {"create": False},
    }
    return document_text(tree, {})


def write_dynamo(job: ServingJob, remarks: Remarks) -> str:
    """A graph of Dynamo: its front and workers that run vLLM."""
    gpus = _checked_accelerators(job, remarks, job.ranks)
    image = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:latest"
    worker = {
        "image": image,
        "command": ["python3", "-m", "dynamo.vllm"],
        "args": ["--model", job.checkpoint, *_engine_words(job, remarks)],
    }
    remarks.note("yours to change: the image's release")
    tree: dict[str, Any] = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": _NAME},
        "spec": {
            "services": {
                "Frontend": {
                    "componentType": "frontend",
                    "replicas": 1,
                    "extraPodSpec": {"mainContainer": {"image": image}},
                },
                "VllmWorker": {
                    "componentType": "worker",
                    "replicas": job.count("replicas"),
                    "resources": {"limits": {"gpu": gpus}},
                    "extraPodSpec": {"mainContainer": worker},
                },
            }
        },
    }
    return document_text(tree, {})


def _manifest_format(name: str, title: str, write: Any) -> EngineFormat:
    own = vllm.FORMAT
    return EngineFormat(
        name=name, title=title, version=own.version, table=own.table, elsewhere=own.elsewhere, cannot=own.cannot,
        kind="YAML", mark="--", stack="vllm", write=write, step_holds_request=True, replicated=True,
    )  # fmt: skip


FORMATS = (
    _manifest_format("kubernetes", "Deployment of Kubernetes with vLLM", write_kubernetes),
    _manifest_format("llm-d", "values of llm-d with vLLM", write_llm_d),
    _manifest_format("dynamo", "graph of Dynamo with vLLM", write_dynamo),
)


# --- A serving job as the command of an engine, read back: only what gives the same plan is written


ENGINES: dict[str, EngineFormat] = {
    entry.name: entry for entry in (vllm.FORMAT, sglang.FORMAT, tensorrt_llm.FORMAT, *FORMATS)
}
_FILE = "export"  # what the text is called while it is read
_UNWRITTEN = {
    "prefix_cache": True,
    "graphs": True,
    "block": 32,
    "chunked": True,
}  # what stands where a command is silent
_WHOLE_PROMPTS = "trt-llm"  # which computes prompts in parts only where a command states it
_ROUNDED = 1e-8  # of a size, the digits that a command has
_SETTINGS = ("budget", "sequences", "block", "prefix_cache", "graphs", "executor", "chunked")


@record
class ExportedCommand:
    """An exported command: its text, keys of the scenario that it cannot express, and notes for its reader."""

    target: EngineFormat
    text: str
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]


def exported_command(target: EngineFormat, job: ServingJob) -> ExportedCommand:
    """The job as a command, checked by reading it back if the engine can express it."""
    remarks = Remarks(job.file)
    text = target.write(job, remarks)
    if not job.engine.kernels.own_all_reduce and "stack.kernels.own_all_reduce" in target.cannot:
        remarks.refuse("stack.kernels.own_all_reduce", f"0 B: {target.cannot['stack.kernels.own_all_reduce']}")
    if not remarks.faults:
        _check_read_back(text, job, remarks)
    if job.context > job.model.max_sequence:
        most = f"{job.context:,} tokens exceed the {job.model.max_sequence:,.0f} that the model was trained on"
        remarks.note(f"{most}: its config.json needs rope_scaling, such as YaRN")
    if "/" not in job.checkpoint:
        remarks.note(f"yours to replace: {job.checkpoint}, by the folder of the model or its OWNER/NAME on the hub")
    replicas = job.count("replicas")
    if replicas > 1 and not target.replicated:
        remarks.note(
            f"{replicas} replicas: this command {replicas} times, each on {number_of(job.ranks, 'accelerator')}"
        )
    return ExportedCommand(target, text, tuple(remarks.faults), tuple(remarks.notes))


def exported_disaggregated(target: EngineFormat, prefill: ServingJob, decode: ServingJob) -> ExportedCommand:
    """The commands for disaggregated prefill and decode instances; a fault for their connector."""
    remarks = Remarks(decode.file)
    for key in UNWRITTEN:
        remarks.refuse(key, target.cannot[key], "state the connector to the engine yourself")
    first, second = exported_command(target, prefill), exported_command(target, decode)
    started = first.text.partition(f"{target.comment} {MEASURED}")[0]
    text = (
        f"{target.comment} an instance for prompts\n{started}{target.comment} an instance that generates\n{second.text}"
    )
    faults = [*remarks.faults, *(fault for each in (first, second) for fault in each.faults)]
    notes = dict.fromkeys((*first.notes, *second.notes))
    return ExportedCommand(target, text, tuple(dict.fromkeys(faults)), tuple(notes))


def _check_read_back(text: str, job: ServingJob, remarks: Remarks) -> None:
    """Records a fault for every key that the command states differently or leaves out."""
    try:
        found = merged_serving(
            [*read_serve_command(text, _FILE), _facts_beside_command(job)], _FILE, job.model, job.shipped
        )
    except CostModelError as error:
        for fault in error.faults:
            remarks.refuse("plan", f"the command would break a rule of its own engine: {fault.sentence}", fault.hint)
        return
    for fault in found.missing:
        remarks.refuse("plan", f"read back, the command leaves something open: {fault.sentence}")
    for path, ours, theirs in _differences(found.document, job):
        remarks.refuse(path, f"{ours} comes back as {theirs}")


def _facts_beside_command(job: ServingJob) -> Layer:
    """The facts beside a command: its requests and its machine."""
    known = Origin("assumed", "given beside the command")
    values: dict[str, Any] = {
        "model": job.checkpoint,
        "accelerators": job.ranks * job.count("replicas"),
        "workload.prompt": round(job.workload.mean("prompt")),
        "workload.output": round(job.workload.mean("output")),
        "workload.rate": "1 /s",
    }
    if job.plan.speculation is not None:
        name, value = job.plan.speculation.accepted_words.split(": ")
        values[f"plan.speculation.{name}"] = value
    return Layer("", {path: OriginValue(value, known) for path, value in values.items()})


def _comparable_plan(value: Any) -> Any:
    """A plan value without the parts that no command states; a missing count is 1."""
    if isinstance(value, Speculation):
        return value.model_dump(exclude={*ACCEPTED})
    return 1.0 if value is None else value


def _differences(document: dict[Any, Any], job: ServingJob) -> Iterator[tuple[str, object, object]]:
    """Keys that differ between a command read back and the job, with both values."""
    ours, theirs = job.plan, ServingPlan.model_validate(document["plan"])
    for key in ServingPlan.model_fields:
        mine, back = _comparable_plan(getattr(ours, key)), _comparable_plan(getattr(theirs, key))
        if mine != back:
            yield f"plan.{key}", mine, back
    workload = document["workload"]
    adapters = job.workload.adapters
    precision = job.workload.weights if job.widens else job.workload.precision  # as the checkpoint is, on any device
    wanted = {
        "context": job.context,
        "precision": precision,
        "weights": None if job.workload.weights == precision else job.workload.weights,
        "cache": job.workload.cache,
        "adapters": None if adapters is None else {"count": round(adapters.count), "rank": round(adapters.rank)},
    }
    for key, value in wanted.items():
        if workload.get(key) != value:
            yield f"workload.{key}", value, workload.get(key)
    stack = document["stack"] if isinstance(document["stack"], dict) else {}
    silent = _UNWRITTEN | ({"chunked": False} if stack.get("like") == _WHOLE_PROMPTS else {})
    for key in _SETTINGS:
        value = {"budget": job.budget, "sequences": job.sequences}.get(key, getattr(job.engine, key))
        back = stack.get(key, silent.get(key))
        if back != value:
            yield f"stack.{key}", value, back
    if stack.get("dispatch", {}).get("two_batches", False) != job.halved:
        yield "stack.dispatch.two_batches", job.halved, not job.halved
    yield from _other_host_caches(stack.get("host_cache", {}), job)
    share = f"{100 * job.share:.6g} %"
    if stack["memory"]["share"] != share:
        yield "stack.memory.share", share, stack["memory"]["share"]


def _other_host_caches(theirs: Any, job: ServingJob) -> Iterator[tuple[str, object, object]]:
    """Host-cache sizes that differ after reading back, by more than the rounding in a command."""
    stated, back = job.engine.host_cache, theirs.get("size")
    mine = 0.0 if stated is None else stated.size or 0.0
    other = parse(back, "B") if isinstance(back, str) else 0.0
    if abs(other - mine) > _ROUNDED * mine:
        yield "stack.host_cache.size", mine, other
    ratio = None if stated is None else stated.ratio
    if theirs.get("ratio") != ratio:
        yield "stack.host_cache.ratio", ratio, theirs.get("ratio")
