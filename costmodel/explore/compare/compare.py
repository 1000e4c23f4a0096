"""Two answers side by side: what changed in the inputs, and which figures moved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from costmodel.documents.keys.references import REFERENCES
from costmodel.documents.reader.foreign_prices import ForeignPrice
from costmodel.documents.reader.load_scenario import RESULTS
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.default_values import FlagQuestion
from costmodel.estimate.evaluate.answer_facts import Subject, facts_of
from costmodel.estimate.evaluate.predict import Answer
from costmodel.explore.compare.input_paths import InputValue, leaves
from costmodel.explore.compare.plan_figures import MEMORY, TRAFFIC, choices, figures
from costmodel.ground.errors import Place
from costmodel.ground.record import record
from costmodel.ground.units import counted

SAME = 1e-9  # figures nearer than this are equal; platforms differ by less


@record
class Side:
    """One of two things that are compared: its input values and its figures."""

    name: str
    values: Mapping[str, InputValue]
    figures: Mapping[str, float]
    documents: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    assumed: Mapping[str, str] = field(default_factory=dict)  # values that the user did not state
    facts: Subject | None = None  # what was computed
    parts: tuple[str, ...] = (MEMORY, TRAFFIC)  # of which figures are known, those that are not there being 0
    left_out: tuple[ForeignPrice, ...] = ()  # prices of another machine
    overload: tuple[str, ...] = ()  # why it cannot answer all that arrives
    asked: FlagQuestion = field(default_factory=FlagQuestion)  # flags that it is asked for with, and their defaults
    kind: str = "training"
    case: LoadedScenario | None = None  # whose own plan it is; None of a stored result, and of the plan of a rank


@record
class Input:
    """An input that differs between the sides, stated or assumed; None on a side that does not have it."""

    path: str
    before: str | None
    after: str | None
    place: Place | None = None


@record
class MovedFigure:
    """A figure that differs between the two sides."""

    name: str
    before: float | None
    after: float | None

    @property
    def change(self) -> float:
        """The relative change of the figure; infinite where there was none before."""
        if self.before is None or self.after is None or not self.before:
            return math.inf
        return self.after / self.before - 1


@record
class Difference:
    """All differences between the two sides."""

    before: Side
    after: Side
    inputs: tuple[Input, ...]
    figures: tuple[MovedFigure, ...]

    @property
    def same(self) -> bool:
        """Whether there are no differences."""
        return not (self.inputs or self.figures or self.before.refused != self.after.refused)


def compare(before: Side, after: Side) -> Difference:
    """The differences between two sides."""
    moves = moved(before.figures, after.figures)
    missing = [part for part in (MEMORY, TRAFFIC) if part not in before.parts or part not in after.parts]
    known = [move for move in moves if not any(move.name.startswith(part) for part in missing)]
    return Difference(before, after, tuple(_inputs(before, after)), tuple(known))


def moved(before: Mapping[str, float], after: Mapping[str, float]) -> list[MovedFigure]:
    """Figures that differ or that only one side has; a transfer takes no time on a side that does not send it."""
    none = {name: 0.0 if name.startswith(TRAFFIC) else None for name in (*after, *before)}
    pairs = [MovedFigure(name, before.get(name, least), after.get(name, least)) for name, least in none.items()]
    return [pair for pair in pairs if not _equal(pair.before, pair.after)]


def _equal(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is after
    return math.isclose(before, after, rel_tol=SAME, abs_tol=1e-15)


def _inputs(before: Side, after: Side) -> list[Input]:
    """Inputs that differ; for a document that was exchanged for another, only its name."""
    names = dict.fromkeys((*after.values, *before.values))
    found = []
    for path in names:
        old, new = before.values.get(path), after.values.get(path)
        if (old and old.value) == (new and new.value) and (old is None) == (new is None):
            continue
        found.append(Input(path, *_texts(path, before, after), new.place if new else None))
    exchanged = [f"{change.path}." for change in found if change.path in REFERENCES]
    kept = [change for change in found if not any(change.path.startswith(prefix) for prefix in exchanged)]
    return kept + _documents(before.documents, after.documents)


def _texts(path: str, before: Side, after: Side) -> tuple[str | None, str | None]:
    """An input as each side states it; where one does not, the value that it assumed, if that differs."""
    old, new = (side.values[path].text if path in side.values else None for side in (before, after))
    assumed, instead = before.assumed.get(path), after.assumed.get(path)
    if old is None:
        return (None if assumed == new else assumed), new
    if old == new and old is not None:  # a batch in tokens, of another number of sequences
        return counted(before.values[path].value), counted(after.values[path].value)
    return old, new if new is not None or instead == old else instead


def _documents(before: Mapping[str, str], after: Mapping[str, str]) -> list[Input]:
    """Files whose text has changed since a stored result was made."""
    both = [name for name in after if name in before and before[name] != after[name]]
    return [Input(name, before[name], after[name]) for name in both]


def is_stored(case: LoadedScenario) -> bool:
    """Whether a scenario comes from a stored result, as written with --json."""
    stored = next(iter(case.trees.values()), None)
    return isinstance(stored, dict) and str(stored.get("schema")).startswith(tuple(RESULTS))


def side(name: str, answer: Answer) -> Side:
    """Turns an answer into a side of a comparison."""
    written = leaves(answer.inputs.case)
    values = {path: value for path, value in written.items() if not path.startswith("plan.")}
    for key, value in choices(answer.evaluation.block).items():
        own = written.get(f"plan.{key}")
        values[f"plan.{key}"] = own if own and own.value == value else InputValue(value)
    held = {} if answer.refused else figures(answer)
    assumed = {item.path: item.value for item in answer.assumed}
    documents, facts = named_documents(answer.inputs.case), facts_of(answer.inputs.case)
    parts = () if answer.refused else (MEMORY, TRAFFIC)
    asked = answer.inputs.case.asked
    return Side(name, values, held, documents, answer.refused, assumed, facts, parts, asked=asked)


def named_documents(case: LoadedScenario) -> dict[str, str]:
    """Digests of the documents that a scenario names, without its own file, which is compared by value."""
    return dict(list(case.named_digests.items())[1:])
