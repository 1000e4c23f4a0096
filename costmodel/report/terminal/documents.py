"""Lists of documents, keys and formats in a terminal, and documents as they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costmodel.ground.units import percent
from costmodel.report.data_formats.json_csv_markdown import json_text
from costmodel.report.terminal.layout import DIM, HEAD, MORE, CellTable, Detail, Line, schema_head, styled, unwrapped

if TYPE_CHECKING:
    from costmodel.documents.keys.key_list import ScenarioKey
    from costmodel.documents.schemas.hardware import HeldAgainst
    from costmodel.estimate.machine.price import NodePrice
    from costmodel.explore.import_export.format_options import LaunchFormat


_RUNS = "median: of |predicted / measured - 1| over published runs, most of them fitted"
Listed = dict[str, list[tuple[str, str]]]  # names and titles by kind
Text = tuple[str, str, str]  # kind, file, text
_LISTED = "list prices by the hour, of each accelerator; --price sets another, and of none one with the same is assumed"
Prices = Mapping[str, "NodePrice | None"]
Held = Mapping[str, "HeldAgainst"]  # by accelerator, the runs that predictions for it were compared with


def document_list_lines(
    found: Listed, held: Held | None = None, prices: Prices | None = None, groups: Listed | None = None
) -> list[Line]:
    """Names and titles, kind by kind; for accelerators the runs they were compared with, for nodes their prices.

    groups: of a list of everything, the documents of each group; a screen has only their number
    """
    if groups:
        rows = [(name, f"{len(each):,}", ", ".join(one for one, _ in each[:3])) for name, each in groups.items()]
        more: list[Line] = [
            styled(
                "  also: keys, formats, releases, efficiencies, priors, reliability, practices, grids, measured", DIM
            ),
            Detail([styled(""), *document_list_lines(found)], "every name", spare=1),
            MORE,
            styled(""),
            unwrapped("Next: costmodel list models"),
        ]
        return [CellTable(("group", "documents", "such as"), rows, "krl"), *more]
    lines: list[Line] = []
    for kind, entries in found.items():
        lines.append(styled(kind, HEAD))
        if entries and held is not None:
            lines.append(_evidence_table(entries, held))
        elif entries and prices is not None:
            lines.append(_price_table(entries, prices))
        else:
            lines.append(CellTable(("name", "title"), entries, "ll", headed=False) if entries else styled("  none"))
    if held is not None:
        lines += [styled(_RUNS, DIM)]
    if prices is not None:
        lines += [styled(_LISTED, DIM)]
    return lines


def _price_table(entries: Sequence[tuple[str, str]], prices: Prices) -> CellTable:
    """A table of nodes with their list prices."""
    rows = []
    for name, title in entries:
        price = prices[name]
        figures = ("none", "") if price is None else (f"{price.hourly:.2f}", price.date)
        rows.append((name, *figures, title))
    return CellTable(("name", "USD/GPU/h", "date", "title"), rows, "lrll", drop=("title",))


def _evidence_table(entries: Sequence[tuple[str, str]], held: Held) -> CellTable:
    """A table of accelerators with the published runs they were compared with."""
    rows = []
    for name, title in entries:
        runs = held.get(name)
        figures = (f"{runs.runs:g}", percent(runs.median, 2), runs.date) if runs else ("none", "", "")
        rows.append((name, *figures, title))
    return CellTable(("name", "runs", "median", "date", "title"), rows, "lrrll", drop=("title",))


def document_list_json(found: Listed, held: Held | None = None, prices: Prices | None = None) -> dict[str, Any]:
    """The list of documents as plain values."""

    def runs(name: str) -> dict[str, Any]:
        """The published runs of an accelerator as plain values."""
        if held is None:
            return {}
        return {"held_against": held[name].model_dump(mode="json") if name in held else None}

    def rent(name: str) -> dict[str, Any]:
        """The list price of a node as plain values."""
        if prices is None:
            return {}
        price = prices[name]
        return {"price_usd_per_gpu_h": price and price.hourly, "price_date": price and price.date}

    return {
        **schema_head("costmodel/list/v1"),
        "documents": [
            {"kind": kind, "name": name, "title": title, **runs(name), **rent(name)}
            for kind, entries in found.items()
            for name, title in entries
        ],
    }


def key_lines(found: Sequence[ScenarioKey]) -> list[Line]:
    """Keys with the values they take and what they mean."""
    from costmodel.documents.keys.workload_keys import WORKLOADS  # it imports the schemas of all workloads

    def of(key: ScenarioKey) -> str:
        """The type of a key in words, with its default."""
        return f"of {WORKLOADS[key.of]}: " if key.of else ""

    rows = [(key.path, key.values, key.default, f"{of(key)}{key.meaning}") for key in found]
    return [CellTable(("key", "values", "default", "meaning"), rows, "kllk", drop=("default",))]


def keys_json(found: Sequence[ScenarioKey]) -> dict[str, Any]:
    """The keys as plain values."""
    return {**schema_head("costmodel/keys/v1"), "keys": [key._asdict() for key in found]}


def document_text_lines(texts: Sequence[Text]) -> list[Line]:
    """Documents as they are written."""
    return [unwrapped(line) for _, _, text in texts for line in text.splitlines()]


def documents_json(texts: Sequence[Text]) -> dict[str, Any]:
    """The documents as plain values."""
    return {
        **schema_head("costmodel/document/v1"),
        "documents": [{"kind": kind, "file": file, "text": text} for kind, file, text in texts],
    }


def schema_lines(shown: dict[str, Any]) -> list[Line]:
    """A JSON Schema as lines."""
    return [unwrapped(line) for line in json_text(shown).splitlines()]


def format_lines(found: Sequence[LaunchFormat]) -> list[Line]:
    """All formats, or the options of a single one."""
    if len(found) == 1:
        return _option_lines(found[0])
    rows = [(entry.name, entry.title, "yes" if entry.written else "") for entry in found]
    whole = CellTable(("name", "format", "exported"), rows, "kll")
    names = {
        words: ", ".join(entry.name for entry in found if entry.written == written)
        for words, written in (("exported too", True), ("imported only", False))
    }
    few = CellTable(("", "formats"), [*names.items()], "kl")
    return [
        Detail([whole], "each format", spare=1, instead=[few]),
        MORE,
        unwrapped(""),
        unwrapped("Next: costmodel list formats torchtitan"),
    ]


def _option_lines(entry: LaunchFormat) -> list[Line]:
    """Options with the keys they fill or what is lost, then keys that no option states."""
    counted = [option for option in entry.options if option.fills or option.lost]
    without = len(entry.options) - len(counted)
    rows = [(option.option, ", ".join(option.fills.split()) or option.lost) for option in counted]
    lines: list[Line] = [styled(entry.title, HEAD), CellTable(("option", "key, or what is lost"), rows, "kl")]
    if entry.not_stated:
        not_stated = list(entry.not_stated.items())
        lines += [unwrapped(""), CellTable(("key that it does not state", "because"), not_stated, "kl")]
    return [*lines, unwrapped(""), unwrapped(f"{without} more options cost nothing")]


def formats_json(found: Sequence[LaunchFormat]) -> dict[str, Any]:
    """The formats as plain values."""
    return {
        **schema_head("costmodel/formats/v1"),
        "formats": [
            {
                **entry._asdict(),
                "options": [option._asdict() for option in entry.options],
                "not_stated": dict(entry.not_stated),
            }
            for entry in found
        ],
    }
