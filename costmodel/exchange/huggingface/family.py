"""A family of models in transformers, and one config.json under its rules.

A field is one fact about a model. A family names for each field the place of its value: an option
of the configuration class, a fact of the class' code, or a rule over other fields. Families build on one another
(`like`), so that a family lists only where it differs. Adding a family is adding an entry to families/. A config.json
is read field by field, each with its origin, and with every fault on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

from costmodel.documents.text.yaml_tree import Mapping
from costmodel.exchange.huggingface.fields import FIELDS, Kind
from costmodel.exchange.imported import Loss, Origin, OriginValue
from costmodel.exchange.values.foreign_values import shown
from costmodel.ground.errors import Fault, Place
from costmodel.ground.record import record


@record
class DerivedValue:
    """A rule that computes a field from other fields; `text` describes it for the origin and the printed table."""

    text: str
    apply: Callable[[Any], OriginValue | None] = field(repr=False)


@record
class Fact:
    """A value that no option changes: it is fixed in the code that the format configures."""

    value: Any


@record
class ForeignOption:
    """One option of a configuration class.

    names: its spellings, the current one first. default: the value if the file leaves it out. null: the rule for a null
    value, written or by default; without a rule, null means that the feature is absent. old: the last version of each
    outdated spelling. was: earlier defaults, each with the version before which it applied.
    """

    names: tuple[str, ...]
    default: Any = None
    null: DerivedValue | None = None
    since: str = ""
    old: dict[str, str] = field(default_factory=dict)
    was: tuple[tuple[str, Any], ...] = ()


def option(*names: str, default: Any = None, null: DerivedValue | None = None, **more: Any) -> ForeignOption:
    """An option with these spellings."""
    return ForeignOption(names, default, null, **more)


def version(text: Any) -> tuple[int, ...]:
    """A version as numbers to compare: (4, 31, 0) for '4.31.0.dev0'; () if the text is not a version."""
    numbers = []
    for part in str(text).split(".")[:3]:
        if not part.isascii() or not part.isdigit() or len(part) > 9:
            break
        numbers.append(int(part))
    return tuple(numbers)


TRANSFORMERS = "5.24.0"  # the version whose classes these tables describe
Source = ForeignOption | Fact | DerivedValue
Half = dict[str, Any]

LARGEST = 10**12  # of any count
_ABSENT = object()
_WANTED: dict[Kind, str] = {
    "count": "a whole number above 0",
    "flag": "true or false",
    "word": "text",
    "list": "a list",
    "figure": "a number",
    "width": "a whole number above 0, or auto,",
}
_HARMLESS: dict[Kind, Any] = {"count": 1, "flag": False, "word": "", "list": [], "figure": 0, "width": "auto"}


class Refusal(NamedTuple):
    """An option that a costmodel document can express only if it has one of these values.

    The harmless value '=hidden' means the value of the field `hidden`. An absent option is harmless.
    """

    name: str
    harmless: tuple[Any, ...]
    reason: str


@record
class Family:
    """One model family: its names, and where a file states each field of its models.

    layers: a function that gives a mark for the kind of every layer; build: makes a layer from its mark. losses:
    features that no costmodel key expresses. code: the software that fixes the facts. quiet: options without cost.
    ahead: makes the multi-token-prediction layer, if it differs from the last layer.
    """

    name: str
    classes: tuple[str, ...]
    configuration: str
    fields: dict[str, Source]
    layers: Callable[[Config], Sequence[Hashable]]
    build: Callable[[Config, Any], Half]
    types: tuple[str, ...] = ()
    losses: tuple[Callable[[Config], Loss | None], ...] = ()
    refusals: tuple[Refusal, ...] = ()
    quiet: tuple[str, ...] = ()
    code: str = f"transformers {TRANSFORMERS}"
    ahead: Callable[[Config], Half] | None = None

    @property
    def options(self) -> dict[str, ForeignOption]:
        """The fields that options of the configuration class fill."""
        return {name: source for name, source in self.fields.items() if isinstance(source, ForeignOption)}

    def like(
        self, name: str, classes: tuple[str, ...], configuration: str, *, without: tuple[str, ...] = (), **changes: Any
    ) -> Family:
        """A copy of this family with other fields or attributes.

        A plain value for a field that is an option becomes the option's new default; for other fields it becomes a
        fact.
        """
        fields = {key: source for key, source in self.fields.items() if key not in without}
        for key in [key for key in changes if key in FIELDS]:
            fields[key] = _changed(fields.get(key), changes.pop(key))
        return replace(self, name=name, classes=classes, configuration=configuration, fields=fields, **changes)


def _changed(source: Source | None, given: Any) -> Source:
    if isinstance(given, ForeignOption | Fact | DerivedValue):
        return given
    return replace(source, default=given) if isinstance(source, ForeignOption) else Fact(given)


class Config:
    """The values of one config.json, read by the rules of its family.

    A fault is recorded and a harmless value replaces the faulty one, so that all faults of a file are found at once.
    """

    def __init__(self, tree: Mapping, family: Family, file: str) -> None:
        self.tree, self.family, self.file = tree, family, file
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self.losses: list[Loss] = []
        self.version = version(tree.get("transformers_version", ""))
        self._values: dict[str, OriginValue] = {}
        self._unsound: set[str] = set()
        self.looked_at: set[str] = set()  # keys at the top of the file

    def __getitem__(self, name: str) -> OriginValue:
        """The value of a field; None for an optional field that is absent."""
        if name not in self._values:
            self._values[name] = self._resolved(name, self.family.fields.get(name))
        return self._values[name]

    def number(self, name: str) -> int:
        """The value of a field as an integer; 0 for an optional field that is absent."""
        return int(self[name].value or 0)

    def flag(self, name: str) -> bool:
        """Whether a field is true."""
        return bool(self[name].value)

    def derived(self, value: Any, text: str, *names: str) -> OriginValue:
        """A value computed from fields, with the place of the first that the file states."""
        places = (self[name].place for name in names)
        return OriginValue(value, Origin("derived", text, next((place for place in places if place is not None), None)))

    def sound(self, *names: str) -> bool:
        """Whether these fields have no fault, so that rules that combine them can be checked."""
        for name in names:
            self[name]  # reading it finds its faults
        return self._unsound.isdisjoint(names)

    def refuse(self, code: str, sentence: str, place: Place | None = None, hint: str = "") -> None:
        """Records a fault, at the place of the file if no other place is given."""
        fault = Fault(code, sentence, place or self.place, hint)
        if fault not in self.faults:
            self.faults.append(fault)

    @property
    def place(self) -> Place:
        """The place of the whole file, for values that no key holds."""
        return Place(self.file)

    def written(self, name: str) -> tuple[Any, Place | None]:
        """The value that the file states under a dotted path, and its place; `_ABSENT` if there is none."""
        here: Any = self.tree
        place: Place | None = None
        self.looked_at.add(name.partition(".")[0])
        for part in name.split("."):
            if not isinstance(here, dict) or part not in here:
                return _ABSENT, None
            place = next(key.at for key in here if key == part)
            here = here[part]
        return here, place

    def _resolved(self, name: str, source: Source | None) -> OriginValue:
        field = FIELDS[name]
        if source is None:
            assert field.optional or field.kind == "flag", f"{self.family.name} does not state {name}"
            return OriginValue(None if field.optional else False, self._of_class())
        if isinstance(source, Fact):
            return OriginValue(source.value, self._of_class())
        value = self._ruled(source) if isinstance(source, DerivedValue) else self._of_option(name, source)
        if value is not None and (field.optional or value.value is not None):
            return value
        if not field.optional:
            spelling = source.names[0] if isinstance(source, ForeignOption) else name
            hint = f"{spelling} in the file states it"
            self.refuse("X002", f"{self.family.classes[0]} needs {spelling}, which has no default", None, hint)
            self._unsound.add(name)
        return OriginValue(None if field.optional else _HARMLESS[field.kind], self._of_class())

    def _of_class(self) -> Origin:
        return Origin("class", f"{self.family.classes[0]}, {self.family.code}")

    def _ruled(self, rule: DerivedValue) -> OriginValue | None:
        value = rule.apply(self)
        assert value is None or isinstance(value, OriginValue)
        return value

    def _of_option(self, name: str, option: ForeignOption) -> OriginValue | None:
        """The value that the file states for an option, else the default."""
        found = [(spelling, *self.written(spelling)) for spelling in option.names]
        found = [(spelling, value, place) for spelling, value, place in found if value is not _ABSENT]
        if not found:
            return self._by_default(name, option)
        spelling, value, place = found[0]
        for other, another, where in found[1:]:
            if another != value:
                sentence = f"{spelling} {shown(value)} and {other} {shown(another)} are two names of one option"
                self.refuse("X004", sentence, where, f"{spelling} stands on line {place.line if place else 0}")
        self._of_its_age(spelling, option, place)
        if value is None:
            return None if option.null is None else self._ruled(option.null)
        return OriginValue(self._checked(name, spelling, value, place), Origin("file", spelling, place))

    def _by_default(self, name: str, option: ForeignOption) -> OriginValue | None:
        spelling = option.names[0]
        for before, earlier in option.was:
            if self.version and self.version < version(before):
                sentence = f"{spelling} is absent: {shown(option.default)} today, {shown(earlier)} before {before}"
                self.warnings.append(Fault("X006", sentence, self.place, f"write {spelling} into the file"))
                break
        if option.default is None:
            return None if option.null is None else self._ruled(option.null)
        text = f"default of {self.family.configuration}, {self.family.code}"
        absent = FIELDS[name].optional and option.default == 0  # a width or number of 0: there is none
        return OriginValue(None if absent else option.default, Origin("default", f"{spelling}: {text}"))

    def _of_its_age(self, spelling: str, option: ForeignOption, place: Place | None) -> None:
        """Records a warning for a spelling that is outdated, or newer than the version that wrote the file."""
        if spelling in option.old:
            sentence = f"{spelling} was an option until transformers {option.old[spelling]}"
            self.warnings.append(Fault("X006", sentence, place, f"today {option.names[0]} states it"))
        elif option.since and self.version and self.version < version(option.since):
            sentence = f"{spelling} counts since transformers {option.since}, and the file is of an older one"
            self.warnings.append(Fault("X006", sentence, place, "it is read as it is today"))

    def _checked(self, name: str, spelling: str, value: Any, place: Place | None) -> Any:
        """The value if it has the type of its field; else records a fault and returns a harmless value."""
        field = FIELDS[name]
        kind = field.kind
        if isinstance(value, list) and kind == "count" and field.of_each_layer:
            value = self._one_of_all(name, spelling, value, place)
        if kind == "width" and value == "auto":
            return value
        if kind in ("count", "figure", "width"):
            return self._number(name, spelling, value, place)
        wanted = {"flag": bool, "word": str, "list": list}[kind]
        if isinstance(value, wanted):
            return value
        self.refuse("D006", f"{_WANTED[kind]} is expected for {spelling}, not {shown(value)}", place)
        self._unsound.add(name)
        return _HARMLESS[kind]

    def _one_of_all(self, name: str, spelling: str, listed: list[Any], place: Place | None) -> Any:
        """The common value of a list with one entry per layer; the list itself if the entries differ."""
        layers = self.number("layer_count")
        if len(listed) != layers and self.sound("layer_count"):
            sentence = f"{spelling} has {len(listed)} entries, and the model has {layers} layers"
            self.refuse("X005", sentence, place, "one entry for every layer, or the number itself")
            self._unsound.add(name)
            return 1
        return listed[0] if listed and all(entry == listed[0] for entry in listed) else listed

    def _number(self, name: str, spelling: str, value: Any, place: Place | None) -> Any:
        """The number if it is in range, else a harmless value and a recorded fault; an optional count of 0 is None."""
        kind, optional = FIELDS[name].kind, FIELDS[name].optional
        least = -LARGEST if kind == "figure" else 0 if optional else 1
        if isinstance(value, bool) or not isinstance(value, int | float):
            fault = "D006", f"{_WANTED[kind]} is expected for {spelling}, not {shown(value)}"
        elif not least <= value <= LARGEST:
            fault = "D008", f"{spelling} {shown(value)} is out of range: {least:g} to {LARGEST:g}"
        elif kind != "figure" and value != int(value):
            fault = "D008", f"a whole number is expected for {spelling}, not {shown(value)}"
        else:
            return value if kind == "figure" else int(value) or None
        self.refuse(*fault, place)
        self._unsound.add(name)
        return _HARMLESS[kind]
