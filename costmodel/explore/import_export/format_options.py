"""Lists the formats of other tools: which option fills which key of costmodel, and which keys a format lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from costmodel.exchange.detect import RL_FORMATS
from costmodel.exchange.foreign_keys import Format
from costmodel.exchange.megatron.scenario import FORMAT as MEGATRON
from costmodel.exchange.serving.exported_command import ENGINES
from costmodel.exchange.training.formats import LAYERED

FORMATS: dict[str, Format] = {
    entry.name: entry for entry in (MEGATRON, *LAYERED.values(), *ENGINES.values(), *RL_FORMATS.values())
}


class FormatOption(NamedTuple):
    """An option of another tool, the costmodel keys that it fills, and what is lost if it has no key."""

    option: str
    fills: str
    lost: str


class LaunchFormat(NamedTuple):
    """A format by a short name, with its options, keys it does not state, and whether export writes it."""

    name: str
    title: str
    options: tuple[FormatOption, ...]
    not_stated: Mapping[str, str]
    written: bool


def launch_formats(prefix: str = "") -> list[LaunchFormat]:
    """The formats whose short name starts with `prefix`."""
    return [entry for entry in _all_formats() if entry.name.startswith(prefix.lower())]


def _all_formats() -> Iterator[LaunchFormat]:
    for entry in FORMATS.values():
        yield LaunchFormat(entry.name, entry.title, tuple(_format_options(entry)), entry.not_stated, bool(entry.kind))


def _format_options(entry: Format) -> Iterator[FormatOption]:
    for row in sorted(entry.table.values(), key=lambda row: not row.fills):
        lost = f"{row.loss[0]}: {row.loss[1]}" if row.loss is not None else ""
        yield FormatOption(f"{entry.mark}{row.option}", row.fills, lost)
