"""A family of models in transformers, and one config.json under its rules.

A field is one fact about a model. A family names for each field the place of its value: an option
of the configuration class, a fact of the class' code, or a rule over other fields. Families build on one another
(`like`), so that a family lists only where it differs. Adding a family is adding an entry to families/. A config.json
is read field by field, each with its origin, and with every fault on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field, replace
from typing import Any, Literal, NamedTuple

from costmodel.documents.text.yaml_tree import Mapping
from costmodel.exchange.import_result import Loss, Origin, OriginValue
from costmodel.exchange.values import as_text
from costmodel.ground.errors import Fault, Place
from costmodel.ground.record import record

# Fields of a model that families of transformers state: what each holds, and the key of the document that it fills.

Kind = Literal["count", "flag", "word", "list", "figure", "width"]


class Field(NamedTuple):
    """The kind of value of a field, and the key of the model document that it fills (empty if only rules read it)."""

    kind: Kind
    key: str = ""
    optional: bool = False

    @property
    def of_each_layer(self) -> bool:
        """Whether a file may list one value for every layer."""
        return self.key.startswith("layers.") and self.key.count(".") > 1


_ATTENTION, _LATENT, _STATE = "layers.attention", "layers.latent", "layers.state_space"
_LINEAR, _INDEXER, _SCAN = "layers.linear", f"{_LATENT}.indexer", "layers.selective_scan"
_COMPRESSED = "layers.compressed"
_MLP, _EXPERTS = "layers.mlp", "layers.experts"

FIELDS: dict[str, Field] = {
    # the model
    "vocab": Field("count", "vocab"),
    "hidden": Field("count", "hidden"),
    "layer_count": Field("count", "layers.count"),
    "max_sequence": Field("count", "max_sequence"),
    "position_rows": Field("count", "position_rows", optional=True),
    "positions": Field("word", "positions"),
    "norm": Field("word", "norm"),
    "norms": Field("count", "layers.norms"),
    "tied": Field("flag", "tied"),
    "embedding_norm": Field("flag", "embedding_norm"),
    "meta_tokens": Field("count", "meta_tokens", optional=True),
    "token_types": Field("count", "token_types", optional=True),
    "head_transform": Field("flag", "head_transform"),
    "head_has_bias": Field("flag", "head_bias"),
    "bidirectional": Field("flag", f"{_ATTENTION}.bidirectional"),
    "parallel": Field("flag", "layers.parallel"),
    "shared_output": Field("flag", "layers.shared_output"),
    "streams": Field("count", "residual_streams", optional=True),
    "stream_rule": Field("word", "stream_rule", optional=True),
    "side_rank": Field("count", "layers.side_rank", optional=True),
    "prediction_depth": Field("count", "prediction.depth", optional=True),
    # attention
    "heads": Field("count", f"{_ATTENTION}.heads"),
    "kv_heads": Field("count", f"{_ATTENTION}.kv_heads"),
    "head_dim": Field("count", f"{_ATTENTION}.head_dim"),
    "attention_value_dim": Field("count", f"{_ATTENTION}.value_dim", optional=True),
    "window": Field("count", f"{_ATTENTION}.window", optional=True),
    "biases": Field("flag", f"{_ATTENTION}.biases"),
    "output_bias": Field("flag", f"{_ATTENTION}.output_bias"),
    "qk_norm": Field("flag", f"{_ATTENTION}.qk_norm"),
    "qk_norm_whole": Field("flag", f"{_ATTENTION}.qk_norm_whole"),
    "sinks": Field("flag", f"{_ATTENTION}.sinks"),
    "output_gate": Field("flag", f"{_ATTENTION}.output_gate"),
    "keys_as_values": Field("flag", f"{_ATTENTION}.keys_as_values"),
    "value_norm": Field("flag", f"{_ATTENTION}.value_norm"),
    "query_rank": Field("count", f"{_LATENT}.query_rank", optional=True),
    "kv_rank": Field("count", f"{_LATENT}.kv_rank"),
    "nope_dim": Field("count", f"{_LATENT}.nope_dim"),
    "rope_dim": Field("count", f"{_LATENT}.rope_dim"),
    "value_dim": Field("count", f"{_LATENT}.value_dim"),
    "index_heads": Field("count", f"{_INDEXER}.heads"),
    "index_dim": Field("count", f"{_INDEXER}.head_dim"),
    "index_top_k": Field("count", f"{_INDEXER}.top_k"),
    # compressed attention
    "output_groups": Field("count", f"{_COMPRESSED}.output_groups"),
    "output_rank": Field("count", f"{_COMPRESSED}.output_rank"),
    "sparse_rate": Field("count", f"{_COMPRESSED}.entries.rate"),
    "heavy_rate": Field("count", f"{_COMPRESSED}.entries.rate"),
    # state space
    "state_heads": Field("count", f"{_STATE}.heads"),
    "state_head_dim": Field("count", f"{_STATE}.head_dim"),
    "state_groups": Field("count", f"{_STATE}.groups"),
    "state_size": Field("count", f"{_STATE}.state"),
    "state_conv": Field("count", f"{_STATE}.conv"),
    "state_chunk": Field("count", f"{_STATE}.chunk"),
    "state_norm": Field("flag", f"{_STATE}.norm"),
    # linear attention
    "linear_rule": Field("word", f"{_LINEAR}.rule"),
    "linear_heads": Field("count", f"{_LINEAR}.heads"),
    "linear_value_dim": Field("count", f"{_LINEAR}.value_dim"),
    "linear_key_heads": Field("count", f"{_LINEAR}.key_heads"),
    "linear_key_dim": Field("count", f"{_LINEAR}.key_dim"),
    "linear_conv": Field("count", f"{_LINEAR}.conv", optional=True),
    "linear_chunk": Field("count", f"{_LINEAR}.chunk"),
    # selective scan
    "scan_inner": Field("count", f"{_SCAN}.inner"),
    "scan_state": Field("count", f"{_SCAN}.state"),
    "scan_rank": Field("count", f"{_SCAN}.rank"),
    "scan_conv": Field("count", f"{_SCAN}.conv"),
    "scan_norms": Field("flag", f"{_SCAN}.norms"),
    "scan_biases": Field("flag", f"{_SCAN}.biases"),
    # feed-forward
    "ffn_hidden": Field("count", f"{_MLP}.ffn_hidden"),
    "gated": Field("flag", f"{_MLP}.gated"),
    "mlp_biases": Field("flag", f"{_MLP}.biases"),
    "experts": Field("count", f"{_EXPERTS}.count", optional=True),
    "top_k": Field("count", f"{_EXPERTS}.top_k"),
    "expert_hidden": Field("count", f"{_EXPERTS}.ffn_hidden"),
    "expert_biases": Field("flag", f"{_EXPERTS}.biases"),
    "router_bias": Field("flag", f"{_EXPERTS}.router_bias"),
    "shared_hidden": Field("count", f"{_EXPERTS}.shared.ffn_hidden", optional=True),
    "shared_gate": Field("flag", f"{_EXPERTS}.shared_gate"),
    "module_runs": Field("word", f"{_EXPERTS}.module_runs", optional=True),
    "groups": Field("count", f"{_EXPERTS}.groups", optional=True),
    "group_limit": Field("count", f"{_EXPERTS}.group_limit", optional=True),
    "expert_latent": Field("count", f"{_EXPERTS}.latent_dim", optional=True),
    # tables beside the embedding
    "entry_rows": Field("count", "layer_embedding.rows"),
    "entry_width": Field("count", "layer_embedding.width", optional=True),
    # read by rules alone: which layers are of which kind
    "layer_types": Field("list", optional=True),
    "mlp_types": Field("list", optional=True),
    "entry_ratios": Field("list", optional=True),
    "hash_layers": Field("figure", optional=True),
    "numbered_layers": Field("list", optional=True),
    "leading_dense": Field("figure", optional=True),
    "sparse_step": Field("count"),
    "window_pattern": Field("figure", optional=True),
    "expert_offset": Field("figure", optional=True),
    "leading_pattern": Field("count"),
    "window_from": Field("figure", optional=True),
    "windowed": Field("flag"),
    # read by rules alone: other ways to state the above
    "shared_experts": Field("figure", optional=True),
    "written_rope": Field("count"),
    "rotary_share": Field("figure", optional=True),
    "expansion": Field("figure", optional=True),
    "global_head_dim": Field("count", optional=True),
    "global_kv_heads": Field("count", optional=True),
    "shared_layers": Field("figure", optional=True),
    "wide_when_shared": Field("flag"),
    "expert_blocks": Field("flag"),
    "written_experts": Field("count", optional=True),
    "mixer_width": Field("figure", optional=True),
    "routing_method": Field("word", optional=True),
    "written_head_dim": Field("width", optional=True),
    "written_rank": Field("width", optional=True),
    "pattern": Field("word", optional=True),
    "prediction_types": Field("list", optional=True),
    "prediction_pattern": Field("word", optional=True),
    "both_halves": Field("count"),
    "query_groups": Field("count"),
    "block_types": Field("list", optional=True),
    "alibi": Field("flag"),
    "falcon_kv_heads": Field("count"),
    "falcon_norms": Field("count", optional=True),
    "last_norm": Field("flag"),
    "head_bias": Field("flag"),
    "last_sparse": Field("figure", optional=True),
    "rms_epsilon": Field("figure", optional=True),
    "post_norms": Field("flag"),
    "multi_query": Field("flag"),
    "new_decoder": Field("flag"),
    "parallel_attention": Field("flag"),
}


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
            fields[key] = _changed_source(fields.get(key), changes.pop(key))
        return replace(self, name=name, classes=classes, configuration=configuration, fields=fields, **changes)


def _changed_source(source: Source | None, given: Any) -> Source:
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
        """The value of a document field with its origin: from the family, a rule, the file, or the class's default."""
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
                sentence = f"{spelling} {as_text(value)} and {other} {as_text(another)} are two names of one option"
                self.refuse("X004", sentence, where, f"{spelling} stands on line {place.line if place else 0}")
        self._of_its_age(spelling, option, place)
        if value is None:
            return None if option.null is None else self._ruled(option.null)
        return OriginValue(self._checked(name, spelling, value, place), Origin("file", spelling, place))

    def _by_default(self, name: str, option: ForeignOption) -> OriginValue | None:
        """The default of an option that the file leaves out; None if there is none."""
        spelling = option.names[0]
        for before, earlier in option.was:
            if self.version and self.version < version(before):
                sentence = f"{spelling} is absent: {as_text(option.default)} today, {as_text(earlier)} before {before}"
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
        self.refuse("D006", f"{_WANTED[kind]} is expected for {spelling}, not {as_text(value)}", place)
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
            fault = "D006", f"{_WANTED[kind]} is expected for {spelling}, not {as_text(value)}"
        elif not least <= value <= LARGEST:
            fault = "D008", f"{spelling} {as_text(value)} is out of range: {least:g} to {LARGEST:g}"
        elif kind != "figure" and value != int(value):
            fault = "D008", f"a whole number is expected for {spelling}, not {as_text(value)}"
        else:
            return value if kind == "figure" else int(value) or None
        self.refuse(*fault, place)
        self._unsound.add(name)
        return _HARMLESS[kind]


