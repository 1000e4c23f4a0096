"""The keys of a nested foreign text: their values with origins, checked by the table of the format's options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from typing import Any

from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.text.yaml_tree import Mapping as PlacedMapping
from costmodel.exchange.import_result import VERDICTS, Loss, LossKind, Origin, OriginValue, StatedKey, Verdict
from costmodel.exchange.option_rows import EVERY, Row, Table, flag_value, renamed_option_hint
from costmodel.exchange.values import as_text, printable, unknown_names
from costmodel.ground.errors import Fault, Place
from costmodel.ground.record import record

UNKNOWN_STATES = "its memory per parameter is not known here"
OPTIMIZER_HINT = "--set workload.optimizer=adamw, or another of costmodel list optimizers"

_WORDS = re.compile(r"[-_.]")  # between the words of a key
_SLIP = 0.85  # likeness of a name that is meant to be another
_LETTERS, _LETTER_OFF = 2, 0.95  # letters by which a slip may differ, and likeness with one or two letters off


class ForeignKeys:
    """Reads and checks the values of one text; a fault is recorded, and a harmless default replaces the value."""

    def __init__(
        self, tree: Mapping[Any, Any], table: Table, file: str, version: str, *, open_numbers: bool = True
    ) -> None:
        self.tree, self.table, self.file, self.version, self._open_numbers = tree, table, file, version, open_numbers
        self.faults: list[Fault] = []
        self.unless: list[tuple[str, Fault]] = []  # faults that a value of the key takes away
        self.warnings: list[Fault] = []
        self.losses: list[Loss] = []
        self.stated: dict[str, tuple[Any, Place]] = {}
        self._unknown: list[tuple[str, Place]] = []
        self._asked: set[str] = set()  # keys whose value was looked at
        self._renewed: set[str] = set()  # keys that an older name states
        self._lost: dict[str, Verdict] = {}
        self._gather(tree, "")
        self._renew()
        self._values: dict[str, OriginValue] = {}
        self._report()

    def __getitem__(self, name: str) -> OriginValue:
        """The value of a key; None if it is left out without a default, or is "auto"."""
        self._asked.add(name)
        if name not in self._values:
            self._values[name] = self._read(name)
        return self._values[name]

    def given(self, name: str) -> bool:
        """Whether the text states a key, with a value."""
        return name in self.stated and self.stated[name][0] is not None and not self.is_open(name)

    def is_open(self, name: str) -> bool:
        """Whether the value of a key is "auto", so that the program or another file chooses it."""
        value = self.stated.get(name, (None,))[0]
        opened = isinstance(value, str) and value.lower() == "auto"
        return opened and (self._open_numbers or self.table[name].kind.name not in ("count", "whole", "figure"))

    def under(self, section: str) -> bool:
        """Whether the text states anything in a section."""
        return any(name.startswith(f"{section}.") for name in self.stated)

    def derived(self, value: Any, text: str, name: str = "") -> OriginValue:
        """A value computed from the value of a key."""
        return OriginValue(value, Origin("derived", text, self.stated[name][1] if name in self.stated else None))

    def assumed(self, value: Any, text: str) -> OriginValue:
        """An assumed value, which the text does not state."""
        return OriginValue(value, Origin("assumed", text))

    def refuse(self, code: str, sentence: str, name: str = "", hint: str = "") -> None:
        """Records a fault at the place of a key."""
        place = self.stated[name][1] if name in self.stated else Place(self.file)
        fault = Fault(code, printable(sentence), place, hint)
        if fault not in self.faults:
            self.faults.append(fault)

    def no_optimizer(self, written: object, name: str) -> None:
        """Records a fault for an optimizer without a document; an optimizer given beside the file removes it."""
        place = self.stated[name][1] if name in self.stated else Place(self.file)
        sentence = printable(f"{name} {str(written)[:80]}: {UNKNOWN_STATES}")
        self.unless.append(("workload.optimizer", Fault("X003", sentence, place, OPTIMIZER_HINT)))

    def lose(self, kind: LossKind, sentence: str, name: str = "") -> None:
        """Records a loss: something that a scenario cannot express."""
        self._lost[name] = VERDICTS[kind]
        loss = Loss(kind, printable(sentence), self.stated[name][1] if name in self.stated else None)
        if loss not in self.losses:
            self.losses.append(loss)

    def without_effect(self, name: str, reason: str) -> None:
        """Records a warning for a key that the software ignores because of other keys."""
        if self.given(name):
            self._lost[name] = "no effect"
            self.warnings.append(Fault("X006", f"{name} has no effect", self.stated[name][1], reason))

    def unknown(self, name: str, under: str) -> None:
        """Records an unknown key inside the value of another key."""
        self._unknown.append((f"{under}.{name}", self.stated[under][1]))

    def note_read(self) -> None:
        """Marks all stated keys as read; for code that reads keys without the table."""
        self._asked |= {name for name in self.stated if self.table[name].fills}

    def verdicts(self) -> list[StatedKey]:
        """The verdict for every key that the text states: read, no effect, not expressible and so on."""
        found = [
            StatedKey(name, self._verdict(name), place)
            for name, (_, place) in self.stated.items()
            if name not in self._renewed
        ]
        return found + [StatedKey(printable(name), "not expressible", place) for name, place in self._unknown]

    def _verdict(self, name: str) -> Verdict:
        """What became of a stated key: read, lost, without effect."""
        row, value = self.table[name], self.stated[name][0]
        if name in self._lost:
            return self._lost[name]
        if row.loss is not None:
            if not _is_off(value, row.harmless) and not self.is_open(name):
                return VERDICTS[row.loss[0]]
            return "read" if row.fills else "no effect"
        if row.old in self.stated and not row.gone:
            return self._verdict(row.old)
        return "read" if name in self._asked else "no effect"

    def _gather(self, tree: Mapping[Any, Any], above: str) -> None:
        """Collects values by dotted path; the items of a list count as one section if the table has keys for them."""
        for key, value in tree.items():
            name = f"{above}.{key}" if above else str(key)
            place = getattr(key, "place", None) or Place(self.file)
            if isinstance(value, PlacedMapping | dict) and (name not in self.table or f"{name}{EVERY}" in self.table):
                self._gather(value, name)
            elif isinstance(value, list) and name not in self.table and self._is_section(name):
                for item in (item for item in value if isinstance(item, PlacedMapping | dict)):
                    self._gather(item, name)
            elif (row := self._row_of(name)) is not None:
                self.table = self.table if name in self.table else {**self.table, name: replace(row, option=name)}
                self.stated[name] = (value, place)
            else:
                self._unknown.append((name, place))

    def _is_section(self, name: str) -> bool:
        return any(option.startswith(f"{name}.") for option in self.table)

    def _row_of(self, name: str) -> Row | None:
        """The table row of a key, or of the nearest section around it that has one row for all its keys.

        In such a section a name within two letters of a known key is taken for a misspelling, and has no row.
        """
        if name in self.table:
            return self.table[name]
        parts = name.split(".")
        above = (f"{'.'.join(parts[:depth])}{EVERY}" for depth in range(len(parts) - 1, 0, -1))
        found = next((self.table[section] for section in above if section in self.table), None)
        read = (other for other, row in self.table.items() if row.fills and abs(len(other) - len(name)) <= _LETTERS)
        return None if found is None or get_close_matches(name, read, 1, _LETTER_OFF) else found

    def _renew(self) -> None:
        """Moves the values of renamed keys to their current names."""
        for name, (value, place) in list(self.stated.items()):
            today = self.table[name].old
            if today not in self.table or value is None or self.table[name].gone:
                continue
            if today not in self.stated:
                self._renewed.add(today)
            newer = self.stated.setdefault(today, (value, place))[0]
            if newer != value:
                self.refuse("X004", f"{name} is {as_text(value)[:80]} and {today} {as_text(newer)[:80]}", name)

    def _report(self) -> None:
        """Records the losses of single keys, and the keys of another version."""
        for name, (value, place) in self.stated.items():
            rule = self.table[name]
            if rule.loss is not None and not _is_off(value, rule.harmless) and not self.is_open(name):
                self.losses.append(Loss(rule.loss[0], f"{name}: {rule.loss[1]}", place))
            elif not rule.fills and rule.loss is None:
                self.losses.append(Loss("ignored", name, place))
            if rule.gone:
                sentence, hint = renamed_option_hint(rule)
                self.refuse("X005", sentence, name, hint)
            elif rule.old:
                self.warnings.append(Fault("X006", f"{name} is an older name", place, f"today {rule.old} states it"))

    def unknown_keys(self) -> list[Fault]:
        """One warning that lists all keys that the format does not have."""
        return unknown_names("keys that are not known", self._unknown, lambda name: likely_key(name, self.table))

    def _read(self, name: str) -> OriginValue:
        """The value of a key with its origin: as stated, or the default of the software's version."""
        rule = self.table[name]
        value, place = self.stated.get(name, (None, None))
        if value is None or self.is_open(name):
            default = None if self.is_open(name) or rule.default is None else rule.kind.read(rule.default)
            return OriginValue(default, Origin("default", f"{name}: default of {self.version}"))
        found = rule.kind.read(value)
        if found is None:
            self._refuse_value(rule, value)
            known = rule.default is not None and rule.key != "workload.optimizer"  # which one given beside replaces
            found = rule.kind.read(rule.default) if known else None
        return OriginValue(found, Origin("file", name, place))

    def _refuse_value(self, rule: Row, value: Any) -> None:
        """Records a fault for a value that the option does not accept or that no scenario can express."""
        name, kind = rule.option, rule.kind
        if rule.key == "workload.optimizer" and kind.words:
            self.no_optimizer(value, name)
        elif kind.unknown:
            self.refuse("X003", f"{name} {str(value)[:80]}: {kind.unknown}", name)
        elif kind.words and isinstance(value, str | int | float) and not isinstance(value, bool):
            self.refuse("X005", f"{name} {as_text(str(value))[:80]} is none of {', '.join(kind.words)}", name)
        else:
            self.refuse("X005", f"{name} is {as_text(value)[:80]}, not {kind.wanted}", name)


