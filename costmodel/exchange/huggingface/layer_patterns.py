"""The kind of every layer, in the orders that configuration classes know: attention or window, experts or MLP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from costmodel.exchange.huggingface.family import Config, DerivedValue, Feed, LayerHalves, Mixer
from costmodel.exchange.import_result import Loss, Origin, OriginValue
from costmodel.exchange.values import as_text

Mixers = Callable[[Config], list[Mixer]]
Feeds = Callable[[Config], list[Feed]]

MOST_LAYERS = 10_000
_TYPES: dict[str, Mixer] = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "window",
}
_MLP_TYPES: dict[str, Feed] = {"dense": "mlp", "sparse": "experts"}


def layer_count(config: Config) -> int:
    """The number of layers of the model; a fault for a number beyond any real model."""
    count = config.number("layer_count")
    if count > MOST_LAYERS:
        place = config["layer_count"].place
        config.refuse("D008", f"{count:,} layers are out of range: at most {MOST_LAYERS:,} are read", place)
        return 1
    return count


def leading_layers(config: Config, name: str) -> int:
    """The number of leading layers that a field states, at most all layers; 0 if nothing states it."""
    first = config[name].value
    return min(max(0, int(first)), layer_count(config)) if isinstance(first, int | float) else 0


def layers(mixers: Mixers, feeds: Feeds) -> Callable[[Config], Sequence[LayerHalves]]:
    """A function that combines the mixer order and the feed-forward order into layers."""

    def marked(config: Config) -> list[LayerHalves]:
        return [LayerHalves(mixer, feed) for mixer, feed in zip(mixers(config), feeds(config), strict=True)]

    return marked


# --- attention


def everywhere(mixer: Mixer) -> Mixers:
    """A function that gives every layer the same mixer."""
    return lambda config: [mixer] * layer_count(config)


def windows_everywhere(config: Config) -> list[Mixer]:
    """Window attention in every layer, if the model has a window."""
    return [window_or_full(config)] * layer_count(config)


def rotary_layers(config: Config) -> list[bool]:
    """Whether each layer has rotary positions: as listed, or all layers except every nth."""
    listed, count, step = config["block_types"].value, layer_count(config), config["window_pattern"].value
    if listed and len(listed) == count:
        return [bool(here) for here in listed]
    return [not isinstance(step, int) or step < 1 or (index + 1) % step != 0 for index in range(count)]


def windows_without_positions(config: Config) -> list[Mixer]:
    """A window in the layers without rotary positions, where windows are switched on."""
    window = window_or_full(config) if config.flag("windowed") else "full"
    return ["full" if rotary else window for rotary in rotary_layers(config)]


def chunks_with_positions(config: Config) -> list[Mixer]:
    """Chunked attention in the layers with rotary positions, full attention in the others."""
    return [window_or_full(config) if rotary else "full" for rotary in rotary_layers(config)]


def windows_where_on(config: Config) -> list[Mixer]:
    """A window in every layer, where windows are switched on."""
    return [window_or_full(config) if config.flag("windowed") else "full"] * layer_count(config)


def listed_mixers(otherwise: Mixers) -> Mixers:
    """A function that reads the mixer of every layer from layer_types, or uses another order if there is no list."""

    def typed(config: Config) -> list[Mixer]:
        """The mixer of each layer by `layer_types` of the file, else by the other pattern."""
        types, count = config["layer_types"], layer_count(config)
        if types.value is None:
            return otherwise(config)
        if not has_one_per_layer(config, types.value, count, "layer_types"):
            return ["full"] * count
        window, found = window_or_full(config), [_mixer_of_item(config, item) for item in types.value]
        return [window if mixer == "window" else mixer for mixer in found]

    return typed


def full_every_nth(config: Config) -> list[Mixer]:
    """Full attention in every nth layer, a window in the others."""
    step, count = config["window_pattern"].value, layer_count(config)
    if not isinstance(step, int) or step < 1:
        return ["full"] * count
    window = window_or_full(config)
    return ["full" if (index + 1) % step == 0 else window for index in range(count)]


def full_first_of(step: int) -> Mixers:
    """A function that gives full attention to the first layer of every `step` layers, and a window to the others."""

    def ordered(config: Config) -> list[Mixer]:
        window = window_or_full(config)
        return ["full" if index % step == 0 else window for index in range(layer_count(config))]

    return ordered


def windows_after_first(config: Config) -> list[Mixer]:
    """Full attention in the first `window_from` layers; a window in the others, if windows are switched on."""
    count, ahead = layer_count(config), leading_layers(config, "window_from")
    window = window_or_full(config) if config.flag("windowed") else "full"
    mixers: list[Mixer] = ["full"] * ahead
    return mixers + [window] * (count - ahead)


def window_or_full(config: Config) -> Mixer:
    """The mixer "window" if attention has a window shorter than the longest sequence, else "full"."""
    window = config["window"].value
    return "full" if window is None or window >= config.number("max_sequence") else "window"


def _mixer_of_item(config: Config, item: Any) -> Mixer:
    """The mixer that an entry of `layer_types` names; a fault for an unknown name."""
    known = _TYPES.get(item) if isinstance(item, str) else None
    if item == "linear_attention" and "linear_heads" in config.family.fields:
        return "linear"
    if known is None:
        name, place = config.family.classes[0], config["layer_types"].place
        config.refuse("X003", f"{name} with layer_types {as_text(item)}", place, "the model document has no such layer")
    return known or "full"


def has_one_per_layer(config: Config, listed: Sequence[Any], count: int, name: str) -> bool:
    """Whether a list has one entry per layer; records a fault if it does not."""
    if len(listed) != count and config.sound(name, "layer_count"):
        sentence = f"{name} lists {len(listed)} layers, and the model has {count}"
        config.refuse("X005", sentence, config[name].place, "one entry for every layer")
    return len(listed) == count


# --- feed-forward


def all_mlps(config: Config) -> list[Feed]:
    """An MLP in every layer."""
    return ["mlp"] * layer_count(config)


def all_experts(config: Config) -> list[Feed]:
    """Experts in every layer, or an MLP in every layer of a model without experts."""
    return [sparse_feed(config)] * layer_count(config)


def experts_after_dense(config: Config) -> list[Feed]:
    """An MLP in the leading dense layers, experts in the others."""
    count, ahead = layer_count(config), leading_layers(config, "leading_dense")
    feeds: list[Feed] = ["mlp"] * ahead
    return feeds + [sparse_feed(config)] * (count - ahead)


def experts_every_nth(config: Config) -> list[Feed]:
    """Experts in every nth layer, except in layers that are listed as dense."""
    step, listed = config.number("sparse_step"), listed_layers(config)
    feeds: list[Feed] = []
    for index in range(layer_count(config)):
        feeds.append("mlp" if index in listed or (index + 1) % step else sparse_feed(config))
    return feeds


def listed_feeds(otherwise: Feeds) -> Feeds:
    """A function that reads the feed-forward half of every layer from a list, or uses another order without a list."""

    def typed(config: Config) -> list[Feed]:
        """The feed-forward half of each layer by `mlp_layer_types` of the file, else by the other pattern."""
        types, count = config["mlp_types"], layer_count(config)
        if types.value is None:
            return otherwise(config)
        if not has_one_per_layer(config, types.value, count, "mlp_types"):
            return ["mlp"] * count
        feeds: list[Feed] = []
        for item in types.value:
            feed = _MLP_TYPES.get(item) if isinstance(item, str) else None
            if feed is None:
                config.refuse("X003", f"{config.family.classes[0]} with mlp_layer_types {as_text(item)}", types.place)
            feeds.append(feed or "mlp")
        return feeds

    return typed


def sparse_feed(config: Config) -> Feed:
    """The feed-forward half of a layer: experts if the model has them, else an MLP."""
    return "mlp" if config["experts"].value is None else "experts"


def listed_layers(config: Config) -> set[int]:
    """The layer numbers that the configuration lists."""
    listed = config["numbered_layers"].value or []
    return {item for item in listed if isinstance(item, int) and not isinstance(item, bool)}


# Rules shared by several families: values computed from other fields, and facts that costmodel cannot express.


def copy_of(name: str) -> DerivedValue:
    """A rule that copies another field."""
    return DerivedValue(f"as {name}", lambda config: config[name])


def multiple_of(name: str, factor: int) -> DerivedValue:
    """A rule that multiplies another field by a factor."""
    text = f"{factor} x {name}"
    return DerivedValue(text, lambda config: config.derived(factor * config.number(name), text, name))


def product_of(*names: str) -> DerivedValue:
    """A rule that multiplies several fields; None if one of them is absent or 0."""
    text = " x ".join(names)

    def multiplied(config: Config) -> OriginValue | None:
        found = 1.0
        for name in names:
            value = config[name].value
            found *= value if isinstance(value, int | float) else 0
        return config.derived(int(found), text, *names) if found else None

    return DerivedValue(text, multiplied)


def assumed_value(value: int, why: str) -> DerivedValue:
    """An assumed value."""
    return DerivedValue(f"{value}: {why}", lambda config: OriginValue(value, Origin("assumed", why)))


def not_flag(name: str) -> DerivedValue:
    """The opposite of a flag."""
    return DerivedValue(f"not {name}", lambda config: config.derived(not config.flag(name), f"not {name}", name))


def one_if(name: str, otherwise: str) -> DerivedValue:
    """A rule that gives 1 if a flag is true, else another field."""
    text = f"1 with {name}, else {otherwise}"
    return DerivedValue(text, lambda config: config.derived(1, text, name) if config.flag(name) else config[otherwise])


def _hidden_by_heads(config: Config) -> OriginValue:
    hidden, heads = config.number("hidden"), config.number("heads")
    if hidden % heads and config.sound("hidden", "heads"):
        sentence = f"hidden size {hidden} is not a multiple of {heads} heads"
        config.refuse("X005", sentence, config["heads"].place, "the file has to state head_dim, or other sizes")
    return config.derived(max(1, hidden // heads), "hidden size / heads", "hidden", "heads")


HIDDEN_BY_HEADS = DerivedValue("hidden size / heads", _hidden_by_heads)
SHARED_WIDTH = product_of("shared_experts", "expert_hidden")
ALIBI_OR_ROTARY = DerivedValue(
    "alibi where it is switched on, else rotary",
    lambda config: config.derived("alibi" if config.flag("alibi") else "rotary", "by alibi", "alibi"),
)
TWO_MORE_ROWS = DerivedValue(
    "max_sequence + 2",
    lambda config: config.derived(config.number("max_sequence") + 2, "max_sequence + 2", "max_sequence"),
)
PARALLEL_NORMS = DerivedValue(
    "1 if both halves are parallel, else 2",
    lambda config: config.derived(1 if config.flag("parallel") else 2, "by parallel", "parallel"),
)

POST_NORMS = DerivedValue(
    "4 with a normalisation behind each half, else 2",
    lambda config: config.derived(4 if config.flag("post_norms") else 2, "by post_norms", "post_norms"),
)

LossOf = Callable[[Config], Loss | None]


def uncounted_parameters(
    sentence: str, parameters: Callable[[Config], float], when: Callable[[Config], bool] | None = None
) -> LossOf:
    """Parameters of a family's models that costmodel does not count; negative if it counts too many."""

    def lost(config: Config) -> Loss | None:
        if when is not None and not when(config):
            return None
        return Loss("approximated", sentence, None, float(parameters(config)))

    return lost


