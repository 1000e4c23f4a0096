"""What documents are made of: base classes, kinds of counts, and parts that several documents have."""

import functools
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from costmodel.documents.schemas.precision import Precision
from costmodel.ground.counts import Zero, kind_of, words_of
from costmodel.ground.errors import HUGE, LONGEST, Place, quoted_value
from costmodel.ground.parsing import (
    PLAIN,
    UnitError,
    counted_in,
    example,
    kinds_of,
    measured,
    parse,
    with_unit,
    written_unit,
)
from costmodel.ground.record import record
from costmodel.ground.units import Figure

OWN = "calibrate-"  # prefix of the keys of sources that were made from your own tables


def optional(description: str) -> Any:
    """A field for an optional key, None by default."""
    return Field(default=None, description=description)


def off(description: str) -> Any:
    """A field for a flag, off by default."""
    return Field(default=False, description=description)


def listed(description: str) -> Any:
    """A field for an optional list, which has at least one item."""
    return Field(default=None, min_length=1, description=description)


def items(description: str) -> Any:
    """A field for a list, empty by default."""
    return Field(default_factory=no_items, description=description)


def keyed(description: str) -> Any:
    """A field for a mapping, empty by default."""
    return Field(default_factory=no_keys, description=description)


class Document(BaseModel):
    """A part of a document: frozen, and closed to keys it does not know.

    Within another one it is a reference to its class, which is built when a document has that part: most have few of
    the parts that they may have.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", use_attribute_docstrings=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        name = f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"  # by which pydantic refers to it too
        return handler(source) if handler.field_name is None else _reference_to(lambda: cls, name)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(_built(cls) if schema["type"] == "function-plain" else schema)


class PartIn:
    """Beside Any in an Annotated type: a part by the module and name of its class, imported when a document has it.

    Most documents have none, and hundreds of keys need not be described for them.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def found(self) -> type[BaseModel]:
        """The class of the part."""
        module, _, name = self.path.rpartition(".")
        kind: type[BaseModel] = getattr(import_module(f"costmodel.documents.schemas.{module}"), name)
        return kind

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return _reference_to(self.found)

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(core_schema.definitions_schema(_built(self.found()), []))


def _reference_to(schema: Callable[[], type[BaseModel]], name: str | None = None) -> CoreSchema:
    """A schema that refers to the class of a part and imports it only when a document has the part."""
    written = core_schema.wrap_serializer_function_ser_schema(_serialise)
    return core_schema.no_info_plain_validator_function(
        lambda value: schema().model_validate(value), ref=name, serialization=written
    )


def _built(kind: type[BaseModel]) -> CoreSchema:
    """The core schema of a class."""
    kind.model_rebuild()
    return kind.__pydantic_core_schema__


def _serialise(value: Any, handler: Any) -> Any:
    """Serialises a part as plain values; builds its class first if needed."""
    if isinstance(value, BaseModel):
        _built(type(value))
    return handler(value)


# By unit: the least that a number above zero may be, and the greatest. They lie far outside what any machine reaches,
# and products of several stay finite. A kind of quantity may have narrower bounds.
RANGES: dict[str, tuple[float, float]] = {
    "1": (1e-12, 1e18),
    "B": (1e-3, 1e18),
    "B/s": (1.0, 1e18),
    "FLOP/s": (1.0, 1e21),
    "s": (1e-15, 1e12),
    "1/s": (1e-15, 1e18),
    "J": (1e-6, 1e21),
    "J/s": (1e-3, 1e9),
    "kg": (1e-6, 1e18),
    "kg/J": (1e-15, 1e-5),
    "USD": (1e-9, 1e18),
    "USD/s": (1e-12, 1e8 / 3600),
    "USD/J": (1e-15, 1e-5),
}
LEAST_FACTOR = 1e-6  # of numbers that divide: factors, and shares that are never zero

_DIGITS = r"[0-9][0-9_,.]*([eE][-+]?[0-9]+)?"
_OFTEN_IN_PERCENT = 10.0  # numbers up to it may be meant in percent
_ENDINGS = "k|K|M|G|B|T|Ki|Mi|Gi|(mi|bi|tri)llion|thousand"