# What a layer consists of: attention, latent attention or a state space, and an MLP or experts, from fields.

Mixer = Literal["full", "window", "latent", "state", "linear", "scan", "both", ""]
Feed = Literal["mlp", "experts", ""]


class LayerHalves(NamedTuple):
    """The mixer and feed-forward half of a layer; window: sliding-window attention; both: attention and state space."""

    mixer: Mixer
    feed: Feed


def standard_layer(config: Config, mark: LayerHalves) -> Half:
    """A layer with the given mixer and feed-forward half."""
    layer: Half = _flags(config, "parallel") | {"norms": config["norms"]}
    if mark.mixer in ("full", "window", "both"):
        layer["attention"] = attention(config, windowed=mark.mixer == "window")
    elif mark.mixer == "latent":
        layer["latent"] = latent_attention(config)
    elif mark.mixer == "linear":
        layer["linear"] = linear_attention(config)
    elif mark.mixer == "scan":
        layer["selective_scan"] = selective_scan(config)
    if mark.mixer in ("state", "both"):
        layer["state_space"] = state_space(config)
    if mark.feed == "mlp":
        layer["mlp"] = mlp(config)
    elif mark.feed == "experts":
        layer["experts"] = experts(config)
    return layer


def single_half(config: Config, mark: LayerHalves) -> Half:
    """A layer that is only a mixer or only a feed-forward half, with one normalisation."""
    layer = standard_layer(config, mark)
    layer["norms"] = OriginValue(1, config["norms"].origin)
    return layer


