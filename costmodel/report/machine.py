"""Answers as JSON: SI numbers with their unit in the name, columns described, everything assumed said."""

from __future__ import annotations

import json
import math
from typing import Any

import costmodel
from costmodel.estimate.block import SIZES, Structure
from costmodel.estimate.communication import Transfer
from costmodel.estimate.costs import COLUMNS, machine_name, number
from costmodel.estimate.evaluate import verdict
from costmodel.estimate.legality import REFUSALS, REMARKS
from costmodel.estimate.memory import STAGES
from costmodel.estimate.plan import Answer
from costmodel.estimate.setting import Setting
from costmodel.explore.alone import Alone
from costmodel.explore.rank import Ranked
from costmodel.explore.search import Found


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def plain(tree: Any) -> Any:
    """A document tree as plain JSON values."""
    if isinstance(tree, dict):
        return {str(key): plain(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [plain(value) for value in tree]
    for kind in (bool, str, int, float):
        if isinstance(tree, kind):
            return kind(tree)
    return tree


def _frame(setting: Setting, schema: str) -> dict[str, Any]:
    return {
        "schema": schema,
        "costmodel": costmodel.__version__,
        "scenario": {"title": setting.case.scenario.title, "document": plain(setting.case.tree)},
        "flop_convention": setting.convention,
        "documents": [{"name": name, "digest": digest} for name, digest in setting.case.digests.items()],
        "columns": [
            {"name": machine_name(name), "unit": column.unit, "meaning": column.meaning, "better": column.better}
            for name, column in COLUMNS.items()
        ],
    }


def _plan(structure: Structure, sizes: dict[str, float], costs: dict[str, float]) -> dict[str, Any]:
    share = costs["memory_share"]
    return {
        **{name: int(value) if float(value).is_integer() else value for name, value in sizes.items()},
        "zero": structure.zero,
        "recompute": structure.recompute,
        "schedule": structure.schedule,
        "sequence_parallel": structure.sequence_parallel,
        "order": structure.order,
        **{machine_name(name): _number(value) for name, value in costs.items()},
        "verdict": verdict(share),
        "fits": share <= 1,
    }


def _ranked(plan: Ranked) -> dict[str, Any]:
    return _plan(plan.structure, plan.sizes, plan.costs)


def _answered(answer: Answer) -> dict[str, Any]:
    block = answer.evaluation.block
    sizes = {name: float(getattr(block, name)[0]) for name in SIZES}
    return _plan(block.structure, sizes, answer.evaluation.costs.row())


def estimate(answer: Answer) -> dict[str, Any]:
    """One plan as costmodel/result/v1."""
    result = _frame(answer.setting, "costmodel/result/v1")
    result["assumed"] = [{"path": item.path, "value": item.value, "from": item.origin} for item in answer.assumed]
    result["plans"] = [_answered(answer)]
    result["refused"] = [{"code": code, "text": REFUSALS[code].meaning} for code in answer.refused]
    result["notes"] = [{"code": code, "text": REMARKS[code].meaning} for code in answer.remarked]
    return result


def memory(answer: Answer) -> dict[str, Any]:
    """One plan with its ledger by stage."""
    result = estimate(answer)
    ledger = answer.evaluation.ledger
    result["ledger"] = [
        {
            "stage": stage,
            **{f"{name}_bytes": number(values[position]) for name, values in ledger.lines.items()},
            "peak_bytes": number(ledger.peaks[position]),
        }
        for position, stage in enumerate(STAGES)
    ]
    return result


def communication(answer: Answer) -> dict[str, Any]:
    """One plan with its transfers."""
    result = estimate(answer)
    result["transfers"] = [_transfer(item) for item in answer.evaluation.step.transfers]
    return result


def _transfer(transfer: Transfer) -> dict[str, Any]:
    return {
        "group": transfer.group.name,
        "ranks": number(transfer.group.ranks),
        "domains": number(transfer.group.domains),
        "operation": transfer.operation,
        "message_bytes": number(transfer.message),
        "count": number(transfer.count),
        "time_s": number(transfer.time),
        "volume_bytes": number(transfer.volume),
    }


def search(found: Found) -> dict[str, Any]:
    """A search: its best plans, counts, and the scenario's own plan."""
    tally = found.tally
    result = _frame(found.setting, "costmodel/result/v1")
    result |= {
        "assumed": [{"path": item.path, "value": item.value, "from": item.origin} for item in found.setting.assumed],
        "objective": found.setting.case.scenario.objective,
        "candidates": tally.candidates,
        "evaluated": tally.evaluated,
        "fit": tally.fit,
        "elapsed_s": found.elapsed,
        "plans": [_ranked(plan) for plan in found.best],
        "nearest": [] if found.best else [_ranked(plan) for plan in tally.nearest.rows],
        "try": found.remedies,
        "yours": None if found.yours is None else {"rank": found.your_rank, **_answered(found.yours)},
        "refused": [
            {"code": code, "plans": count, "text": REFUSALS[code].title}
            for code, count in tally.refused.most_common()
            if count
        ],
        "notes": [],
    }
    return result


def text(result: dict[str, Any]) -> str:
    """JSON as it is written."""
    return json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def model_memory(facts: Alone) -> dict[str, Any]:
    """A model alone."""
    return {
        "schema": "costmodel/model-memory/v1",
        "costmodel": costmodel.__version__,
        "model": facts.model.name,
        "parameters": int(float(facts.parameters)),
        "recipes": [
            {
                "title": recipe.title,
                "weights_bytes": float(recipe.weights),
                "states": [
                    {"dp": int(dp), "zero": zero, "bytes": float(value)} for (dp, zero), value in recipe.kept.items()
                ],
            }
            for recipe in facts.recipes
        ],
    }