def _only_value(value: Any) -> str:
    """The value of a mapping with one key, as it is written without the mapping; empty for any other value."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return ""
    ((key, inner),) = value.items()
    key, _, inner = str(key).partition(":") if inner is None else (key, "", inner)
    return f"'{inner} tokens'" if key == "tokens" else f"'{inner}'" if isinstance(inner, str | int | float) else ""


def figure(value: Any, unit: str, sample: str = "") -> Figure:
    """A number or quantity as written, in SI base units, with its place."""
    place: Place | None = getattr(value, "place", None)
    sample, plain = sample or example(unit), measured(unit) == "1"
    wanted = "number" if plain else "quantity"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        words = {"wanted": wanted, "sample": _only_value(value) or sample, "given": quoted_value(value)}
        sentence = "a {wanted} is expected here, not {given}; write e.g. {sample}"
        raise PydanticCustomError("quantity_type", sentence, words)
    if isinstance(value, str):
        number = _parsed_quantity(value, unit, sample)
    elif plain or unit in PLAIN or isinstance(value, Figure):
        number = float(value) if isinstance(value, float) or abs(value) < HUGE else math.inf
    else:
        given = quoted_value(value)
        words = {"sample": with_unit(given, unit), "given": given}
        raise PydanticCustomError("quantity_unit", "{given} has no unit; write {sample}", words)
    if not math.isfinite(number):
        raise PydanticCustomError("quantity_range", "a finite number is expected here", {})
    return Figure(number, place)


def _parsed_quantity(text: str, unit: str, sample: str) -> float:
    """The SI value of a text such as "80 GiB"; an error that shows a valid example."""
    if len(text) > LONGEST:
        raise PydanticCustomError("quantity_unit", "this is not a quantity; write e.g. {sample}", {"sample": sample})
    try:
        return parse(text, unit)
    except UnitError as error:
        reason, exact = str(error), error.exact
    if measured(unit) == "1" and not exact:
        _, ending, spellings = reason.partition(": ") if reason.startswith("unknown unit") else ("", "", "")
        reason = f"'{text}' is not a plain number{ending}{spellings}"
    if not exact and "e.g." not in reason:
        reason += f"; write e.g. {sample}"
    raise PydanticCustomError("quantity_unit", "{reason}", {"reason": reason})


@record
class Quantity:
    """Describes a number of a document: its unit, which may name what it counts, and its range.

    Beside float in an Annotated type it reads the text, checks it, and describes it in the JSON Schema.
    """

    unit: str
    low: float = 0.0
    high: float = math.inf
    whole: bool = False
    shown: str = ""  # an example, where that of the unit is of another size

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.validate)

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        unit = measured(self.unit)
        if unit != "1":
            money = r"|^(\$|USD *)[0-9]" if unit.startswith("USD") else ""
            text = {
                "type": "string",
                "pattern": rf"^{_DIGITS} *[A-Za-zµμ{'/' if unit == '1/s' else ''}]{money}",
                "examples": [self.example],
            }
            return {"anyOf": [{"type": "number"}, text]} if self.unit in PLAIN else text
        pattern = rf"^{_DIGITS} *({'%|' if self.unit == '1' and not self.whole else ''}{_ENDINGS})?{self._words()}$"
        number = {"type": "integer" if self.whole else "number"}
        return {"anyOf": [number, {"type": "string", "pattern": pattern}]}

    def _words(self) -> str:
        """A pattern for the counted words that may follow a number."""
        words = "|".join(word for kind in kinds_of(self.unit) for word in words_of(kind))
        return f"( *({words}))?" if words else ""

    @functools.cached_property
    def least(self) -> float:
        """The smallest allowed value above zero."""
        return max(self.low, RANGES[measured(self.unit)][0])

    @functools.cached_property
    def greatest(self) -> float:
        """The largest value that the key accepts."""
        return min(self.high, RANGES[measured(self.unit)][1])

    @functools.cached_property
    def example(self) -> str:
        """A quantity in the range and with the unit, as a user would write it."""
        usual = self.shown or example(self.unit)
        try:
            in_range = self.low <= parse(usual, self.unit) <= self.high
        except UnitError:  # of a unit whose own error shows how it is written
            in_range = True
        return usual if in_range else f"{max(10 * self.low, min(30.0, self.high)):g} {measured(self.unit)}"

    @functools.cached_property
    def sample(self) -> str:
        """An example of the quantity for messages."""
        if measured(self.unit) != "1":
            return f"'{self.example}'"
        if self.unit == "token" and self.whole:
            return "8k"
        return "8" if self.whole else "0.81 or 81 %" if 0.81 <= self.high <= 1 else "1.5"

    def validate(self, value: Any) -> Figure:
        """The number in a value; an error unless it is a quantity of the unit and in range."""
        number = figure(value, self.unit, self.sample)
        low, high = self.low, self.greatest
        if number < low or number > high or 0 < number < self.least:
            few = self.unit == "1" and not self.whole and 0.81 <= high <= _OFTEN_IN_PERCENT
            meant = _percent(number, high) if few and not isinstance(value, str) else ""
            words = {
                "given": _unquoted(value),
                "bounds": self._bounds(value, zero=number <= 0 or number > high) + meant,
            }
            raise PydanticCustomError("quantity_range", "{given} is out of range: {bounds}", words)
        if self.whole and not number.is_integer():
            given = {"given": _unquoted(value)}
            raise PydanticCustomError("quantity_range", "a whole number is expected here, not {given}", given)
        return number

    def _bounds(self, value: Any, *, zero: bool) -> str:
        """The allowed range in words; `zero`: it starts at the lower bound, else at the smallest value above zero."""
        size, unit = written_unit(value, self.unit) if isinstance(value, str) else (1.0, measured(self.unit))
        least = f"at least {_bound_words((self.low if zero else self.least) / size, unit)}"
        least = f"0, or {least}" if not zero and not self.low else least
        return f"{least} and at most {_bound_words(self.greatest / size, unit)}"


def _unquoted(value: Any) -> str:
    return quoted_value(value).strip("'")


def _percent(number: float, most: float) -> str:
    """A suggestion for a share above its maximum that may have been meant in percent; else empty."""
    return f"; if percent is meant, {number:g}%" if most < number <= 100 * most else ""


def _bound_words(value: float, unit: str) -> str:
    number, unit = f"{value:g}".replace("e+", "e"), "W" if unit == "J/s" else unit
    return number if unit == "1" or not value else f"{number} {unit.removeprefix('1')}"


Count = Annotated[float, Quantity("1", 1, whole=True)]
Multiple = Annotated[float, Quantity("1", 1)]
Positive = Annotated[float, Quantity("1", LEAST_FACTOR)]
NonNegative = Annotated[float, Quantity("1")]
Share = Annotated[float, Quantity("1", 0, 1)]
Portion = Annotated[float, Quantity("1", LEAST_FACTOR, 1)]
Bytes = Annotated[float, Quantity("B")]
Capacity = Annotated[float, Quantity("B/GPU", 1)]
Width = Annotated[float, Quantity("B/parameter", 1e-3, 64)]
ParameterBytes = Annotated[float, Quantity("B/parameter")]
Rate = Annotated[float, Quantity("B/GPU/s", 1)]
FlopRate = Annotated[float, Quantity("FLOP/GPU/s", 1)]
Seconds = Annotated[float, Quantity("s")]
Watts = Annotated[float, Quantity("J/s", 1e-3)]
Price = Annotated[float, Quantity("USD/GPU/s", 0, 1e6 / 3600)]  # a million USD an hour
Money = Annotated[float, Quantity("USD")]
EnergyPrice = Annotated[float, Quantity("USD/J")]


def _no_truth_value(value: Any) -> Any:
    """The value; an error for true or false, which would otherwise count as 1 and 0."""
    if isinstance(value, bool):
        raise PydanticKnownError("literal_error", {"expected": "0, 1, 2 or 3"})
    return value


ZeroStage = Annotated[Zero, BeforeValidator(_no_truth_value)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$", max_length=64)]
Check = Literal["seen", "known"]


class Source(Document):
    """Where a group of facts was read."""

    title: str = Field(description="Title of the source")
    year: Count | None = optional("Year of publication")
    authors: str | None = optional("Authors or publisher")
    url: str | None = optional("Link")
    where: str | None = optional("Table, page or file inside the source")


class Sourced(Document):
    """A group of facts with the key of its source, which shipped documents always name."""

    source: str | None = optional("Key of the source under 'sources', or of the bibliography")
    check: Check = Field(
        default="seen", description="seen: read in that source; known: general knowledge, page not re-read"
    )
    note: str | None = optional("What a reader should know about these figures")


def as_written(value: Any) -> str:
    """The tag of a reference: "name" for a name, "inline" for a document written out in place."""
    return "name" if isinstance(value, str) else "inline"


def no_items() -> Any:
    """An empty list as a default; pydantic takes ten milliseconds to inspect `list` itself."""
    return []


def no_keys() -> Any:
    """An empty mapping as a default."""
    return {}


def _whole_number(kinds: str, low: float = 1) -> Quantity:
    return Quantity(kinds, low, whole=True)


class InTokens(Figure):
    """A number of tokens, written where sequences are expected; the sequence length converts it."""

    __slots__ = ()


class FromTokens(Figure):
    """A number of sequences that was written as a number of tokens."""

    __slots__ = ("sequence", "tokens")
    tokens: float
    sequence: float

    def __new__(cls, tokens: InTokens, sequence: float) -> Self:
        """The number of tokens, rounded to whole sequences."""
        number = float.__new__(cls, float(round(tokens / sequence)))
        number.place, number.tokens, number.sequence = tokens.place, float(tokens), float(sequence)
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return FromTokens, (InTokens(self.tokens, self.place), self.sequence)


class _Sequences(Quantity):
    """A number of sequences, or of tokens."""

    def validate(self, value: Any) -> Figure:
        """The number, either of sequences or of tokens, as it was written."""
        if isinstance(value, FromTokens | InTokens):
            return value
        if isinstance(value, str) and counted_in(value) == "token":
            tokens = TOKENS.validate(value)
            return InTokens(tokens, tokens.place)
        return super().validate(value)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return Quantity("sequence token", self.low, self.high, whole=True).__get_pydantic_json_schema__(schema, handler)


class _Rent(Quantity):
    """The price of a node, or of an accelerator if its unit names accelerators."""

    def validate(self, value: Any) -> Figure:
        """The price in USD/s of a node, or of an accelerator if the unit names one."""
        if isinstance(value, str) and rented(value) == "accelerator":
            return Quantity("USD/GPU/s", self.low, self.high).validate(value)
        return super().validate(value)


def rented(price: str) -> str:
    """Whether a price is for a node or an accelerator, judged by its unit; empty if the unit does not name one.

    >>> rented("6.00 USD/GPU/h"), rented("98.32 USD/node/h"), rented("98.32 USD/h")
    ('accelerator', 'node', '')
    """
    kinds = {kind_of(part.strip()) for part in price.split("/")[1:]}
    return "accelerator" if "GPU" in kinds else "node" if "node" in kinds else ""


TOKENS = _whole_number("token")
Tokens = Annotated[float, TOKENS]
Sequences = Annotated[float, _Sequences("sequence", 1, whole=True)]
Gpus = Annotated[float, _whole_number("GPU")]
Replicas = Annotated[float, _whole_number("replica GPU")]
Stages = Annotated[float, _whole_number("stage GPU")]
Chunks = Annotated[float, _whole_number("chunk")]
Nodes = Annotated[float, _whole_number("node")]
Interfaces = Annotated[float, _whole_number("interface")]
Cores = Annotated[float, _whole_number("core")]
LayerCount = Annotated[float, _whole_number("layer")]
SomeLayers = Annotated[float, _whole_number("layer", 0)]
Heads = Annotated[float, _whole_number("head")]
Elements = Annotated[float, _whole_number("element")]
ExpertCount = Annotated[float, _whole_number("expert")]
Groups = Annotated[float, _whole_number("group")]
Modules = Annotated[float, _whole_number("module")]
Parameters = Annotated[float, _whole_number("parameter")]
SomeParameters = Annotated[float, Quantity("parameter", 1e-3)]
Vocabulary = Annotated[float, _whole_number("row token")]
Operations = Annotated[float, _whole_number("operation")]
Communicators = Annotated[float, _whole_number("communicator")]
Measurements = Annotated[float, _whole_number("measurement")]
Rows = Annotated[float, Quantity("row")]
PortRate = Annotated[float, Quantity("B/GPU/interface/s", 1, 1e15)]
NodeRate = Annotated[float, Quantity("B/node/s", 1)]
NodeFlopRate = Annotated[float, Quantity("FLOP/node/s", 1)]
NodeCapacity = Annotated[float, Quantity("B/node", 1)]
Rent = Annotated[float, _Rent("USD/node/s", 0, 1e8 / 3600)]


class Images(Document):
    """Images of a sequence, or of a prompt."""

    count: Positive = Field(description="Images in a sequence, on average")
    tokens: Tokens = Field(description="Tokens of the text model that an image takes; they are among the sequence's")


class TrainingImages(Images):
    """Images of a training sequence, and whether the tower that reads them is trained."""

    tower: Literal["trained", "frozen"] = Field(
        default="trained", description="Whether the vision tower is trained; with adapters it is frozen always"
    )


Version = Annotated[str, Field(pattern=r"^\d\d\.\d\d(\.\d\d)?$")]


class ReleaseLaunch(Document):
    """The setting of one model on some accelerators, in some releases."""

    model: str = Field(default="", description="What the model's name begins with; left out, any")
    accelerators: list[Name] = items("Accelerators; left out, any")
    first: Version | None = Field(default=None, description="First release", examples=['"26.02"'])
    last: Version | None = Field(default=None, description="Last release, its patches too", examples=['"26.02.01"'])
    precision: Precision | None = optional("Precision of the layers; left out, any")
    value: str = Field(description="Value of the run's cell")


class LaunchDefaults(Sourced):
    """Launches of one software; the first that fits a run is taken."""

    software: str = Field(description="As the column framework names it; the release is the number behind")
    table: str = Field(default="", description="What the run's cell source holds; left out, anything")
    features: list[ReleaseLaunch] = items("What an empty cell of features stands for")
    recompute: list[ReleaseLaunch] = items("What an empty cell of recompute stands for")
    plan: list[ReleaseLaunch] = items(
        "Numbers of empty cells of layout and batch, as column=number;column=number, or number/gpu"
    )


class Releases(Document):
    """Settings that software switches on by default when it launches a job, by release."""

    schema_: Literal["costmodel/release/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="One line")
    launches: list[LaunchDefaults] = Field(min_length=1, description="By software, the first that fits before others")
    sources: dict[str, Source] = keyed("Sources by key")


SiteCount = Annotated[float, Quantity("1", 2, 1e9, whole=True)]
SiteRate = Annotated[float, Quantity("B/s", 1)]
InnerSteps = Annotated[float, Quantity("step", 1, 1e12, whole=True)]
SiteType = Literal["fp32", "bf16", "fp16", "int8", "fp4"]


class Sites(Document):
    """Equal sites that share the nodes and the batch; the rest of the plan is of one site."""

    count: SiteCount = Field(description="How many")
    link: SiteRate = Field(description="What one site sends to others, one way, all its nodes together")
    latency: Seconds = Field(default=0.0, description="Of an exchange, beside its bytes")
    every: InnerSteps = Field(default=100, description="Steps of a site between two exchanges")
    dtype: SiteType = Field(default="fp32", description="Type the differences of the weights are exchanged in")
    fragments: Count = Field(default=1, description="Parts of the model that are exchanged one after another")
    overlap: InnerSteps | Literal[0] = Field(
        default=0, description="Steps that continue while a fragment is exchanged; 0 where training waits"
    )


class StragglerAssumption(Document):
    """Ranks whose time varies, and parts that are slow; left out, none beside the spread of alike parts."""

    jitter: Share | None = optional("Standard deviation of a rank's time over its mean, drawn anew each time")
    each: Literal["micro-batch", "step"] = Field(
        default="micro-batch", description="How often jitter is drawn: for each micro-batch, or for a whole step"
    )
    spread: Share | None = optional(
        "Standard deviation of a spread that stays for the whole job, beside assume.variation"
    )
    slow_part: Portion | None = optional("Speed of the compute of one slow accelerator over that of the others")
    slow_link: Portion | None = optional("Rate of one slow network interface over that of the others")
