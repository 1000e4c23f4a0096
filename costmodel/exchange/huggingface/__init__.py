"""config.json of Hugging Face transformers to our model document.

The text is all that is read: code that a file points to is never followed. Every value of the document has its origin,
a key of the file, the default of its configuration class in the version named, or the code of the model's class. What
the document cannot express is listed with its parameters; over a thousandth of the model, the file is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.model import Model
from costmodel.documents.text.yaml_tree import Mapping
from costmodel.exchange.huggingface.choose_family import (
    APPROXIMATED,
    CANNOT_BE_SAID,
    OTHER_PARTS,
    WITHOUT_COST,
    FamilyChoice,
    choose,
    is_token,
)
from costmodel.exchange.huggingface.family import Config, Family, Half, Refusal
from costmodel.exchange.huggingface.stored_weights import KEYS, stored_weights
from costmodel.exchange.import_result import VERDICTS, Imported, Loss, Origin, OriginValue, StatedKey, Verdict
from costmodel.exchange.values import (
    LONGEST_NAME,
    as_text,
    document_name,
    layers_by_kind,
    likely_name,
    parse_json,
    placed_document,
    printable,
    unknown_names,
)
from costmodel.ground.errors import CostModelError, Fault, Place

_OF_WRAPPERS = ("architectures", "model_type", "tie_word_embeddings", "vision_config", *KEYS)
WEIGHTY = 0.001  # share of all parameters that the document may leave out


def read_config(text: str, file: str, name: str = "", beside: tuple[str, str] | None = None) -> Imported:
    """The model document of a config.json; `name` names the document (default: the file's name or its class).

    beside: text and name of the file that states how the checkpoint was quantised, where there is one
    """
    whole = parse_json(text, file)
    choice = choose(whole, file)
    config = Config(choice.tree, choice.family, file)
    title = _title(choice.tree, name, choice.family)
    tree = model_document(config, document_name(name or title), title)
    if choice.vision is not None:
        tree["vision"] = choice.vision
    for refusal in choice.family.refusals:
        _add_refusals(config, refusal)
    mixture = any("experts" in kind for kind in tree["layers"])
    stored = stored_weights(config, whole, None if beside is None else _quantisation_settings(*beside), mixture=mixture)
    tree |= stored.keys
    losses = [*choice.losses, *_family_losses(config), *config.losses, *single_expert_routers(tree)]
    losses += [*_option_losses(config, choice), *stored.losses]
    _refuse_large_losses(config, losses, tree)
    warnings = [*config.warnings, *_unknown_options(config, choice)]
    if config.faults:
        raise CostModelError(*config.faults)
    document, origins = placed_document(tree, Place(file))
    validate(Model, document, file)
    kind = f"config.json of transformers, {choice.family.classes[0]}"
    keys = (*_outer_verdicts(config, choice, whole), *_key_verdicts(config, choice, losses, whole), *stored.verdicts)
    return Imported(kind, document, origins, tuple(losses), tuple(warnings), keys=keys)


def _quantisation_settings(text: str, file: str) -> Mapping | None:
    """The quantisation settings of a file beside a config.json."""
    found = parse_json(text, file)
    return found if isinstance(found, Mapping) else None


def _outer_verdicts(config: Config, choice: FamilyChoice, whole: Mapping) -> Iterator[StatedKey]:
    """The verdict for every key of a multimodal file that is outside its text model."""
    lost = {loss.place: VERDICTS[loss.kind] for loss in choice.losses if loss.place is not None}
    for key in (key for key in whole if choice.inside and key != choice.inside):
        name, verdict = str(key), lost.get(key.place)
        if verdict is None and name in _OF_WRAPPERS:
            verdict = "read"
        elif verdict is None:
            verdict = "no effect" if is_known_option(config.family, name) else "not expressible"
        yield StatedKey(printable(name), verdict, key.place)


def _key_verdicts(config: Config, choice: FamilyChoice, losses: list[Loss], whole: Mapping) -> Iterator[StatedKey]:
    """The verdict for every key of the file."""
    lost = {loss.place: VERDICTS[loss.kind] for loss in losses if loss.place is not None}
    stated = whole[choice.inside] if choice.inside else whole
    for key in (key for key in config.tree if key in stated):
        name, verdict = str(key), lost.get(key.place, lost.get(key.at))
        if verdict is None and not is_known_option(config.family, name) and name not in choice.outer:
            verdict = "not expressible"
        usual: Verdict = "read" if name in config.looked_at or name in KEYS else "no effect"
        path = f"{choice.inside}.{name}" if choice.inside else name
        yield StatedKey(printable(path), verdict or usual, key.place)


def _title(tree: Mapping, name: str, family: Family) -> str:
    """The title of the model: the name in the file, else the given name, else the family name."""
    written = tree.get("_name_or_path")
    if isinstance(written, str) and written.strip("./ "):
        last = written.rstrip("/").rsplit("/", 1)[-1][:LONGEST_NAME]
        return "".join(letter for letter in last if letter.isprintable())
    return name or family.name


# --- what the document cannot express


def _add_refusals(config: Config, refusal: Refusal) -> None:
    """Records a fault if the config has an option at a value that no model document expresses."""
    value, place = config.written(refusal.name)
    if place is None:
        return
    for item in refusal.harmless:
        wanted = config.number(item[1:]) if isinstance(item, str) and item.startswith("=") else item
        if value == wanted and isinstance(value, bool) == isinstance(wanted, bool):
            return
    sentence = f"{config.family.classes[0]} with {refusal.name} {as_text(value)}"
    config.refuse("X003", sentence, place, f"{refusal.reason}; nothing was written")


def _family_losses(config: Config) -> list[Loss]:
    return [loss for lost in config.family.losses if (loss := lost(config)) is not None]


def _refuse_large_losses(config: Config, losses: list[Loss], tree: dict[str, Any]) -> None:
    """Records a fault for every loss that leaves out too many parameters of the model."""
    least = least_parameters(tree) if not config.faults else float("inf")
    for loss in losses:
        if abs(loss.parameters) > WEIGHTY * least:
            share = abs(loss.parameters) / least
            sentence = f"{config.family.classes[0]}: {loss.sentence}, {abs(loss.parameters):,.0f} parameters"
            hint = f"up to {share:.2%} of the model, which the document cannot express; nothing was written"
            config.refuse("X003", sentence, loss.place, hint)


def _option_losses(config: Config, choice: FamilyChoice) -> list[Loss]:
    """Losses for options that the file sets and the document does not state, by their effect on the cost."""
    losses, used = [], known_options(config.family)
    for key, value in config.tree.items():
        name = str(key)
        if name in used or name in choice.outer or name in KEYS:
            continue
        if name in CANNOT_BE_SAID and value:
            losses.append(Loss("not expressible", CANNOT_BE_SAID[name], key.place))
        elif name in APPROXIMATED and value:
            losses.append(Loss("approximated", f"{name}: {APPROXIMATED[name]}", key.place))
        elif _is_without_cost(name, config.family):
            losses.append(Loss("ignored", name, key.place))
    return losses


def known_options(family: Family) -> set[str]:
    """Keys at the top level of a file that options of the family or refusals read."""
    spelled = [name for option in family.options.values() for name in option.names]
    return {name.split(".")[0] for name in (*spelled, *(refusal.name for refusal in family.refusals))}


def is_known_option(family: Family, name: str) -> bool:
    """Whether the table has an entry for an option, or lists it as free of cost."""
    return (
        name in known_options(family)
        or name in KEYS
        or _is_without_cost(name, family)
        or OTHER_PARTS.fullmatch(name) is not None
    )


def _is_without_cost(name: str, family: Family) -> bool:
    listed = name in WITHOUT_COST or name in family.quiet or name in APPROXIMATED or name in CANNOT_BE_SAID
    return listed or is_token(name) or name.startswith("_")


def _unknown_options(config: Config, choice: FamilyChoice) -> list[Fault]:
    """One warning that lists the options that the table does not know, each with a suggestion for a likely typo."""
    unknown = [
        (str(key), key.place)
        for key in config.tree
        if not is_known_option(config.family, str(key)) and str(key) not in choice.outer
    ]
    words = f"options that {config.family.configuration} does not have"
    return unknown_names(words, unknown, lambda name: likely_name(name, known_options(config.family)))


# --- the document of a config, and a bound from below for its parameters


_OF_HEAD = {"head_transform": "head_transform", "head_bias": "head_has_bias"}
_TOP = ("vocab", "hidden", "positions", "max_sequence")


def model_document(config: Config, name: str, title: str) -> dict[str, Any]:
    """The model document as nested mappings whose leaves are values with origins."""
    made = Origin("file", "the file itself", config.place)
    tree: dict[str, Any] = {
        "schema": OriginValue("costmodel/model/v1", made),
        "name": OriginValue(name, made),
        "title": OriginValue(title, made),
        **{key: config[key] for key in _TOP},
    }
    if config["position_rows"].value is not None:
        tree["position_rows"] = config["position_rows"]
    tree |= {key: config[key] for key in ("embedding_norm", "token_types", "meta_tokens") if config[key].value}
    if config["streams"].value is not None:
        tree["residual_streams"] = config["streams"]
    if config["stream_rule"].value is not None:
        tree["stream_rule"] = config["stream_rule"]
    if config["entry_width"].value is not None:
        tree["layer_embedding"] = {"rows": config["entry_rows"], "width": config["entry_width"]}
    tree |= {"tied": config["tied"], "norm": config["norm"]}
    tree |= {key: config[name] for key, name in _OF_HEAD.items() if config.flag(name)}
    marks = config.family.layers(config)
    tree["layers"], losses = layers_by_kind(
        marks, lambda mark: config.family.build(config, mark), config["layer_count"].origin
    )
    config.losses.extend(losses)
    if config["prediction_depth"].value is not None and marks:
        ahead = config.family.ahead
        layer = config.family.build(config, marks[-1]) if ahead is None else ahead(config)
        tree["prediction"] = {"depth": config["prediction_depth"], "layer": {"count": OriginValue(1, made), **layer}}
    source = {"title": OriginValue(f"config.json of {title}", made), "where": OriginValue(config.file, made)}
    return tree | {"source": OriginValue("config", made), "sources": {"config": source}}


def single_expert_routers(tree: dict[str, Any]) -> Iterator[Loss]:
    """The loss for routers of layers with one expert: the classes build them, and costmodel does not count them."""
    alone = [kind for kind in tree["layers"] if "experts" in kind and kind["experts"]["count"].value == 1]
    if alone:
        rows = sum(kind["count"].value for kind in alone)
        yield Loss("approximated", "a router to one expert is not counted", None, float(rows * tree["hidden"].value))


def least_parameters(tree: dict[str, Any]) -> float:
    """A lower bound of the parameter count: embedding tables and feed-forward matrices only."""
    hidden = tree["hidden"].value
    found = tree["vocab"].value * hidden * (1 if tree["tied"].value else 2)
    for kind in tree["layers"]:
        found += kind["count"].value * _feed_matrices(hidden, kind)
    return float(found)


def _feed_matrices(hidden: int, kind: Half) -> float:
    """Parameters in the feed-forward matrices of a layer with this hidden width."""
    experts = kind.get("experts", {})
    networks = [(1, kind.get("mlp")), (1, experts.get("shared")), (experts["count"].value if experts else 0, experts)]
    total = 0.0
    for times, part in networks:
        if part:
            total += times * (3 if part["gated"].value else 2) * hidden * part["ffn_hidden"].value
    return total
