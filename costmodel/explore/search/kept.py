"""A search that leaves its state in a folder: how far it came, what it found, and if asked for every legal plan.

The state is one file, replaced whole after a piece is counted; a part with the plans of a piece has the piece's number
as its name and is put there whole before it is counted. So whatever ends the program, going on from the state counts
every piece once, and a part that was not counted yet is written over.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import costmodel
from costmodel.errors import Place, fail
from costmodel.estimate.block import SIZES, Block, Structure
from costmodel.estimate.costs import OF_RUN, OF_STEP, Costs, machine_name
from costmodel.estimate.legality.masks import Mask
from costmodel.explore.search.pieces import Variants
from costmodel.explore.search.rank import Ranked
from costmodel.explore.search.tally import Keep, Tally, Wanted

SCHEMA = "costmodel/parts/v2"
MANIFEST = "_manifest.json"  # readers of Parquet folders pass over names that begin so
WRITE_EVERY = 1.0  # seconds between states, so that small pieces do not wait for the disk


@dataclass
class Kept:
    """The folder of a search."""

    folder: Path
    plans: bool
    asked: dict[str, str]
    done: int = 0  # pieces that are counted
    rows: int = 0
    of_run: bool = False  # whether its plans have the results of the whole run
    written: float = field(default=0.0, repr=False)

    def count(self, tally: Tally, rows: int) -> None:
        """Another piece is counted; the folder learns of it within a second or so."""
        self.done += 1
        self.rows += rows
        if time.monotonic() - self.written >= WRITE_EVERY:
            self.write(tally)

    def write(self, tally: Tally, *, complete: bool = False) -> None:
        """The state as it is now."""
        state = {
            "schema": SCHEMA,
            "costmodel": costmodel.__version__,
            "search": self.asked,
            "complete": complete,
            "pieces": self.done,
            "plans": self.rows if self.plans else None,
            "columns": columns(of_run=self.of_run) if self.plans else None,
            "tally": written_tally(tally),
        }
        with whole(self.folder / MANIFEST) as path:
            path.write_text(json.dumps(state))
        self.written = time.monotonic()


def columns(*, of_run: bool) -> list[dict[str, str]]:
    """What the columns of results in a part say."""
    return [
        {"name": machine_name(name), "unit": column.unit, "meaning": column.meaning}
        for name, column in (OF_RUN if of_run else OF_STEP).items()
    ]


def asked_of(variants: Variants, wanted: Wanted, *, plans: bool) -> dict[str, str]:
    """What a search is, a digest of each part: going on with another one's state would mix two answers."""
    case = variants.case
    parts = {
        "the program": costmodel.__version__,
        "--set": case.assignments,
        "the scenario": case.scenario,
        "a document": case.digests,
        "--over": [(axis.path, axis.values) for axis in variants.over],
        "--top": wanted.size,
        "--pareto": wanted.axes,
        "--keep": plans,
    }
    return {name: hashlib.sha256(repr(part).encode()).hexdigest()[:16] for name, part in parts.items()}


def opened(folder: Path, asked: dict[str, str], tally: Tally, *, plans: bool, resume: bool) -> Kept:
    """The folder made ready; the tally takes in what was counted before."""
    if plans:
        _arrow()
    manifest, place = folder / MANIFEST, Place(str(folder))
    with _faults(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not manifest.exists():
            if any(folder.glob("part-*")) and not resume:
                raise fail("C021", f"{folder} holds parts of a search", place, "take another folder, or add --resume")
            return Kept(folder, plans, asked)
        if not resume:
            raise fail("C021", f"{folder} holds a search", place, "take another folder, or add --resume")
        state = _state(manifest.read_text(errors="replace"))
    _same(state, asked, folder)
    read_tally(state["tally"], tally)
    return Kept(folder, plans, asked, state["pieces"], state["plans"] or 0)


def _same(state: Any, asked: dict[str, str], folder: Path) -> None:
    """A fault for the state of another search, with the first thing that differs."""
    was = state.get("search") if isinstance(state, dict) and state.get("schema") == SCHEMA else None
    if was == asked:
        return
    hint = "take another folder"
    if isinstance(was, dict):
        changed = next((name for name, part in asked.items() if was.get(name) != part), "something")
        hint += f"; {changed} has changed since"
    raise fail("C021", f"{folder} holds another search", Place(str(folder)), hint)


def _state(text: str) -> Any:
    """What a manifest holds; nothing where it is damaged."""
    try:
        return json.loads(text)
    except ValueError:
        return None


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file written beside its place and put there whole; where nothing is written, nothing lies there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with _faults(path):
            yield temporary
            if not temporary.exists():
                path.unlink(missing_ok=True)
                return
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise fail("C021", f"{path} cannot be used: {error.strerror or error}", Place(str(path))) from None


@contextmanager
def part(folder: Path, piece: int, values: dict[str, str]) -> Iterator[Keep]:
    """A Parquet file that takes every block of a piece; a piece without plans leaves none."""
    arrow, parquet = _arrow()
    path = folder / f"part-{piece:08d}.parquet"
    writers: list[Any] = []

    with whole(path) as temporary:

        def keep(block: Block, costs: Costs, counts: Mask) -> None:
            table = arrow.table({name: column[counts] for name, column in rows_of(block, costs, values).items()})
            if not writers:
                writers.append(parquet.ParquetWriter(temporary, table.schema, compression="zstd"))
            writers[0].write_table(table)

        try:
            yield keep
        finally:
            for writer in writers:
                writer.close()


def rows_of(block: Block, costs: Costs, values: dict[str, str]) -> dict[str, Any]:
    """Every row of a block with its columns: what it varies, what it is, what it costs."""
    said = {**values, **{name: str(value).lower() for name, value in asdict(block.structure).items()}}
    return {
        **{name: np.full(len(block), value) for name, value in said.items()},
        **{name: np.asarray(getattr(block, name)) for name in SIZES},
        **{machine_name(name): costs.column(name) for name in costs.columns},
    }


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        hint = "pip install 'llm-costmodel[parquet]'"
        raise fail("C021", "--keep all needs the package pyarrow", None, hint) from None
    return pyarrow, pyarrow.parquet


def written_tally(tally: Tally) -> dict[str, Any]:
    """A tally as JSON holds it; numbers come back as they were, bit for bit."""
    counts = {name: getattr(tally, name) for name in _COUNTS}
    return {
        **counts,
        "refused": dict(tally.refused),
        "thinned": tally.front is not None and tally.front.thinned,
        "rows": {name: [asdict(row) for row in best.rows] for name, best in _lists(tally)},
    }


def read_tally(state: dict[str, Any], tally: Tally) -> None:
    """The other way round, into a tally that is still empty."""
    for name in _COUNTS:
        setattr(tally, name, state[name])
    tally.refused = Counter(state["refused"])
    for name, best in _lists(tally):
        read = [{**row, "structure": _structure(row["structure"]), "remarked": ()} for row in state["rows"][name]]
        best.rows = [Ranked(**row) for row in read]
    if tally.front:
        tally.front.thinned = state["thinned"]


_COUNTS = ("candidates", "evaluated", "fit", "kept", "better_than_yours")


def _lists(tally: Tally) -> Iterator[tuple[str, Any]]:
    for name in ("top", "nearest", "closest", "front"):
        best = getattr(tally, name)
        if best is not None:
            yield name, best


def _structure(written: dict[str, Any]) -> Structure:
    """The choices as they were; JSON has no tuples."""
    choices: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in written.items()
    }
    return Structure(**choices)
