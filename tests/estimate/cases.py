"""Small cases, built from plain values, that several folders of tests ask about."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import Any

import numpy as np
from ruamel.yaml import YAML

from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.resolved_scenario import ResolvedScenario, case_of
from costmodel.documents.schemas.efficiency import Protocols
from costmodel.documents.schemas.scenario import Plan, Scenario
from costmodel.documents.schemas.stack import Stack
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training_answer.predict_training import Answer, answer

FASTEST = 1e300
TRAINING_STACKS = [name for name in names("stack") if isinstance(read("stack", name), Stack)]


def model(
    *,
    layers: int = 8,
    hidden: int = 1024,
    heads: int = 16,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    ffn_hidden: int | None = None,
    vocab: int = 32768,
    gated: bool = False,
    tied: bool = False,
) -> dict[str, Any]:
    """A model written out: rotary, no biases, RMSNorm."""
    attention = {"heads": heads, "kv_heads": kv_heads or heads, "head_dim": head_dim or hidden // heads}
    return {
        "schema": "costmodel/model/v1",
        "name": "inline",
        "title": "A model written out",
        "vocab": vocab,
        "hidden": hidden,
        "positions": "rotary",
        "max_sequence": 8192,
        "tied": tied,
        "norm": "rmsnorm",
        "layers": [
            {"count": layers, "attention": attention, "mlp": {"ffn_hidden": ffn_hidden or 4 * hidden, "gated": gated}}
        ],
        "source": "composition",
    }


def mixed(*, layers: int = 8, count: int = 8, top_k: int = 2, ffn_hidden: int = 1024, **experts: Any) -> dict[str, Any]:
    """The same with gated experts in the place of its MLPs."""
    shape = model(layers=layers, gated=True)
    kind = {name: value for name, value in shape["layers"][0].items() if name != "mlp"}
    kind["experts"] = {"count": count, "top_k": top_k, "ffn_hidden": ffn_hidden, "gated": True, **experts}
    return {**shape, "layers": [kind]}


def with_mixer(**mixer: dict[str, Any]) -> dict[str, Any]:
    """The model with another mixer, or none, in the place of its attention."""
    shape = model()
    kind = {key: value for key, value in shape["layers"][0].items() if key != "attention"}
    return {**shape, "layers": [{**kind, **mixer}]}


def document(
    shape: str | dict[str, Any] = "llama-3-8b",
    *,
    node: str | dict[str, Any] = "dgx-h100",
    nodes: int = 1,
    sequence: int = 4096,
    global_batch: int = 64,
    stack: str | dict[str, Any] = "megatron-core",
    **more: Any,
) -> dict[str, Any]:
    """A scenario of few words; `more` is any other key of it, `workload` adding to it."""
    workload = {"kind": "training", "sequence": sequence, "global_batch": global_batch, **more.pop("workload", {})}
    return {
        "schema": "costmodel/scenario/v1",
        "title": "a case of the tests",
        "model": shape,
        "cluster": more.pop("cluster", {"node": node, "nodes": nodes}),
        "workload": workload,
        "stack": stack,
        **more,
    }


def case(shape: str | dict[str, Any] = "llama-3-8b", **more: Any) -> ResolvedScenario:
    """The case of such a scenario."""
    return _case(json.dumps(document(shape, **more), sort_keys=True))


@functools.lru_cache(maxsize=512)
def _case(document: str) -> ResolvedScenario:
    return case_of(Scenario.model_validate(json.loads(document)))


def inputs(shape: str | dict[str, Any] = "llama-3-8b", **more: Any) -> TrainingInputs:
    """The numbers of such a case."""
    return training_inputs(case(shape, **more))


def ask(asked: TrainingInputs, **plan: Any) -> Answer:
    """One plan of it, evaluated."""
    return answer(asked, Plan(**plan))


def costs(asked: TrainingInputs, **plan: Any) -> dict[str, float]:
    """The columns of one plan, which must be valid."""
    given = ask(asked, **plan)
    assert given.refused == ()
    return given.evaluation.costs.row()


def one(value: Any) -> float:
    """The plain number of a block of one row."""
    return float(np.asarray(value).flat[0])


def line(given: Answer, name: str) -> float:
    """A line of the ledger on the worst stage."""
    ledger = given.evaluation.ledger
    peaks = [one(peak) for peak in ledger.peaks]
    return one(ledger.line(name, peaks.index(max(peaks))))


def without_network(asked: TrainingInputs) -> TrainingInputs:
    """The same case on links of infinite rate and no latency."""
    fits = {
        name: fit.model_copy(update={"start": 0.0, "hop": 0.0, "bandwidth": FASTEST})
        for name, fit in asked.collectives.items()
    }
    hops = {"near": "0 s", "far": "0 s"}
    whole = {"start": "0 s", "share": 1.0, "ring": hops, "tree": hops}
    protocols = dict.fromkeys(("ll", "ll128", "simple"), whole) | {"nvls": {"start": "0 s", "far": "0 s"}}
    network = asked.network.model_copy(update={"protocols": Protocols.model_validate(protocols)})
    fabric = asked.case.scale_out.model_copy(update={"bandwidth": FASTEST})
    return replace(asked, case=replace(asked.case, scale_out=fabric), collectives=fits, network=network)


def machine(ranks: int = 1, shape: str | dict[str, Any] | None = None, **more: Any) -> TrainingInputs:
    """A node of so many accelerators, all alike, each with its interface, and a run that has a length and a price."""
    node = written_out("node", "dgx-h100", name="few", accelerators=ranks, scale_out={"nics": ranks})
    more = {"node": node, "assume": {"price": "2 USD/GPU/h", "variation": 0}, **more}
    return inputs(shape or model(gated=True), **{**more, "workload": {"tokens": "1 T", **more.get("workload", {})}})


def fabric(rails: str, oversubscription: float = 4.0) -> TrainingInputs:
    """Twelve nodes whose interfaces meet on rails, or all on one spine."""
    cluster = {"node": "dgx-h100", "nodes": 12, "rails": rails, "oversubscription": oversubscription}
    more = {"global_batch": 96, "workload": {"tokens": "1 T"}, "assume": {"price": "2 USD/GPU/h"}}
    return inputs(model(hidden=3072, heads=24), cluster=cluster, **more)


def free_links(asked: TrainingInputs) -> TrainingInputs:
    """The same, inside nodes too, and for tokens on their way to experts; communicators take no memory."""
    inside = asked.case.scale_up.model_copy(update={"bandwidth": FASTEST})
    runtime = asked.stack.runtime.model_copy(update={"communicator": 0.0})
    free = replace(
        asked,
        case=replace(asked.case, scale_up=inside),
        stack=asked.stack.model_copy(update={"runtime": runtime}),
    )
    return _experts(without_network(free), start=0.0)


def with_rates(asked: TrainingInputs, **rates: Any) -> TrainingInputs:
    """The same case with other rates of kernels."""
    return replace(asked, rates=replace(asked.rates, **rates))


def free_memory(asked: TrainingInputs) -> TrainingInputs:
    """The same case where only products and attention take time."""
    return with_rates(asked, memory_bandwidth=FASTEST)


def free_host(asked: TrainingInputs) -> TrainingInputs:
    """The same case beside a host whose link, memory and drives are of infinite rate, as the device's memory is."""
    host = replace(asked.host, link=FASTEST, bandwidth=FASTEST, read=FASTEST, write=FASTEST)
    return free_memory(replace(asked, host=host))