def attention(config: Config, *, windowed: bool) -> Half:
    """Multi-head or grouped-query attention, with or without a window."""
    half = {key: config[key] for key in ("heads", "kv_heads", "head_dim")}
    half |= _flags(config, "biases", "output_bias", "qk_norm", "qk_norm_whole", "sinks", "output_gate", "bidirectional")
    if windowed and config["window"].value is not None:
        half["window"] = config["window"]
    return half


def latent_attention(config: Config) -> Half:
    """Keys of multi-head latent attention, and of its indexer, from a Hugging Face config."""
    half = {key: config[key] for key in ("heads", "query_rank", "kv_rank", "nope_dim", "rope_dim", "value_dim")}
    found: Half = {key: value for key, value in half.items() if value.value is not None}
    if "index_heads" in config.family.fields:
        found["indexer"] = {"heads": config["index_heads"], "head_dim": config["index_dim"]}
        found["indexer"]["top_k"] = config["index_top_k"]
    return found


def compressed_attention(config: Config, *, rate: str | None, indexed: bool) -> Half:
    """Attention over a window and over compressed entries; `indexed`: an indexer picks the entries."""
    keys = ("heads", "head_dim", "rope_dim", "query_rank", "window", "output_groups", "output_rank", "sinks")
    half: Half = {key: config[key] for key in keys}
    if rate is not None:
        half["entries"] = {"rate": config[rate]}
        if indexed:
            half["entries"]["overlap"] = config.derived(True, "as the class makes entries that are picked", rate)
            half["entries"]["indexer"] = {"heads": config["index_heads"], "head_dim": config["index_dim"]}
            half["entries"]["indexer"]["top_k"] = config["index_top_k"]
    return half


