"""A scenario of reinforcement learning as one of two that are compared."""

from __future__ import annotations

import math

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.rl.predict_rl import RlAnswer, predict
from costmodel.explore.compare.compare import Side, named_documents
from costmodel.explore.compare.input_paths import leaves
from costmodel.explore.rl.search_splits import planned, search, with_plan_of
from costmodel.ground.counts import number_of
from costmodel.ground.errors import Place, fail


def ranked(case: RlCase, rank: int | None) -> RlAnswer:
    """The answer for the plan at a rank, counted from 1; rank 0 is the scenario's own, None its own or best."""
    if not rank:
        return predict(planned(case) if rank is None else case)
    found = search(case, rank)
    if len(found.best) < rank:
        sentence = f"the search finds {number_of(len(found.best), 'plan')}, so none of rank {rank}"
        raise fail("C004", sentence, Place(case.file))
    return found.answer_of(found.best[rank - 1])


def side(name: str, case: RlCase, answer: RlAnswer) -> Side:
    """An RL answer as a side of a comparison: every input value, and every result."""
    costs = {} if answer.refused else answer.costs
    figures = {machine_name(name): value for name, value in costs.items() if math.isfinite(value)}
    assumed = {item.path: item.value for item in answer.assumed}
    left_out = case.foreign_prices if case.stated_price is None else ()
    documents, facts = named_documents(case), subject_of(case)
    return Side(name, leaves(with_plan_of(case, answer)), figures, documents, answer.refused, assumed, facts,
                left_out=left_out, asked=case.asked, kind="rl")  # fmt: skip
