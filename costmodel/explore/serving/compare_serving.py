"""A serving scenario as one side of a comparison."""

from __future__ import annotations

from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.answer_facts import subject_of
from costmodel.estimate.serving.plan_columns import RARE, SIZES
from costmodel.estimate.serving.predict_serving import own_plan, predict
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.compare.compare import Side, document_digests
from costmodel.explore.compare.input_paths import InputValue, input_values
from costmodel.explore.serving.best_layout import plan_settings
from costmodel.explore.serving.search_layouts import TOO_LARGE, search
from costmodel.ground.counts import number_of
from costmodel.ground.errors import Place, fail


def ranked(case: ServingCase, rank: int) -> ServingCase:
    """The case with the plan at a rank of its search, counted from 1; rank 0 is the scenario's own plan."""
    if rank == 0:
        own_plan(inputs_of(case))
        return case
    found = search(inputs_of(case), rank, bands=False)
    if len(found.best) < rank:
        sentence = f"the search finds {number_of(len(found.best), 'plan')} that fit, so none of rank {rank}"
        raise fail("C004", sentence, Place(case.file))
    settings = plan_settings(found, found.best[rank - 1])
    return serving(vary_any(case, [f"{path}={value}" for path, value in settings.items()])) if settings else case


def side(name: str, case: ServingCase) -> Side:
    """A serving scenario as one side of a comparison: every input value, and every result if its plan fits."""
    answer = predict(case)
    layout = answer.evaluation.layout
    sizes = [f"plan.{size}" for size in SIZES if size not in ("budget", *RARE)]
    values = {path: value for path, value in input_values(case).items() if path not in sizes}
    if answer.plan.prefill is None:
        values |= {path: InputValue(float(getattr(layout, path.removeprefix("plan."))[0])) for path in sizes}
    values["stack.budget"] = InputValue(float(layout.budget[0]))
    refused = answer.refused or tuple(code for code in answer.broken if code in TOO_LARGE)
    known = {} if refused else {machine_name(name): value for name, value in answer.costs.items() if value == value}
    assumed = {item.path: item.value for item in answer.assumed}
    left_out = case.foreign_prices if case.stated_price is None else ()
    return Side(
        name,
        values,
        known,
        document_digests(case),
        refused,
        assumed,
        subject_of(case),
        left_out=left_out,
        asked=case.asked,
        overload=answer.overload,
        kind="serving",
    )