def linear_attention(config: Config) -> Half:
    """Linear attention of any rule."""
    keys = ("rule", "heads", "value_dim", "key_heads", "key_dim", "conv", "chunk")
    half = {key: config[f"linear_{key}"] for key in keys}
    return {key: value for key, value in half.items() if value.value is not None}


def state_space(config: Config) -> Half:
    """The Mamba-2 mixer of a layer, from the config."""
    keys = {"heads": "state_heads", "head_dim": "state_head_dim", "groups": "state_groups", "state": "state_size"}
    keys |= {"conv": "state_conv", "chunk": "state_chunk"}
    half = {key: config[name] for key, name in keys.items()}
    plain = "state_norm" in config.family.fields and not config.flag("state_norm")
    return half | ({"norm": config["state_norm"]} if plain else {})


def selective_scan(config: Config) -> Half:
    """The Mamba-1 mixer of a layer, from the config."""
    half = {key: config[f"scan_{key}"] for key in ("inner", "state", "rank", "conv")}
    return half | {key: config[f"scan_{key}"] for key in ("norms", "biases") if config.flag(f"scan_{key}")}


def mlp(config: Config) -> Half:
    """The feed-forward half of a dense layer."""
    half = {"ffn_hidden": config["ffn_hidden"], "gated": config["gated"]}
    return half | ({"biases": config["mlp_biases"]} if config.flag("mlp_biases") else {})


def experts(config: Config) -> Half:
    """Routed experts, and the shared experts as one MLP."""
    if config["experts"].value is None:
        config.refuse("X005", "a layer of experts is listed, and the file has no experts", config["experts"].place)
    count = OriginValue(config["experts"].value or 1, config["experts"].origin)
    routed: Half = {"count": count, "top_k": config["top_k"], "ffn_hidden": config["expert_hidden"]}
    routed["gated"] = config["gated"]
    if config.flag("expert_biases"):
        routed["biases"] = config["expert_biases"]
    routed |= _flags(config, "router_bias", "shared_gate")
    if config["expert_latent"].value is not None:
        routed["latent_dim"] = config["expert_latent"]
    if config["module_runs"].value is not None:
        routed["module_runs"] = config["module_runs"]
    if config["shared_hidden"].value is not None:
        routed["shared"] = {"ffn_hidden": config["shared_hidden"], "gated": config["gated"]}
        if config.flag("expert_biases"):
            routed["shared"]["biases"] = config["expert_biases"]
    if _limits_groups(config):
        routed |= {"groups": config["groups"], "group_limit": config["group_limit"]}
    return routed


def _limits_groups(config: Config) -> bool:
    """Whether routing limits a token to some groups of experts; one group or greedy routing limits nothing."""
    limited = config["groups"].value is not None and config["group_limit"].value is not None
    return limited and config.number("groups") > 1 and config["routing_method"].value != "greedy"


def _flags(config: Config, *names: str) -> Half:
    """The flags that are true; the others have the default of the document."""
    return {name: config[name] for name in names if config.flag(name)}
