"""The options of one text under the table: values by name, each with its origin, and every fault on the way."""

from __future__ import annotations

import re
from typing import Any

from costmodel.exchange.imported import VERDICTS, Loss, LossKind, Origin, OriginValue, StatedKey, Verdict
from costmodel.exchange.megatron.options import READ, TABLE, VERSION
from costmodel.exchange.megatron.stated import Stated, Statement
from costmodel.exchange.rows import Row, whole
from costmodel.exchange.shell import Doubt
from costmodel.exchange.values.foreign_values import printable, shown
from costmodel.ground.errors import Fault, Place

_ITEMS = re.compile(r"[^\s,'\"\[\]()]+")


class MegatronFlags:
    """Reads and checks the option values of one text.

    A fault is recorded and a harmless value replaces the faulty one, so that all faults of a text are found at once.
    """

    def __init__(self, statement: Statement, file: str) -> None:
        self.statement, self.file = statement, file
        self.faults: list[Fault] = []
        self.missing: list[Fault] = []
        self.warnings: list[Fault] = []
        self.losses: list[Loss] = list(statement.losses)
        self.stated: dict[str, Stated] = {}
        for option in statement.options:
            self._state(option)
        self._values: dict[str, OriginValue] = {}
        self._unsound: set[str] = set()
        self._asked: set[str] = set()  # options whose value was looked at
        self._lost: dict[str, Verdict] = {}

    def _state(self, option: Stated) -> None:
        """Records an option; of several occurrences the last one counts, and a different earlier value is a loss."""
        before = self.stated.get(option.name)
        self.stated[option.name] = option
        if before is None or option.name not in READ:
            return
        if [word.text for word in before.words] != [word.text for word in option.words]:
            sentence = f"--{option.name} of line {before.place.line}: that of line {option.place.line} counts"
            self.losses.append(Loss("ignored", sentence, before.place))

    def __getitem__(self, name: str) -> OriginValue:
        """The value of an option; None where it is left out and has no default."""
        self._asked.add(name)
        if name not in self._values:
            self._values[name] = self._read(name, READ[name])
        return self._values[name]

    def given(self, name: str) -> bool:
        """Whether the text states an option."""
        return name in self.stated

    def on(self, name: str) -> bool:
        """Whether a flag is given."""
        return bool(self[name].value)

    def sound(self, *names: str) -> bool:
        """Whether these options are stated without a fault, so that rules that combine them can be checked."""
        for name in names:
            self[name]  # reading it finds its faults
        return self._unsound.isdisjoint(names)

    def number(self, name: str, otherwise: int = 0) -> int:
        """The count of an option."""
        value = self[name].value
        return otherwise if value is None else int(value)

    def first(self, *names: str) -> OriginValue:
        """The first of several options that has a value."""
        return next((self[name] for name in names if self[name].value is not None), self[names[0]])

    def derived(self, value: Any, text: str, *names: str) -> OriginValue:
        """A value computed from options, with the place of the first that the text states."""
        places = (self[name].place for name in names)
        return OriginValue(value, Origin("derived", text, next((place for place in places if place is not None), None)))

    def fixed(self, value: Any, text: str) -> OriginValue:
        """A value that the code of Megatron-LM fixes."""
        return OriginValue(value, Origin("class", f"{text}, {VERSION}"))

    def refuse(self, code: str, sentence: str, place: Place | None = None, hint: str = "") -> None:
        """Records a fault, at the place of the text if no other place is given."""
        fault = Fault(code, sentence, place or Place(self.file), hint)
        if fault not in self.faults:
            self.faults.append(fault)

    def need(self, sentence: str, hint: str, place: Place | None = None) -> None:
        """Records a missing value that the user can give in another way."""
        self.missing.append(Fault("X002", sentence, place or Place(self.file), hint))

    def need_option(self, names: tuple[str, ...]) -> None:
        """Records a fault for a required option that is missing or 0."""
        if not self.sound(*names):
            return
        place = self.first(*names).place
        sentence = f"--{names[0]} is 0" if place else f"--{names[0]} is needed and not given"
        self.refuse("X002", sentence, place, "write it into the text")

    def lose(self, kind: LossKind, sentence: str, name: str = "", parameters: float = 0.0) -> None:
        """Records an option that a scenario cannot express."""
        place = self.stated[name].place if name in self.stated else None
        self._lost[name] = VERDICTS[kind]
        loss = Loss(kind, sentence, place, parameters)
        if loss not in self.losses:
            self.losses.append(loss)

    def verdicts(self) -> list[StatedKey]:
        """The verdict for every option that the text states."""
        return [
            StatedKey(printable(f"--{name}"), self._verdict(name), stated.place) for name, stated in self.stated.items()
        ]

    def _verdict(self, name: str) -> Verdict:
        if name not in TABLE:
            return "not expressible"
        return self._lost.get(name, "read" if name in self._asked else "no effect")

    # --- reading one option

    def _read(self, name: str, option: Row) -> OriginValue:
        stated = self.stated.get(name)
        if stated is None:
            default = False if option.kind.name == "flag" else option.default
            default = option.kind.read(default) if option.kind.name == "word" and default else default
            return OriginValue(default, Origin("default", f"--{name}: default of {VERSION}"))
        if option.old:
            sentence = f"--{name} is of an older Megatron-LM"
            self.warnings.append(Fault("X006", sentence, stated.place, f"today {option.old} states it"))
        doubt = stated.doubt or next((word.doubt for word in stated.words if word.doubt), None)
        if doubt is not None:
            self._doubtful(name, stated, doubt)
            return OriginValue(_harmless(option), Origin("file", f"--{name}", stated.place))
        faults = len(self.faults)
        value = self._checked(name, option, stated)
        if len(self.faults) > faults:
            self._unsound.add(name)
        return OriginValue(value, Origin("file", f"--{name}", stated.place))

    def _doubtful(self, name: str, stated: Stated, doubt: Doubt) -> None:
        self._unsound.add(name)
        if doubt.kind in ("unset", "argument"):
            self.refuse("X002", f"--{name} is {doubt.sentence}", stated.place, "write its value into the text")
            return
        hint = "write its value into the text, or give the arguments that the program prints at the head of its log"
        self.refuse("X008", f"--{name} hangs on {doubt.sentence}: nothing is run here", stated.place, hint)

    def _checked(self, name: str, option: Row, stated: Stated) -> Any:
        texts = [word.text for word in stated.words]
        kind = option.kind
        if kind.name == "flag":
            if texts:
                self.refuse("X005", f"--{name} takes no value, and {shown(texts[0])} stands behind it", stated.place)
            return True
        if not texts:
            self.refuse("X005", f"no value stands behind --{name}", stated.place)
            return _harmless(option)
        if kind.name in ("words", "ramp", "window"):
            items = _ITEMS.findall(" ".join(texts))
            return self._items(name, option, stated, items)
        if len(texts) > 1 and kind.name != "pattern":
            self.refuse("X005", f"--{name} takes one value, not {len(texts)}", stated.place)
        text = texts[0] if kind.name != "pattern" else "".join(texts)
        if text.lower() in ("none", "null"):
            return None if "none" not in kind.words else text
        value = kind.read(text)
        if value is None and kind.words:
            self.refuse("X005", f"--{name} {shown(text[:80])} is none of {', '.join(kind.words)}", stated.place)
            return kind.read(option.default or next(iter(kind.words)))
        if value is None:
            self.refuse("X005", f"--{name} is {shown(text[:80])}, not {kind.wanted}", stated.place)
        return value

    def _items(self, name: str, option: Row, stated: Stated, items: list[str]) -> tuple[Any, ...] | None:
        if option.kind.name == "words":
            words = option.kind.words
            wrong = [item for item in items if words and item not in words]
            if wrong:
                self.refuse("X005", f"--{name} {shown(wrong[0][:80])} is none of {', '.join(words)}", stated.place)
            return tuple(item for item in items if item not in wrong)
        wanted = 3 if option.kind.name == "ramp" else 2
        numbers = tuple(whole(item) for item in items)
        if len(numbers) != wanted or None in numbers:
            self.refuse("X005", f"--{name} takes {wanted} whole numbers", stated.place)
            return None
        return numbers


def _harmless(option: Row) -> Any:
    """The value that replaces an invalid one."""
    return False if option.kind.name == "flag" else None
