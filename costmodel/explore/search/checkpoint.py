"""Stores the state of a search in a folder, to resume it, and its plans as Parquet files."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import costmodel
from costmodel.documents.schemas.results import ResultColumn, machine_name
from costmodel.explore.search.file_lock import atomic_write, check_regular, locked, usable
from costmodel.explore.search.rank import Front, Plan, Tally
from costmodel.explore.search.scenario_variants import Inputs, Variants
from costmodel.explore.search.space_interface import Keep, Piece, Row, Space
from costmodel.ground.errors import Fault, Place, fail, install_command
from costmodel.ground.record import record

_NAME = re.compile(r"part-([0-9a-f]+)-(\d{8,})\.parquet")


@record
class Parts:
    """The Parquet files of one search in a folder, one for each piece."""

    folder: Path
    search: str  # digest of it

    def path(self, piece: int) -> Path:
        """The path of a piece's plans."""
        return self.folder / f"part-{self.search}-{piece:08d}.parquet"

    def files(self) -> dict[int, Path]:
        """The existing files, by piece."""
        found = {int(match[2]): path for path, match in _part_files(self.folder) if match and match[1] == self.search}
        return dict(sorted(found.items()))

    def drop_from(self, piece: int) -> None:
        """Removes the files of this piece and later ones."""
        for number, path in self.files().items():
            if number >= piece:
                path.unlink(missing_ok=True)

    def rows(self) -> int:
        """The number of plans in them; a fault where one is unreadable."""
        return sum(map(_row_count, self.files().values()))

    @contextmanager
    def writing(self, piece: int, stated: Mapping[str, int | float | str]) -> Iterator[Keep]:
        """Yields a function that writes plans of a piece, each row with the values of `stated`."""
        arrow, parquet = arrow_of("--keep all")
        writers: list[Any] = []
        with atomic_write(self.path(piece)) as temporary:

            def keep(rows: int, row: Row) -> None:
                """Appends plans to the piece's file."""
                table = _table(arrow, rows, {**stated, **row})
                if not writers:
                    writers.append(parquet.ParquetWriter(temporary, table.schema, compression="zstd"))
                writers[0].write_table(table)

            try:
                yield keep
            finally:
                for writer in writers:
                    writer.close()


def foreign(folder: Path, search: str) -> bool:
    """Whether a folder holds files of another search."""
    return any(match is None or match[1] != search for _, match in _part_files(folder))


def leftovers(folder: Path) -> Iterator[Path]:
    """Incomplete files of earlier searches in a locked folder."""
    yield from folder.glob(".part-*")
    yield from folder.glob("._manifest.json.*")


def _part_files(folder: Path) -> list[tuple[Path, re.Match[str] | None]]:
    return [(path, _NAME.fullmatch(path.name)) for path in folder.glob("part-*")]


def _row_count(path: Path) -> int:
    """The number of plans in a Parquet file; a fault if it is unreadable."""
    _, parquet = arrow_of("--keep all")
    with usable(path):
        check_regular(path)
        try:
            return int(parquet.read_metadata(path).num_rows)
        except ValueError:  # of pyarrow, for a file that is no Parquet
            raise fail("C021", f"{path} is damaged", Place(str(path)), "take another folder") from None


def columns(results: Mapping[str, ResultColumn]) -> list[dict[str, str]]:
    """The unit and meaning of result columns, for the Parquet files."""
    return [
        {"name": machine_name(name), "unit": column.unit, "meaning": column.meaning} for name, column in results.items()
    ]


def _table(arrow: Any, rows: int, row: Row) -> Any:
    """Plans as an Arrow table; a value that all plans share is repeated."""
    return arrow.table(
        {
            name: value if isinstance(value, np.ndarray) else arrow.repeat(_scalar(arrow, name, value), rows)
            for name, value in row.items()
        }
    )


def _scalar(arrow: Any, name: str, value: Any) -> Any:
    """A value that all rows share, in the type of its column."""
    if name.endswith("_layers"):
        return arrow.scalar(None if value is None else float(value), arrow.float64())
    if isinstance(value, bool | int | float):
        return arrow.scalar(value)
    text = f"[{', '.join(value)}]" if isinstance(value, tuple) else value
    return arrow.scalar(text, arrow.string())