def per_layer(count: Callable[[Config], float]) -> Callable[[Config], float]:
    """A function that multiplies a count per layer by the number of layers."""
    return lambda config: config.number("layer_count") * count(config)


HEAD_BIAS = uncounted_parameters("the output head has a bias", lambda config: config.number("vocab"))
HEAD_BIAS_IF_ANY = uncounted_parameters(
    "the output head has a bias", lambda config: config.number("vocab"), lambda config: config.flag("head_bias")
)
NO_NORM_WEIGHTS = uncounted_parameters(
    "normalisations have no weights",
    lambda config: -(config.number("norms") * config.number("layer_count") + 1) * config.number("hidden"),
)
NO_LAST_NORM = uncounted_parameters(
    "there is no normalisation before the head", lambda config: -2 * config.number("hidden")
)
SINUSOIDS = uncounted_parameters("positions are sines added to the embedding, without parameters", lambda config: 0)
CHUNKS = uncounted_parameters(
    "attention in chunks is written as a window of a chunk: a query sees half as much", lambda config: 0
)


def heads_fill_hidden(config: Config) -> Loss | None:
    """A fault unless heads × head width equals the hidden size: the class has a hidden × hidden output matrix."""
    heads, head_dim, hidden = (config.number(name) for name in ("heads", "head_dim", "hidden"))
    if heads * head_dim != hidden and config.sound("heads", "head_dim", "hidden"):
        sentence = f"{heads} heads of {head_dim} are not the hidden size {hidden}"
        config.refuse("X005", sentence, config["head_dim"].place or config["heads"].place, "the class needs them equal")
    return None


def latent_biases(config: Config) -> float:
    """The number of biases in one layer of latent attention: down-projections and output."""
    down = config.number("query_rank") + config.number("kv_rank") + config.number("rope_dim")
    return down + config.number("hidden")


LATENT_BIASES = uncounted_parameters(
    "the matrices down to the latent vectors and the output have biases",
    per_layer(latent_biases),
    lambda config: config.flag("biases"),
)
