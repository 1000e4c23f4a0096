"""Rules shared by several families: values computed from other fields, and facts that costmodel cannot express."""

from __future__ import annotations

from collections.abc import Callable

from costmodel.exchange.huggingface.family import Config, DerivedValue
from costmodel.exchange.imported import Loss, Origin, OriginValue


def same(name: str) -> DerivedValue:
    """A rule that copies another field."""
    return DerivedValue(f"as {name}", lambda config: config[name])


def times(name: str, factor: int) -> DerivedValue:
    """A rule that multiplies another field by a factor."""
    text = f"{factor} x {name}"
    return DerivedValue(text, lambda config: config.derived(factor * config.number(name), text, name))


def product(*names: str) -> DerivedValue:
    """A rule that multiplies several fields; None if one of them is absent or 0."""
    text = " x ".join(names)

    def multiplied(config: Config) -> OriginValue | None:
        found = 1.0
        for name in names:
            value = config[name].value
            found *= value if isinstance(value, int | float) else 0
        return config.derived(int(found), text, *names) if found else None

    return DerivedValue(text, multiplied)


def assumed(value: int, why: str) -> DerivedValue:
    """An assumed value."""
    return DerivedValue(f"{value}: {why}", lambda config: OriginValue(value, Origin("assumed", why)))


def negated(name: str) -> DerivedValue:
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
SHARED_WIDTH = product("shared_experts", "expert_hidden")
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
    "no normalisation stands before the head", lambda config: -2 * config.number("hidden")
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
