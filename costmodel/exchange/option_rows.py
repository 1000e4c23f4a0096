"""Options of foreign software as rows of a table: how to read and write them, and which have no cost.

A format is a table of rows; code is needed only for options that depend on each other.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from costmodel.exchange.import_result import LossKind
from costmodel.ground.errors import Fault, Place
from costmodel.ground.record import record

# --- options of a piece of software as rows, from which reading, writing and the list of known options follow


_LARGEST = 10**15
_ON, _OFF = ("true", "yes", "1"), ("false", "no", "0")

# What a text states of a job that is no key of a scenario by itself, with the key that follows from it.
FACTS = {
    "accelerators": "plan.dp",
    "nodes": "plan.dp",
    "shards": "plan.dp",
    "accumulation": "workload.global_batch",
    "steps": "workload.tokens",
    "layers_per_stage": "plan.vpp",
    "tp_size": "plan.tp",
    "data_parallel": "plan.dp_attention plan.replicas",
    "expert_parallel": "plan.ep",
    "stack.memory.share": "stack.memory",
    "stack.kernels.own_all_reduce": "stack.kernels",
    "stack.dispatch.two_batches": "stack.dispatch",
    "longest": "workload.response.limit",
    "longest_prompt": "workload.prompt",
    "mini_prompts": "workload.mini_batch",
    "mini_batches": "workload.mini_batch",
    "rank_mini_batch": "workload.mini_batch",
    "rank_answers": "workload.prompts",
    "trainer_ranks": "plan.dp",
    "rollout_ranks": "plan.rollout.ranks",
    "engines": "plan.rollout.ranks",
    "micro_batch_of_all": "plan.micro_batch",
}

NOTHING = ()  # a value that states no key
EVERY = ".*"  # behind a section: every key of it without a row
KindName = Literal["count", "whole", "figure", "flag", "word", "text", "share"]
When = Literal["always", "where it counts", "with experts", "never"]


def _unchanged(value: Any) -> Any:
    """The value as it is."""
    return value


@record
class ValueKind:
    """How to read and write the values of an option.

    wanted: a description of valid values. read: a function that gives the scenario's value, None for an invalid one.
    write: a function that gives the file's value, None if there is none. words: the named values with their meanings;
    the first of several is written. unknown: why an unknown but valid word cannot be read. samples: values of a
    scenario, for tests.
    """

    name: str
    wanted: str = field(compare=False)
    read: Callable[[Any], Any] = field(repr=False)
    write: Callable[[Any], Any] = field(default=_unchanged, repr=False)
    words: Mapping[str, Any] = field(default_factory=dict, compare=False)
    unknown: str = ""
    samples: tuple[Any, ...] = ()


def whole_number(value: Any) -> int | None:
    """A whole number, as a number or a text."""
    found = number_value(str(value).replace("_", "") if isinstance(value, str) else value)
    return int(found) if found is not None and found == int(found) else None


def _count_or_none(value: Any) -> int | None:
    """The value as a whole number from 0 on; None for any other value."""
    found = whole_number(value)
    return found if found is not None and found >= 0 else None


def number_value(value: Any) -> float | None:
    """A number, as a number or a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if abs(number) <= _LARGEST else None


def flag_value(value: Any) -> bool | None:
    """A boolean from one of its spellings; None for any other value."""
    if isinstance(value, bool):
        return value
    text = str(value).lower() if isinstance(value, str | int) else ""
    return True if text in _ON else False if text in _OFF else None


def _word_or_none(value: Any) -> str | None:
    """A text or number as text; None for any other value."""
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _share_or_none(value: Any) -> str | None:
    """A share such as 0.9 as a scenario states it, `90 %`; None for any other value."""
    return None if (found := number_value(value)) is None else f"{100 * found:.6g} %"


def _share_as_number(ours: str) -> str:
    """A share such as `90 %` as a file states it, 0.9."""
    return f"{float(ours.removesuffix(' %')) / 100:.6g}"


