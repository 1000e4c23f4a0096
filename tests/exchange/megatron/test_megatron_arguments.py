"""Megatron-LM's own parser and checks, as kept in tests/verify/reference, against what we make of the same options."""

from __future__ import annotations

from typing import Any

import pytest
from each import each
from verify.make import reference
from verify.real.megatron_cases import CASES, options

from costmodel.exchange.import_result import Imported
from costmodel.exchange.megatron.options import READ, TABLE
from costmodel.ground.errors import CostModelError
from exchange.scripts import read

REAL = reference("megatron_arguments")
NAMES = set(REAL["options"].split())
STRATEGIES = ("no_shard", "optim", "optim_grads", "optim_grads_params")
# Megatron-LM finds this one later, when it makes the configuration of the layers.
LATER = {"--swiglu --squared-relu"}


def ours(found: Imported) -> dict[str, Any]:
    """The values that the arguments say too."""
    plan, workload, layers = (found.document[key] for key in ("plan", "workload", "model"))
    kinds = layers["layers"]
    feeds = [kind[half] for kind in kinds for half in ("mlp", "experts") if half in kind]
    return {
        **{
            key: plan.get(key)
            for key in ("dp", "tp", "pp", "cp", "ep", "etp", "micro_batch", "sequence_parallel", "zero")
        },
        **{key: workload.get(key) for key in ("global_batch", "sequence", "gradients")},
        "vpp": plan.get("vpp", 1),
        "recompute": plan["recompute"],
        "layers": sum(kind["count"] for kind in kinds),
        "sparse": sum(kind["count"] for kind in kinds if "experts" in kind),
        "widths": {kind["mlp"]["ffn_hidden"] for kind in kinds if "mlp" in kind},
        "expert widths": {kind["experts"]["ffn_hidden"] for kind in kinds if "experts" in kind},
        "heads": {kind["attention"]["head_dim"] for kind in kinds if "attention" in kind},
        "gated": {feed["gated"] for feed in feeds},
    }


def theirs(arguments: dict[str, str]) -> dict[str, Any]:
    """The same of Megatron-LM's arguments."""

    def number(name: str, otherwise: int | None = None) -> int | None:
        return int(arguments[name]) if name in arguments else otherwise

    def on(name: str) -> bool:
        return arguments.get(name) == "True"

    letters = arguments.get("hybrid_layer_pattern", "").replace("|", "")
    count = number("num_layers") or 0
    experts = number("num_experts", 0)
    every = arguments["moe_layer_freq"]
    pattern = [int(entry) for entry in every.strip("[]").split(",")] if "[" in every else []
    sparse = pattern or [int(index % int(every) == 0) for index in range(count)]
    marks = letters or "".join("*E" if experts and entry else "*-" for entry in sparse)
    strategy = STRATEGIES.index(arguments["data_parallel_sharding_strategy"])
    sharded = on("use_distributed_optimizer") or on("use_layer_wise_distributed_optimizer")
    mode = "selective" if arguments.get("recompute_granularity") == "selective" else "none"
    return {
        "dp": number("data_parallel_size"),
        "tp": number("tensor_model_parallel_size"),
        "pp": number("pipeline_model_parallel_size"),
        "cp": number("context_parallel_size"),
        "ep": number("expert_model_parallel_size"),
        "etp": number("expert_tensor_parallel_size") if experts else None,
        "micro_batch": number("micro_batch_size"),
        "sequence_parallel": on("sequence_parallel"),
        "zero": strategy if on("use_megatron_fsdp") else 3 if on("use_torch_fsdp2") else int(sharded),
        "global_batch": number("global_batch_size"),
        "sequence": number("seq_length"),
        "gradients": "fp32" if on("accumulate_allreduce_grads_in_fp32") else "bf16" if on("bf16") else "fp16",
        "vpp": number("virtual_pipeline_model_parallel_size", 1),
        "recompute": "full" if arguments.get("recompute_granularity") == "full" else mode,
        "layers": count,
        "sparse": marks.count("E"),
        "widths": {number("ffn_hidden_size")} if "-" in marks else set(),
        "expert widths": {number("moe_ffn_hidden_size")} if "E" in marks else set(),
        "heads": {number("kv_channels")} if "*" in marks and not on("multi_latent_attention") else set(),
        "gated": {on("swiglu") or on("quick_geglu")} if "-" in marks or "E" in marks else set(),
    }


