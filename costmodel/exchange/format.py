"""A format: its rows, and the keys of a scenario that it does not state, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from costmodel.exchange.rows import Table
from costmodel.ground.record import record


def because(reason: str, keys: str, under: str = "plan") -> dict[str, str]:
    """A mapping from each of several keys (separated by blanks) to the same reason.

    >>> because("it has no pipeline", "pp vpp")
    {'plan.pp': 'it has no pipeline', 'plan.vpp': 'it has no pipeline'}
    """
    return dict.fromkeys((f"{under}.{key}" for key in keys.split()), reason)


@record
class Format:
    """A format with its table.

    name: as on the command line. version: the software version of the options. elsewhere: keys that another file or
    program of the same job states, with its name. fixed: keys that have only one value in this format. cannot: keys
    without an option, with the reason; a plan in which such a key has an effect is a fault. kind: the kind of file
    written. comment: the start of a comment line; empty if the format has none. mark: the start of an option.
    """

    name: str
    title: str
    version: str
    table: Table
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    cannot: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    comment: str = "#"
    mark: str = ""

    @property
    def filled(self) -> set[str]:
        """Keys that options of the format state, alone or together."""
        return {path for row in self.table.values() for path in row.fills.split()}

    @property
    def not_stated(self) -> dict[str, str]:
        """Keys that no option states, each with the reason."""
        filled = self.filled
        named = {**self.elsewhere, **self.fixed, **self.cannot}
        return {key: reason for key, reason in named.items() if key not in filled}

    def expresses(self, key: str) -> bool:
        """Whether the format states a key, in this file or in another file of the same job."""
        inside = any(path == key or path.startswith(f"{key}.") for path in self.filled)
        return key not in self.cannot and (inside or key in self.elsewhere or key in self.fixed)

    @property
    def full_name(self) -> str:
        """The kind of file that is written, and the software version."""
        return f"{self.kind} for {self.version}"