def _is_off(value: Any, harmless: tuple[Any, ...]) -> bool:
    """Whether a value has no effect, such as a section that is not enabled."""
    if isinstance(value, PlacedMapping):
        return not value or flag_value(value.get("enabled")) is False
    return _plain(value) in harmless


def _plain(value: Any) -> Any:
    found = flag_value(value)
    return value if found is None or (isinstance(value, int | float) and not isinstance(value, bool)) else found


def likely_key(name: str, table: Iterable[str]) -> str:
    """The key that a misspelled name probably means: a similar key, or one whose words begin with the same words.

    >>> likely_key("gpu-mem-util", ["gpu-memory-utilization", "max-num-seqs"]), likely_key("top", ["top-p", "tp-size"])
    ('gpu-memory-utilization', '')
    >>> [likely_key(name, ["fsdp.seed", "fsdp.offload", "rollout.n"]) for name in ("fsdp.foo", "fsdp.offlod", "fsdp.n")]
    ['', 'fsdp.offload', 'rollout.n']
    """
    known, words = sorted(table), _WORDS.split(name)
    section, _, own = name.rpartition(".")
    inside = {key.rpartition(".")[2]: key for key in known if section and key.startswith(f"{section}.")}
    if inside:  # keys of one section look alike by its name alone
        elsewhere = [key for key in known if key.endswith(f".{own}")]
        close = nearest(own, inside, cutoff=_SLIP)
        return inside[close] if close else elsewhere[0] if len(elsewhere) == 1 else ""
    whole = [key for key in known if len(_WORDS.split(key)) == len(words) > 1]
    longer = [key for key in whole if all(map(str.startswith, _WORDS.split(key), words))]
    return longer[0] if len(longer) == 1 else nearest(name, known, cutoff=_SLIP)


# A format: its rows, and the keys of a scenario that it does not state, with the reasons.


def because(reason: str, keys: str, under: str = "plan") -> dict[str, str]:
    """A mapping from each of several keys (separated by blanks) to the same reason; under: a prefix of the keys.

    >>> because("it has no pipeline", "pp vpp")
    {'plan.pp': 'it has no pipeline', 'plan.vpp': 'it has no pipeline'}
    """
    return dict.fromkeys((f"{under}.{key}" for key in keys.split()), reason)


_SUFFIXES = {"YAML": ".yaml", "TrainingArguments": ".yaml", "JSON": ".json", "recipe": ".py", "overrides": ".txt"}


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
    def suffix(self) -> str:
        """The end of the name of a file of this format."""
        return _SUFFIXES.get(self.kind, ".sh")

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