def arrow_of(what: str) -> tuple[Any, Any]:
    """The modules that write Parquet; a fault if they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        hint = install_command("pyarrow>=17")
        raise fail("C021", f"{what} needs the package pyarrow", None, hint) from None
    return pyarrow, pyarrow.parquet


SCHEMA = "costmodel/parts/v5"
MANIFEST = "_manifest.json"  # readers of Parquet folders pass over names that begin so
WRITE_EVERY = 1.0  # seconds between states, so that small pieces do not wait for the disk


@dataclass
class SearchFolder:
    """The folder of a search with its stored state."""

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
        """Adds a piece; the file is updated within about a second."""
        self.done += 1
        self.rows += rows
        if time.monotonic() - self.written >= WRITE_EVERY:
            self.write(tally)

    def write(self, tally: Tally[Plan], *, complete: bool = False) -> None:
        """Writes the current state."""
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
            path.write_text(_with_digest(state))
        self.written = time.monotonic()

    def close(self, tally: Tally[Plan], *, complete: bool) -> None:
        """Writes the last state, and removes files of pieces that it does not count."""
        self.write(tally, complete=complete)
        if self.parts:
            with usable(self.folder):
                self.parts.drop_from(self.done)


def asked_of(space: Space[Inputs, Plan, Piece], variants: Variants[Inputs], *, plans: bool) -> dict[str, str]:
    """The identity of a search as digests by part, so that a state of another search is not resumed."""
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
    """The identity of a search in twelve letters."""
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
    """Locks the folder for this search, and loads its stored results into `tally`."""
    if plans:
        arrow_of("--keep all")
    with usable(folder):
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            yield _open_folder(folder, asked, space, tally, plans=plans, resume=resume)
    finally:
        if made:
            with suppress(OSError):  # it holds something, as it should
                folder.rmdir()


def _open_folder(
    folder: Path,
    asked: dict[str, str],
    space: Space[Inputs, Plan, Piece],
    tally: Tally[Plan],
    *,
    plans: bool,
    resume: bool,
) -> SearchFolder:
    """The folder of this search with its stored pieces; raises a fault if it holds another search."""
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
    state = {} if text is None else _check_same_search(_state(text), asked, folder)
    if others:
        raise fail("C021", f"{folder} has parts of another search", place, "take another folder")
    kept = SearchFolder(folder, plans, asked)
    if state:
        read_tally(state["tally"], tally, space)
        kept.done, kept.rows = state["pieces"], state["plans"] or 0
    _check_parts(kept)
    return kept


def _check_parts(kept: SearchFolder) -> None:
    """Removes files of uncounted pieces; raises a fault if a counted one is missing or changed."""
    if kept.parts is None:
        return
    with usable(kept.folder):
        kept.parts.drop_from(kept.done)
    there = kept.parts.rows()
    if there != kept.rows:
        sentence = f"{kept.folder} holds {there:,} plans, and its state counts {kept.rows:,}"
        raise fail("C021", sentence, Place(str(kept.folder)), "take another folder")


def _check_same_search(state: Any, asked: dict[str, str], folder: Path) -> dict[str, Any]:
    """The stored state; raises a fault with the first difference if it is of another search."""
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


def _with_digest(state: dict[str, Any]) -> str:
    """A state as text with its digest."""
    text = json.dumps(state)
    return f'{{"digest": "{_short_digest(text)}", {text[1:]}'


def _state(text: str) -> Any:
    """The state in a manifest of any version; None if its digest does not match."""
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(state, dict) or str(state.get("schema", SCHEMA)) != SCHEMA:
        return state
    return state if state.pop("digest", None) == _short_digest(json.dumps(state)) else None


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def written_tally(tally: Tally[Plan]) -> dict[str, Any]:
    """A tally as JSON values, which restore numbers bit for bit."""
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
    """Restores a tally from JSON values."""
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
