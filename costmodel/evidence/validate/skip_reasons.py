"""Reasons why a row of a table of measured runs cannot be modelled."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.estimate.rl.rl_reason_codes import REFUSALS  # of all workloads
from costmodel.estimate.shared.reasons import Reason
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.ground.record import record

REASONS = {
    "V001": Reason(
        "accelerator unknown",
        "No document describes the accelerator or a node that holds it, or the documents lack a figure that is needed.",
    ),
    "V002": Reason(
        "experts not described",
        "The model has experts, but the training software's document does not describe how it runs them.",
    ),
    "V004": Reason(
        "precision without a fit",
        "The accelerator or the stack does not support the precision, or no matmuls of it were fitted.",
    ),
    "V005": Reason("nothing measured", "The row has no measured cell for the requested quantity."),
    "V006": Reason(
        "shape incomplete", "A cell of the model, the batch or the layout is empty, and no rule fills it. The rules:"
    ),
    "V007": Reason("plan invalid", "The layout breaks a constraint; the row names its code (L001 and following)."),
    "V009": Reason("feature unknown", "The run uses a kind of recompute, offload or tuning that is not modelled."),
    "V011": Reason("model unknown", "No document has the shape of the row's model."),
    "V012": Reason("layout unclear", "The degrees in the row contradict its number of accelerators."),
    "V013": Reason("engine unknown", "No stack describes the serving engine of the row."),
    "V014": Reason(
        "faster than the bandwidth", "The row is faster than the memory bandwidth of its accelerators allows."
    ),
    "V015": Reason(
        "contradicts Little's law", "The row's requests in flight, rate and latency contradict Little's law."
    ),
    "V010": Reason(
        "cell unreadable",
        "A cell does not have the type of its column, or the row has more or fewer cells than the header.",
    ),
}


class CannotModel(Exception):
    """A row that cannot be modelled: the code of the reason, and the detail."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code, self.why = code, why


@record
class SkippedRow:
    """A skipped run: the code of the reason, and the detail."""

    run: str
    refused: str
    why: str


def invalid(code: str) -> CannotModel:
    """A layout that breaks a constraint."""
    return CannotModel("V007", f"{code}: {REFUSALS[code].title}")


def needed(row: CsvRow, *names: str) -> Iterator[float]:
    """Required cells that no rule imputes."""
    empty = [name for name in names if row.number(name) is None]
    if empty:
        raise CannotModel("V006", f"{', '.join(empty)} empty")
    yield from (row.number(name) or 0.0 for name in names)