def printed(arguments: dict[str, str]) -> str:
    """The head of a log with these arguments, as Megatron-LM prints it."""
    rows = [f"0:   {name} {'.' * (48 - len(name))} {value}" for name, value in arguments.items()]
    rows += ["0:   save ............................................ None", "0:   lr .............. 0.0001"]
    title, end = "arguments", "end of arguments"
    return "\n".join([f"0: {'-' * 24} {title} {'-' * 24}", *rows, f"0: {'-' * 20} {end} {'-' * 21}", "> building"])


CHECKED = [(case, found) for case, found in zip(CASES, REAL["cases"], strict=True)]
SOUND = [(case, found) for case, found in CHECKED if "refused" not in found and case[1] not in LATER]
BROKEN = [case for case, found in CHECKED if ("refused" in found or case[1] in LATER)]


@each("case, arguments", SOUND)
def test_options_come_to_what_megatron_makes_of_them(case: tuple[str, str, int], arguments: dict[str, str]) -> None:
    found = read("train.py " + " ".join(_quoted(options(case))), case[2])
    assert ours(found) == theirs(arguments)


@each("case, arguments", SOUND)
def test_arguments_at_the_head_of_a_log_say_the_same(case: tuple[str, str, int], arguments: dict[str, str]) -> None:
    script = read("train.py " + " ".join(_quoted(options(case))), case[2])
    log = read(printed(arguments))
    assert log.format == "arguments at the head of a log of Megatron-LM"
    assert log.facts["accelerators"].value == case[2]
    for part in ("workload", "stack", "plan", "assume"):
        assert log.document.get(part) == script.document.get(part), part
    shape = ("vocab", "hidden", "positions", "max_sequence", "tied", "norm", "layers")
    assert {key: log.document["model"][key] for key in shape} == {key: script.document["model"][key] for key in shape}


@pytest.mark.parametrize("case", BROKEN, ids=[case[1] for case in BROKEN])
def test_what_megatron_refuses_is_refused(case: tuple[str, str, int]) -> None:
    with pytest.raises(CostModelError) as raised:
        read("train.py " + " ".join(_quoted(options(case))), case[2])
    assert {fault.code for fault in raised.value.faults} == {"X005"}


def _quoted(words: list[str]) -> list[str]:
    return [f"'{word}'" for word in words]


# --- the table


def test_every_option_of_megatron_is_read_or_named() -> None:
    assert NAMES - TABLE.keys() == set()
    gone = {name for name, row in READ.items() if row.old} - NAMES
    printed_only = {"world-size", "virtual-pipeline-model-parallel-size"}
    with_a_package = {"kitchen-config-file", "kitchen-recipe-number"}
    assert TABLE.keys() - NAMES == gone | printed_only | with_a_package


@each("name", sorted(name for name in REAL["read"] if not READ[name].gone))
def test_kind_and_default_are_those_of_megatron(name: str) -> None:
    _, action, default = REAL["read"][name].split(" ", 2)
    row = READ[name]
    assert (row.kind.name == "flag") == (action in ("StoreTrueAction", "StoreFalseAction"))
    if row.kind.name == "flag":
        assert default == str(action == "StoreFalseAction")
    elif row.kind.name == "words":
        assert default == ("None" if row.default is None else str(list(row.default)))
    elif row.default is None:
        assert default in ("None", "0")  # of --cpu-offloading-num-layers
    else:
        assert default == str(row.default)


def keys_of(schema: Any, path: str) -> list[str]:
    """Paths of a document's keys, those of the documents inside it too."""
    found = []
    for name, field in schema.model_fields.items():
        key = f"{path}.{field.alias or name}"
        found.append(key)
        inner = _inner(field.annotation)
        if inner is not None and name not in ("prediction", "sources", "source", "published"):
            found += keys_of(inner, key)
    return found


def _inner(annotation: Any) -> Any:
    """The document that an annotation holds, if one."""
    from costmodel.documents.schemas.base import Document

    if isinstance(annotation, type):
        return annotation if issubclass(annotation, Document) else None
    parts = [_inner(part) for part in getattr(annotation, "__args__", ())]
    documents = [part for part in parts if part is not None]
    return documents[0] if len(documents) == 1 else None
