"""Writes every valid plan of a search as Parquet: one file per piece, named by its search."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.documents.schemas.results import ResultColumn, machine_name
from costmodel.explore.search.lock import atomic_write, check_regular, usable
from costmodel.explore.search.space import Keep, Row
from costmodel.ground.errors import Place, fail, install_command
from costmodel.ground.record import record

_NAME = re.compile(r"part-([0-9a-f]+)-(\d{8,})\.parquet")


@record
class Parts:
    """The Parquet files of one search in a folder."""

    folder: Path
    search: str  # digest of it

    def path(self, piece: int) -> Path:
        """The path of a piece's plans."""
        return self.folder / f"part-{self.search}-{piece:08d}.parquet"

    def files(self) -> dict[int, Path]:
        """The existing files, by piece."""
        found = {int(match[2]): path for path, match in _named(self.folder) if match and match[1] == self.search}
        return dict(sorted(found.items()))

    def drop_from(self, piece: int) -> None:
        """Remove the files of this piece and later ones, which are not counted."""
        for number, path in self.files().items():
            if number >= piece:
                path.unlink(missing_ok=True)

    def rows(self) -> int:
        """The number of plans in them; a fault where one is unreadable."""
        return sum(map(_rows, self.files().values()))

    @contextmanager
    def writing(self, piece: int, stated: Mapping[str, int | float | str]) -> Iterator[Keep]:
        """Writes every plan of a piece, each row with the values of `stated`; a piece without plans leaves no file."""
        arrow, parquet = arrow_of("--keep all")
        writers: list[Any] = []
        with atomic_write(self.path(piece)) as temporary:

            def keep(rows: int, row: Row) -> None:
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
    return any(match is None or match[1] != search for _, match in _named(folder))


def leftovers(folder: Path) -> Iterator[Path]:
    """Incomplete files of earlier searches; while the folder is locked, no other search works in it."""
    yield from folder.glob(".part-*")
    yield from folder.glob("._manifest.json.*")


def _named(folder: Path) -> list[tuple[Path, re.Match[str] | None]]:
    return [(path, _NAME.fullmatch(path.name)) for path in folder.glob("part-*")]


def _rows(path: Path) -> int:
    _, parquet = arrow_of("--keep all")
    with usable(path):
        check_regular(path)
        try:
            return int(parquet.read_metadata(path).num_rows)
        except ValueError:  # of pyarrow, for a file that is no Parquet
            raise fail("C021", f"{path} is damaged", Place(str(path)), "take another folder") from None


def columns(results: Mapping[str, ResultColumn]) -> list[dict[str, str]]:
    """The meaning of the columns of results."""
    return [
        {"name": machine_name(name), "unit": column.unit, "meaning": column.meaning} for name, column in results.items()
    ]


def _table(arrow: Any, rows: int, row: Row) -> Any:
    """Plans as a table; a value that all plans share is repeated in each row."""
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
    """The module that writes Parquet."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        hint = install_command("pyarrow>=17")
        raise fail("C021", f"{what} needs the package pyarrow", None, hint) from None
    return pyarrow, pyarrow.parquet
