"""Rows of tables and runs of documents that serve, as figures that validate reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import cast, get_args

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.predict_serving import predict
from costmodel.evidence.validate.compared_figures import Compared, Validated, Where, chosen_rows, groups_of_row
from costmodel.evidence.validate.modelled_rows import RowCount
from costmodel.evidence.validate.outcomes import Quantity, ServingQuantity
from costmodel.evidence.validate.serving.benchmarks import PART
from costmodel.evidence.validate.serving.serving_rows import RULES
from costmodel.evidence.validate.serving.validate_serving import COLUMN, Answer, serving_answers
from costmodel.evidence.validate.skip_reasons import CannotModel, invalid
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.serving_table import LOGGED, ServingTable
from costmodel.ground.errors import Place, fail

FIRST = "first token"  # the only term of the time to it
Ends = tuple[float, float | None, float | None]


def compared_serving(
    table: ServingTable, quantity: Quantity | None, where: Where, shelf: CachedReader, count: RowCount
) -> Validated:
    """Compares the rows of a serving table with predictions, all evaluated together."""
    asked = serving_quantity(table, quantity)
    rows = chosen_rows(table, where, shelf)
    answers = zip(rows, serving_answers(rows, asked, shelf, count), strict=True)
    return Validated(table, [_compared(row, COLUMN[asked], answer, shelf) for row, answer in answers], RULES)


def _compared(row: CsvRow, name: str, answer: Answer, shelf: CachedReader) -> Compared:
    """Compares the measured figure of one row with the predicted one."""
    value, predicted, filled, refused = answer
    ours, low, high = (predicted.get(each) for each in (name, f"{name}_low", f"{name}_high"))
    groups = groups_of_row(row, refused.code if refused else "modelled", shelf)
    groups["stack"] = groups["framework"]
    parts = {each.removeprefix(PART): share for each, share in predicted.items() if each.startswith(PART)}
    parts = {FIRST: 1.0} if name == "ttft" else parts if name == "tpot" else {}
    found = Compared(
        row.id, name, value, ours, low=low, high=high, filled=filled, groups=groups, subject=row, parts=parts
    )
    return replace(found, refused=refused.code, why=refused.why) if refused else found


def serving_quantity(table: ServingTable, quantity: Quantity | None) -> ServingQuantity:
    """The quantity to compare: as asked, else time per token, or the cache for start-up logs."""
    logs = LOGGED in table.columns
    asked = quantity or ("cache" if logs else "tpot")
    if asked not in get_args(ServingQuantity):
        hint = f"one of {', '.join(get_args(ServingQuantity))}"
        raise fail("C005", f"{table.file} is about serving, and has no {asked}", Place("command line"), hint)
    if logs != (asked == "cache"):
        what = "start-up logs, which have cache alone" if logs else "runs; cache is of start-up logs, with log_kv_gib"
        raise fail("C005", f"{table.file} holds {what}", Place("command line"), "leave --quantity out")
    return cast(ServingQuantity, asked)


def predicted_figures(case: LoadedScenario, names: Iterable[str]) -> dict[str, Ends] | CannotModel:
    """Results of the plan of a scenario with their P10 and P90, where they have a band; or why there are none."""
    found = predict(serving(case))
    if found.refused:
        return invalid(found.refused[0])
    if "M001" in found.broken:
        return CannotModel("V007", "M001: no memory is left for a cache")
    costs = found.costs
    return {name: (costs[name], costs.get(f"{name}_low"), costs.get(f"{name}_high")) for name in names}
