"""Defaults of recipes and launch scripts, for runs whose table does not state the setting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.hub_names import squeezed
from costmodel.documents.schemas.release import ReleaseLaunch, Releases

_RELEASE = r" v?(\d\d\.\d\d(?:\.\d\d)?)"


Setting = Literal["features", "recompute", "plan"]


def launch_says(
    column: Setting,
    software: str,
    model: str,
    accelerator: str,
    precision: str,
    shelf: CachedReader,
    table: str = "",
) -> str:
    """The value of that column in the first matching launch; empty where none matches. `table` is the run's source."""
    asked = (column, software, model, accelerator, precision, table)
    if asked not in shelf.launched:
        matching = (
            launch.value
            for launch, release in _launches(column, software, table, shelf)
            if squeezed(model).startswith(squeezed(launch.model))
            and (not launch.accelerators or accelerator in launch.accelerators)
            and _between(launch, release)
            and launch.precision in (None, precision)
        )
        shelf.launched[asked] = next(matching, "")
    return shelf.launched[asked]


def planned(written: str, ranks: float | None) -> Iterator[tuple[str, float]]:
    """Cells of a plan and their numbers; those for each GPU need the number of GPUs."""
    for cell in filter(None, written.split(";")):
        name, _, value = cell.partition("=")
        number, _, each = value.partition("/")
        if each and ranks is None:
            continue
        yield name, float(number) * (ranks or 1.0) if each else float(number)


def _launches(column: str, software: str, table: str, shelf: CachedReader) -> Iterator[tuple[ReleaseLaunch, str]]:
    """The launches of that software, each with the release named after it, if any."""
    for name in sorted(shelf.names("release")):
        document: Releases = shelf.document("release", name)
        for launched in document.launches:
            named = re.search(f"{re.escape(launched.software)}(?:{_RELEASE})?", software)
            if named and launched.table in table:
                yield from ((launch, named[1] or "") for launch in getattr(launched, column))


def _between(launch: ReleaseLaunch, release: str) -> bool:
    """Whether a release is in the range of a launch, including patches of the last."""
    first, last = launch.first or "", launch.last
    return first <= release and (last is None or release[: len(last)] <= last)
