"""Writes fitted constants of serving engines into documents of the working folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.folders import is_checkout, is_shipped
from costmodel.documents.text.yaml_editor import document_text, place_of, rewritten
from costmodel.evidence.calibrate.engine_constants import LeafPath, shipped_entry, written
from costmodel.evidence.calibrate.engine_fit import EngineFit
from costmodel.evidence.calibrate.priors import own_source
from costmodel.exchange.tables.kernel_table import stem
from costmodel.ground.errors import Place, fail


def engine_texts(found: EngineFit) -> dict[Path, str]:
    """The documents with what the benchmarks identify; comments and order stay."""
    where = ", ".join(f"{stem(table.file)} {table.digest}" for table in found.tables) + f", {found.runs} runs"
    source, shelf = own_source(where), CachedReader()
    fitted: dict[LeafPath, str] = {}
    for each in found.constants if not found.why else ():
        if each.identified:
            fitted |= dict.fromkeys(each.constant.leaves, written(each.constant, each.value))
    entries: dict[tuple[str, str], dict[tuple[str, ...], dict[str, Any]]] = {}
    for leaf in fitted:
        mine = {other.key: value for other, value in fitted.items() if replace(other, key=leaf.key) == leaf}
        note = f"{' and '.join(mine)} fitted on own benchmarks; all else is of {shipped_entry(leaf, shelf).source}"
        entries.setdefault((leaf.kind, leaf.document), {})[leaf.path] = {
            **mine,
            "source": source,
            "check": None,
            "note": note,
        }
    cited = {"title": "Fit of costmodel calibrate on measured benchmarks", "where": where}
    return {
        _own_place(kind, name): rewritten(document_text(kind, name), {**parts, ("sources", source): cited})
        for (kind, name), parts in entries.items()
    }


def _own_place(kind: str, name: str) -> Path:
    """The place of a written document; shipped ones are the priors of your benchmarks, and stay."""
    path = place_of(kind, name)
    if is_shipped(path) or is_checkout(Path()):
        raise fail("C002", f"{path} is a shipped file", Place(str(path)), "run calibrate in your own folder")
    return path
