"""A scenario of reinforcement learning as one of two that are compared."""

from __future__ import annotations

import math

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.estimate.rl.predict_rl import predict
from costmodel.estimate.rl.rl_columns import machine_name
from costmodel.explore.compare.compare import Side, named_documents
from costmodel.explore.compare.input_paths import leaves


def side(name: str, case: RlCase) -> Side:
    """Every value it rests on, and every result."""
    answer = predict(case)
    known = {} if answer.refused else {machine_name(key): value for key, value in answer.costs.items()}
    figures = {
        key: value for key, value in known.items() if math.isfinite(value) and not key.endswith(("_low", "_high"))
    }
    assumed = {item.path: item.value for item in answer.assumed}
    return Side(name, leaves(case), figures, named_documents(case), answer.refused, assumed)
