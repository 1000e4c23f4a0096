"""Start-up logs of engines: the memory that is left to keys and values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.serving_scenario import ServingCase, serving_case_of
from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.serving.engine import Engine
from costmodel.documents.schemas.serving.serving_schema import ServingScenario
from costmodel.equations.run.uncertainty import TENTH
from costmodel.estimate.serving.engine_memory import memory_use
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.evidence.validate.serving.serving_rows import engine_of, machine_of, model_of, readable
from costmodel.evidence.validate.skip_reasons import CannotModel, needed
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.ground.errors import CostModelError

GIB = 2.0**30
_USUAL_LENGTH = 4096.0  # no pool depends on it
_TYPES = {"": "bf16", "2": "bf16", "1": "fp8"}


def logged_pool(row: CsvRow) -> float | None:
    """The pool of one device that a log states, in bytes."""
    value = row.number("log_kv_gib")
    return None if value is None else value * GIB


def predicted_pool(row: CsvRow, shelf: CachedReader) -> tuple[dict[str, float], dict[str, str]]:
    """The pool of one device that an engine leaves, with its P10 and P90, and what the row leaves open."""
    filled: dict[str, str] = {}
    readable(row)
    scenario = _scenario(row, shelf, filled)
    try:
        case: ServingCase = serving_case_of(validate(ServingScenario, scenario, "row"), shelf, scenario)
        inputs = inputs_of(replace(case, stack=_configured(row, case, filled)))
    except CostModelError as error:
        fault = error.faults[0]
        raise CannotModel("V004" if fault.code == "D016" else "V006", fault.sentence) from None
    one = np.ones(1)
    tp, pp = next(needed(row, "tp")) * one, (row.number("pp") or 1.0) * one
    use = memory_use(inputs, PlanColumns(tp, pp, one, one, one, inputs.budget * one))
    pool = float(np.asarray(use.pool).reshape(-1)[0])
    if pool <= 0:
        raise CannotModel("V007", "M001: no memory is left for a cache")
    far = math.exp(TENTH * inputs.engine.spread.pool)
    return {"cache_pool": pool, "cache_pool_low": pool / far, "cache_pool_high": pool * far}, filled


def _scenario(row: CsvRow, shelf: CachedReader, filled: dict[str, str]) -> dict[str, Any]:
    _, node, each = machine_of(row, shelf)
    tp, pp = next(needed(row, "tp")), row.number("pp") or 1.0
    longest = row.number("max_model_len") or (filled.setdefault("max_model_len", "4096") and 4096.0)
    half = float(max(int(longest) // 2, 1))
    return {
        "schema": "costmodel/scenario/v1",
        "title": "row",
        "model": model_of(row, shelf).name,
        "cluster": {"node": node, "nodes": float(math.ceil(tp * pp / each))},
        "workload": {
            "kind": "serving",
            "prompt": half,
            "output": half,
            "concurrency": 1.0,
            "context": longest,
            "precision": "bf16",
            **_weights(row),
            "cache": _type(row, "kv_bytes"),
        },
        "stack": engine_of(row, filled),
        "plan": {},
    }


def _weights(row: CsvRow) -> dict[str, str]:
    if row.text("weight_bytes_per_param").startswith("mx"):
        return {"expert_weights": "mxfp4"}
    return {"weights": _type(row, "weight_bytes_per_param")}


def _type(row: CsvRow, name: str) -> str:
    said = row.text(name).removesuffix(".0")
    if said not in _TYPES:
        raise CannotModel("V004", f"{name} {said}")
    return _TYPES[said]


def _configured(row: CsvRow, case: ServingCase, filled: dict[str, str]) -> Engine:
    """The engine with what the log states of it."""
    engine, stated = case.stack, {}
    for column in ("u", "max_num_batched_tokens", "max_num_seqs"):
        if row.number(column) is None:
            filled[column] = f"of {engine.name}"
    if share := row.number("u"):
        stated["share"] = share
    if total := row.number("total_gib"):
        stated["driver"] = max(case.accelerator.memory.usable - total * GIB, 0.0)
    picked = {"budget": row.number("max_num_batched_tokens"), "sequences": row.number("max_num_seqs")}
    memory = engine.memory.model_copy(update=stated)
    return engine.model_copy(update={"memory": memory} | {key: value for key, value in picked.items() if value})
