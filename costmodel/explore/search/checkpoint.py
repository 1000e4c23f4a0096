"""Checkpoint of a search in a folder: its progress, its best plans and, on request, every valid plan.

The state is one file, which is replaced atomically after a piece is counted. The Parquet file of a piece is complete
before the piece is counted. So a resumed search counts every piece once, however the program ended. A Parquet file of
an uncounted piece is written again. Only one search at a time works in a folder.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import costmodel
from costmodel.documents.schemas.results import ResultColumn
from costmodel.explore.search.lock import atomic_write, check_regular, locked, usable
from costmodel.explore.search.parquet_parts import Parts, arrow_of, columns, foreign, leftovers
from costmodel.explore.search.rank import Front, Plan
from costmodel.explore.search.space import Piece, Space
from costmodel.explore.search.tally import Tally
from costmodel.explore.search.variants import Inputs, Variants
from costmodel.ground.errors import Fault, Place, fail

SCHEMA = "costmodel/parts/v5"
MANIFEST = "_manifest.json"  # readers of Parquet folders pass over names that begin so
WRITE_EVERY = 1.0  # seconds between states, so that small pieces do not wait for the disk


@dataclass
class SearchFolder:
    """The folder of a search."""

    folder: Path
    plans: bool
    asked: dict[str, str]
    done: int = 0  # pieces that are counted
    rows: int = 0
    columns: Mapping[str, ResultColumn] = field(default_factory=dict)  # the results of its plans
    written: float = field(default=0.0, repr=False)

    @property
    def parts(self) -> Parts | None:
        """The folder with the evaluated plans, if they are stored."""
        return Parts(self.folder.absolute(), digest_of(self.asked)) if self.plans else None

    def count(self, tally: Tally[Plan], rows: int) -> None:
        """Count another piece; the file is updated within about a second."""
        self.done += 1
        self.rows += rows
        if time.monotonic() - self.written >= WRITE_EVERY:
            self.write(tally)

    def write(self, tally: Tally[Plan], *, complete: bool = False) -> None:
        """Write the current state."""
        state = {
            "schema": SCHEMA,
            "costmodel": costmodel.__version__,
            "search": self.asked,
            "complete": complete,
            "pieces": self.done,
            "plans": self.rows if self.plans else None,
            "columns": columns(self.columns) if self.plans else None,
            "tally": written_tally(tally),
        }
        with atomic_write(self.folder / MANIFEST) as path:
            path.write_text(_sealed(state))
        self.written = time.monotonic()

    def close(self, tally: Tally[Plan], *, complete: bool) -> None:
        """Write the last state, and remove files of pieces that it does not count."""
        self.write(tally, complete=complete)
        if self.parts:
            with usable(self.folder):
                self.parts.drop_from(self.done)


def asked_of(space: Space[Inputs, Plan, Piece], variants: Variants[Inputs], *, plans: bool) -> dict[str, str]:
    """The identity of a search, a digest per part; a state of another search must not be resumed."""
    case = variants.inputs.case
    parts = {
        "the program": (costmodel.__version__, space.grain),
        "--set": case.assignments,
        "the scenario": case.scenario,
        "a document": case.named_digests,
        "--over": [(axis.path, axis.values) for axis in variants.over],
        "--top": space.size,
        "--safe": space.safe,
        "--pareto": space.axes,
        "--keep": plans,
    }
    return {name: hashlib.sha256(repr(part).encode()).hexdigest()[:16] for name, part in parts.items()}


def digest_of(asked: dict[str, str]) -> str:
    """The identity of a search, in twelve letters."""
    return hashlib.sha256(repr(sorted(asked.items())).encode()).hexdigest()[:12]


@contextmanager
def held(
    folder: Path,
    asked: dict[str, str],
    space: Space[Inputs, Plan, Piece],
    tally: Tally[Plan],
    *,
    plans: bool,
    resume: bool,
) -> Iterator[SearchFolder]:
    """Locks the folder for this search, and loads its stored results into the accumulator."""
    if plans:
        arrow_of("--keep all")
    with usable(folder):
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            yield _opened(folder, asked, space, tally, plans=plans, resume=resume)
    finally:
        if made:
            with suppress(OSError):  # it holds something, as it should
                folder.rmdir()


def _opened(
    folder: Path,
    asked: dict[str, str],
    space: Space[Inputs, Plan, Piece],
    tally: Tally[Plan],
    *,
    plans: bool,
    resume: bool,
) -> SearchFolder:
    """The stored state of a search, or None."""
    place, search = Place(str(folder)), digest_of(asked)
    with usable(folder):
        for path in leftovers(folder):
            path.unlink(missing_ok=True)
        manifest = folder / MANIFEST
        check_regular(manifest)
        text = manifest.read_text(errors="replace") if manifest.exists() else None
        parts, others = any(folder.glob("part-*")), foreign(folder, search)
    if not resume and (text is not None or parts):
        held = "a search" if text is not None else "parts of a search"
        raise fail("C021", f"{folder} holds {held}", place, "take another folder, or add --resume")
    state = {} if text is None else _same(_state(text), asked, folder)
    if others:
        raise fail("C021", f"{folder} holds parts of another search", place, "take another folder")
    kept = SearchFolder(folder, plans, asked)
    if state:
        read_tally(state["tally"], tally, space)
        kept.done, kept.rows = state["pieces"], state["plans"] or 0
    _check_parts(kept)
    return kept


def _check_parts(kept: SearchFolder) -> None:
    """Remove files of uncounted pieces; a fault where a counted one is missing or changed."""
    if kept.parts is None:
        return
    with usable(kept.folder):
        kept.parts.drop_from(kept.done)
    there = kept.parts.rows()
    if there != kept.rows:
        sentence = f"{kept.folder} holds {there:,} plans, and its state counts {kept.rows:,}"
        raise fail("C021", sentence, Place(str(kept.folder)), "take another folder")


def _same(state: Any, asked: dict[str, str], folder: Path) -> dict[str, Any]:
    """The stored state if it belongs to this search; else a fault with the first difference."""
    place, hint = Place(str(folder)), "take another folder"
    if not isinstance(state, dict):
        raise fail("C021", f"the state in {folder} is damaged, or was changed", place, hint)
    was, version = state.get("search"), state.get("costmodel")
    if state.get("schema") != SCHEMA or version != costmodel.__version__:
        sentence = f"{folder} holds a search of costmodel {version}, and this is {costmodel.__version__}"
        raise fail("C021", sentence, place, hint)
    if was != asked:
        was = was if isinstance(was, dict) else {}
        changed = next((name for name, part in asked.items() if was.get(name) != part), "something")
        raise fail("C021", f"{folder} holds another search: {changed} has changed since", place, hint)
    return state


def _sealed(state: dict[str, Any]) -> str:
    """A state with the digest of its text."""
    text = json.dumps(state)
    return f'{{"digest": "{_digest(text)}", {text[1:]}'


def _state(text: str) -> Any:
    """The state in a manifest.

    None where its digest does not match. States of other versions are returned unchanged.
    """
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(state, dict) or str(state.get("schema", SCHEMA)) != SCHEMA:
        return state
    return state if state.pop("digest", None) == _digest(json.dumps(state)) else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def written_tally(tally: Tally[Plan]) -> dict[str, Any]:
    """A tally as JSON; numbers are restored bit for bit."""
    return {
        "work": tally.work,
        "better_than_yours": tally.better_than_yours,
        "thinned": [name for name, best in tally.lists() if isinstance(best, Front) and best.thinned],
        "rows": {name: [asdict(row) for row in best.rows] for name, best in tally.lists()},
        "parts": [
            {**asdict(replace(part, refused=Counter())), "refused": dict(part.refused)} for part in tally.parts.values()
        ],
    }


def read_tally(state: dict[str, Any], tally: Tally[Plan], space: Space[Inputs, Plan, Piece]) -> None:
    """Restore a tally from JSON."""
    tally.work, tally.better_than_yours = state["work"], state["better_than_yours"]
    for name, best in tally.lists():
        best.rows = [space.read(row) for row in state["rows"][name]]
        if isinstance(best, Front):
            best.thinned = name in state["thinned"]
    for written in state["parts"]:
        part = tally.part(written["number"])
        for each in fields(part):
            setattr(part, each.name, _read_field(each.name, written[each.name], space))


def _read_field(name: str, written: Any, space: Space[Inputs, Plan, Piece]) -> Any:
    """A field of the counts of a scenario."""
    if written is None:
        return None
    if name == "examples":
        return {code: space.read(row) for code, row in written.items()}
    if name in ("best", "surest"):
        return space.read(written)
    if name == "fault":
        place = None if written["place"] is None else Place(**written["place"])
        return Fault(**{**written, "place": place})
    return Counter(written) if name == "refused" else written