TEXT = ValueKind("text", "a text", _unchanged)
KINDS: dict[KindName, ValueKind] = {
    "count": ValueKind("count", "a whole number from 0", _count_or_none, round, samples=(1, 2, 8)),
    "whole": ValueKind("whole", "a whole number", whole_number, round, samples=(1, 2, 8)),
    "figure": ValueKind("figure", "a number", number_value, samples=(0.5, 2.0)),
    "flag": ValueKind("flag", "true or false", flag_value, bool, samples=(True, False)),
    "word": ValueKind("word", "a word", _word_or_none),
    "text": TEXT,
    "share": ValueKind("figure", "a number", _share_or_none, _share_as_number, samples=("90 %", "87.34 %")),
}


def choice(words: Mapping[str, Any], unknown: str = "", *, fold: bool = False) -> ValueKind:
    """A kind with named values and their meanings; `fold` ignores upper and lower case."""
    spelt = {name.lower(): name for name in words}

    def read(value: Any) -> Any:
        text = _word_or_none(value)
        text = spelt.get(str(text).lower(), text) if fold else text
        return words.get(text) if text is not None else None

    def write(ours: Any) -> str | None:
        return next((name for name, meant in words.items() if meant == ours), None)

    return ValueKind("word", "a word", read, write, words, unknown, tuple(dict.fromkeys(words.values())))


def one_of(*names: str) -> ValueKind:
    """A kind with named values that each mean themselves."""
    return choice({name: name for name in names})


def switch(on: Any, off: Any = NOTHING) -> ValueKind:
    """A flag kind, with the values for on and off."""

    def read(value: Any) -> Any:
        found = flag_value(value)
        return None if found is None else on if found else off

    def write(ours: Any) -> Any:
        return True if ours == on else False if ours == off else NOTHING if NOTHING in (on, off) else None

    return ValueKind("flag", "true or false", read, write, samples=(on, *(() if off == NOTHING else (off,))))


@record
class Row:
    """One option of a foreign format.

    key: the scenario key that it states, or several keys (separated by blanks) that it affects; empty if it has no
    cost. default: its value in the software if it is left out. loss: the loss if no key expresses it, unless the value
    is `harmless`. cannot: why a scenario's value cannot be written. old: the current name of an older option. gone:
    whether it was renamed before 2023, so that only the current name is read. when: the condition to write it. plain:
    whether it alone states its key. beside: another option, and the value (or a test of it) without which this option
    has no effect.
    """

    option: str
    key: str = ""
    kind: ValueKind = TEXT
    default: Any = None
    loss: tuple[LossKind, str] | None = None
    harmless: tuple[Any, ...] = (None, False)
    cannot: str = "is no value of this option"
    old: str = ""
    gone: bool = False
    when: When = "always"
    plain: bool = True
    beside: tuple[str, Any] | None = None

    @property
    def fills(self) -> str:
        """The costmodel keys that the option fills, separated by blanks."""
        return " ".join(FACTS.get(key, key) for key in self.key.split())

    @property
    def costs_nothing(self) -> bool:
        """Whether the option has no effect on the cost."""
        return not self.key and self.loss is None and not self.old and self.kind == TEXT

    @property
    def is_stated_alone(self) -> bool:
        """Whether the row alone reads and writes the option."""
        return self.plain and bool(self.key) and not self.old


def option(name: str, key: str = "", kind: ValueKind | KindName = "text", default: Any = None, **more: Any) -> Row:
    """A row for an option that states one key."""
    return Row(name, key, KINDS[kind] if isinstance(kind, str) else kind, default, **more)


def part(name: str, key: str, kind: ValueKind | KindName = "text", default: Any = None, **more: Any) -> Row:
    """A row for an option that states keys together with other options, which code reads and writes."""
    return option(name, key, kind, default, plain=False, **more)


def renamed_before_2023(today: Mapping[str, str]) -> list[Row]:
    """Rows for options that were renamed before 2023, with their current names."""
    return [Row(name, old=newer, gone=True) for name, newer in today.items()]


