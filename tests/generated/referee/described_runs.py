"""Every shipped measured run as plain words and numbers, from which each program of the field gets its own input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.measured_cases import cases
from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario
from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.reader.serving_scenario import serving
from costmodel.documents.schemas.measurement import Run
from costmodel.documents.schemas.model import Model
from costmodel.estimate.model.shards import model_active_parameters
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training_answer.predict_training import own_plan, plan_block

Described = dict[str, Any]
SIZES = ("dp", "tp", "pp", "vpp", "micro_batch", "ep", "etp", "cp", "dp_replicate")


def described_runs() -> Iterator[tuple[Described, LoadedScenario]]:
    """Every run with a measured step time or a rate of tokens; `id` is its document and name."""
    for name in names("measured"):
        table = read("measured", name)
        if not any(map(_judged_figure, table.runs)):
            continue
        for run, case in cases(table):
            measured = _judged_figure(run)
            if measured is None or isinstance(case, RlCase):
                continue
            head = {"id": f"{name}/{run.name}", "source": table.source.key, "measured": measured}
            yield {**head, **_machine(case), "model": _model(case.model), **_job(case)}, case


def _judged_figure(run: Run) -> float | None:
    """The measured time of a step, or rate of tokens."""
    return run.measured.step_time or run.measured.output_tokens_per_s


def _machine(case: LoadedScenario) -> Described:
    part, per_node = case.accelerator, int(case.node.accelerators)
    return {
        "accelerator": part.name,
        "per_node": per_node,
        "accelerators": int(case.scenario.cluster.nodes) * per_node,
        "memory_bytes": float(part.memory.capacity),
        "peak": float(getattr(part.peak, "fp8" if "fp8" in case.scenario.workload.precision else "bf16")),
    }


def _job(case: LoadedScenario) -> Described:
    """Workload, software and plan; a plan with everything that the run leaves open filled by costmodel's rules."""
    load = case.scenario.workload
    if not isinstance(case, ResolvedScenario):
        stack, plan = serving(case).stack, case.scenario.plan
        sizes = {"prompt": int(load.prompt), "output": int(load.output), "requests": int(load.requests)}
        share = stack.memory.share
        assert share is not None, "the shipped benchmarks are of engines that state one"
        own = {"tp": int(plan.tp), "cache": load.cache, "memory_share": share, **sizes}
        return {"kind": "serving", "precision": load.precision, "software": stack.name, **own}
    inputs = training_inputs(case)
    block, _ = plan_block(inputs, own_plan(inputs))
    choices = block.structure
    plan = {name: int(getattr(block, name)[0]) for name in SIZES}
    plan |= {"zero": choices.zero, "recompute": choices.recompute, "schedule": choices.schedule}
    plan |= {"sequence_parallel": choices.sequence_parallel, "offload": list(choices.offload)}
    return {
        "kind": "training",
        "precision": load.precision,
        "software": case.stack.name,
        "sequence": int(load.sequence),
        "global_batch": int(load.global_batch),
        "fused_attention": case.stack.kernels.attention != "unfused",
        "plan": plan,
    }


def _model(model: Model) -> Described:
    """The shape; `layers` by kind, with what a kind consists of."""
    return {
        "name": model.name,
        "hidden": int(model.hidden),
        "vocab": int(model.vocab),
        "active_parameters": float(model_active_parameters(model)),
        "layers": [
            {
                "count": int(kind.count),
                "attention": kind.attention
                and {
                    "heads": int(kind.attention.heads),
                    "kv_heads": int(kind.attention.kv_heads),
                    "head_dim": int(kind.attention.head_dim),
                },
                "latent": kind.latent
                and {
                    name: value and int(value)
                    for name, value in kind.latent
                    if name in ("heads", "query_rank", "kv_rank", "nope_dim", "rope_dim", "value_dim")
                },
                "mlp": kind.mlp and {"ffn_hidden": int(kind.mlp.ffn_hidden), "gated": kind.mlp.gated},
                "experts": kind.experts
                and {
                    "count": int(kind.experts.count),
                    "top_k": int(kind.experts.top_k),
                    "ffn_hidden": int(kind.experts.ffn_hidden),
                    "gated": kind.experts.gated,
                    "shared": kind.experts.shared and int(kind.experts.shared.ffn_hidden),
                },
            }
            for kind in model.layers
        ],
    }