def instant_host(asked: TrainingInputs) -> TrainingInputs:
    """The same case with a host that nothing waits for, however many operations it issues."""
    launch = asked.stack.launch.model_copy(update={"operation": 0.0})
    free = _experts(asked, host=0.0)
    experts = free.experts and replace(free.experts, host=0.0)
    return replace(free, stack=asked.stack.model_copy(update={"launch": launch}), experts=experts)


def even_kernels(asked: TrainingInputs, share: float = 1.0) -> TrainingInputs:
    """The same case where products and attention take time by their work alone, whatever its shape."""
    fit = asked.rates.matmul.model_copy(
        update={"start": 0.0, "memory_share": FASTEST, "compute_share": share, "backward_share": share}
    )
    attention = asked.rates.attention and asked.rates.attention.model_copy(update={"half_sequence": 0.0})
    even = with_rates(asked, matmul=fit, linear=replace(asked.rates.linear, fit=fit), attention=attention)
    return _experts(even, half_rows=0.0)


def ideal(asked: TrainingInputs, share: float = 1.0) -> TrainingInputs:
    """All of these: nothing but the work of products and attention is left."""
    return free_links(free_memory(instant_host(even_kernels(asked, share))))


def adapted(method: str, ranks: int = 1, **more: Any) -> TrainingInputs:
    """Ideal accelerators that train adapters of next to no width."""
    asked = ideal(machine(ranks, workload={"tuning": {"method": method}}, **more))
    scenario = asked.case.scenario
    tuning = scenario.workload.tuning.model_copy(update={"rank": 1e-15})  # type: ignore[union-attr]
    workload = scenario.workload.model_copy(update={"tuning": tuning})
    return replace(asked, case=replace(asked.case, scenario=scenario.model_copy(update={"workload": workload})))


def _experts(asked: TrainingInputs, **kernels: float) -> TrainingInputs:
    """The same case with other figures for its experts, if it has any."""
    if asked.experts is None:
        return asked
    changed = asked.experts.kernels.model_copy(update=kernels)
    return replace(asked, experts=replace(asked.experts, kernels=changed))


def written_out(kind: str, of: str, **changes: Any) -> dict[str, Any]:
    """A shipped document as plain values, with some of its keys changed; a changed group keeps its other keys."""
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(find(kind, of).read_text("utf-8"))
    for key, change in changes.items():
        document[key] = {**document[key], **change} if isinstance(change, dict) else change
    return document
