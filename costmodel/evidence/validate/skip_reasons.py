"""Reasons why a row of a table of measured runs cannot be modelled."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.estimate.shared.reasons import REFUSALS, Reason
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.ground.record import record

REASONS = {
    "V001": Reason("accelerator unknown", "Documents lack the accelerator, a node that holds it, or what it reaches."),
    "V002": Reason("experts", "The model has experts, and the training software's document does not describe them."),
    "V004": Reason("precision without a fit", "Accelerator or stack lack it, or no matmuls of it were fitted."),
    "V005": Reason("nothing measured", "The row has no measured cell of the quantity asked for."),
    "V006": Reason(
        "shape incomplete", "A cell that no rule fills is empty: of the model, the batch or the layout. The rules:"
    ),
    "V007": Reason("plan invalid", "The layout breaks a constraint; the row names its code, L001 and following."),
    "V009": Reason("feature unknown", "The run recomputes, offloads or tunes in a way that is not modelled."),
    "V011": Reason("model unknown", "No document has the shape that the row's model stands for."),
    "V012": Reason("layout unclear", "The degrees of the row and its number of accelerators contradict each other."),
    "V013": Reason("engine unknown", "No stack describes the serving engine of the row."),
    "V014": Reason("impossible", "The row is faster than the memory bandwidth of its accelerators allows."),
    "V015": Reason("contradiction", "Requests in flight, rate and latency of the row contradict Little's law."),
    "V010": Reason("cell unreadable", "A cell is not what its column holds, or the row is not as long as the header."),
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
