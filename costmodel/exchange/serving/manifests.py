"""Manifests that deploy vLLM: a Deployment of Kubernetes, values of llm-d, a graph of Dynamo."""

from __future__ import annotations

import shlex
from typing import Any

from costmodel.exchange.remarks import Remarks
from costmodel.exchange.serving import vllm
from costmodel.exchange.serving.engine_options import EngineFormat, ServingJob, command_words
from costmodel.exchange.write_yaml import document_text

_NAME = "model-server"
_GPU = "nvidia.com/gpu"
_OTHER_GPU = "the resource of its accelerators is yours to name in the place of nvidia.com/gpu"


def _args(job: ServingJob, remarks: Remarks) -> list[str]:
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
        "args": ["--model", job.checkpoint, *_args(job, remarks)],
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
        "args": _args(job, remarks),
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
        "args": ["--model", job.checkpoint, *_args(job, remarks)],
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