def renamed_option_hint(row: Row) -> tuple[str, str]:
    """A sentence about an option that was renamed before 2023, and a hint with its current name."""
    return f"{row.option} was renamed before 2023 and is not read", f"write {row.old} in its place"


def quiet(names: str, under: str = "") -> list[Row]:
    """Rows for options without cost; `under` is the prefix of their names."""
    return [Row(f"{under}{name}") for name in names.split()]


def lost(kind: LossKind, sentence: str, names: str, *harmless: Any) -> list[Row]:
    """Rows for options with a cost that no costmodel key expresses."""
    return [Row(name, loss=(kind, sentence), harmless=(None, False, *harmless)) for name in names.split()]


Table = Mapping[str, Row]


def option_table(*rows: Row | Iterable[Row]) -> dict[str, Row]:
    """The rows by option name; a row for an older name takes its key and values from the current one."""
    found = {row.option: row for entry in rows for row in ([entry] if isinstance(entry, Row) else entry)}
    for name, row in found.items():
        if row.old in found and not (row.key or row.gone):
            today = found[row.old]
            found[name] = replace(row, key=today.key, kind=today.kind if row.kind == TEXT else row.kind)
    return found


class Stating(Protocol):
    """A job to write, whose keys have values."""

    def value(self, key: str) -> Any:
        """The value of a key or fact; None if it is not stated."""

    def counts(self, key: str, when: When) -> bool:
        """Whether a row with a condition is written."""


def written(
    table: Table, job: Stating, refuse: Callable[[str, str], None], beside: Mapping[str, Any]
) -> dict[str, Any]:
    """The options of a job with their values, in table order; code gives those in `beside`."""
    assert beside.keys() <= table.keys(), f"written and not known: {', '.join(beside.keys() - table.keys())}"
    found: dict[str, Any] = {}
    for name, row in table.items():
        if name in beside:
            found[name] = beside[name]
        elif row.is_stated_alone and job.counts(row.key, row.when):
            ours = job.value(row.key)
            theirs = row.kind.write(ours) if ours is not None else None
            if theirs is not None:
                found |= {} if theirs == NOTHING else {name: theirs}
            elif ours is not None:
                refuse(row.key, f"{ours}{' ' if row.cannot.startswith('is ') else ': '}{row.cannot}")
    return found


def nested_sections(options: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with dotted names as nested sections.

    >>> nested_sections({"zero.stage": 3, "batch": 8, "zero.overlap": True})
    {'zero': {'stage': 3, 'overlap': True}, 'batch': 8}
    """
    tree: dict[str, Any] = {}
    for name, value in options.items():
        *above, last = name.split(".")
        here = tree
        for section in above:
            here = here.setdefault(section, {})
        here[last] = value
    return tree


# --- what a format does not state of a scenario, found while it is written


_WIDTH = 80  # of a line of a comment


@dataclass
class Remarks:
    """Faults and notes about a scenario, collected while a file is written.

    faults: keys that affect the cost and that the format cannot express. notes: what the reader of the file has to add
    or check.
    """

    file: str
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def refuse(self, key: str, sentence: str, hint: str = "") -> None:
        """Records a key of the scenario that the format cannot express."""
        fault = Fault("X009", f"{key}: {sentence}", Place(self.file, path=key), hint)
        if fault not in self.faults:
            self.faults.append(fault)

    def note(self, sentence: str) -> None:
        """Records a note on something that the reader of the file has to add or check."""
        if sentence not in self.notes:
            self.notes.append(sentence)


def comment_lines(mark: str, words: str) -> list[str]:
    """A comment wrapped to the width of a terminal; longer words are not split.

    >>> comment_lines("#", "the plan " * 10)[1]
    '#   plan the plan'
    """
    return textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=f"{mark} ",
        subsequent_indent=f"{mark}   ",
        break_long_words=False,
        break_on_hyphens=False,
    )
