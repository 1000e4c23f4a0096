"""What the accelerators of a replica send: over which link, how often, how long."""

from __future__ import annotations

from costmodel.estimate.serving.evaluate_apart import ApartEvaluation
from costmodel.estimate.serving.operating_point import micro_batch
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.replica_traffic import transfers
from costmodel.explore.kept_answers import one
from costmodel.ground.units import show, show_time, significant
from costmodel.report.answers.plan_parts import GroupWait, PlanTraffic, SentMessage
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import styled

_GROUPS = ("tp", "dcp", "ep", "pp")


def serving_traffic(answer: ServingAnswer) -> PlanTraffic:
    """What is sent in a step of decoding at the scenario's load, and for one prompt by itself."""
    evaluation, costs, case = answer.evaluation, answer.costs, answer.inputs.case
    sent = []
    for item in transfers(answer.inputs, evaluation.layout, evaluation.in_flight):
        inside = one(item.transfer.group.domains) == 1
        link = case.scale_up.name if inside else case.scale_out.name
        sent.append(SentMessage(item.moment, item.transfer, link))
    experts = {"ep": "ep" if one(evaluation.layout.ep) > 1 else "experts"}
    waits = [GroupWait(name, costs[f"{name}_exposed"], experts.get(name, "")) for name in _GROUPS]
    own, lines = answer.inputs.engine.kernels.own_all_reduce, list[Line]()
    if own and costs["tp_exposed"] and answer.inputs.kernels.all_reduce is not None:
        up_to = f"Up to {show(own, 'B')} by the engine's own all-reduce"
        lines.append(styled(f"{up_to}; larger ones, and those between nodes, by NCCL."))
    lines += [*_between(answer), *([styled(_cache(answer))] if sent else [])]
    return PlanTraffic(
        f"{_carried(answer)}; prompt: one prompt by itself",
        sent,
        waits,
        ("tpot", costs["tpot"], "of a token's time"),
        beneath=lines,
    )


def _carried(answer: ServingAnswer) -> str:
    """The sequences of a step: of a pipeline, those of one micro-batch, which passes all stages."""
    layout = answer.evaluation.layout
    decodes = significant(one(micro_batch(layout, answer.evaluation.in_flight)))
    if one(layout.pp) == 1:
        return f"Sent by each GPU; step: one token for each of {decodes} requests"
    return f"Sent by each GPU; step: one token for each of {decodes} requests, a micro-batch of {one(layout.pp):.0f}"


def _cache(answer: ServingAnswer) -> str:
    """How ranks divide keys and values."""
    if answer.costs["dcp_exposed"]:
        return "Ranks of dcp divide keys and values by tokens, and exchange queries and results by NCCL."
    if one(answer.evaluation.layout.dp_attention) > 1:
        return "Each attention group keeps the cache of its own requests, which needs no communication."
    if any(kind.latent is not None for kind in answer.inputs.model.layers):
        return "Every rank of a tp group keeps the whole latent cache, which needs no communication."
    return "Keys and values are split by heads and need no communication."


def _between(answer: ServingAnswer) -> list[Line]:
    """The cache on its way from prefill to decode."""
    evaluation = answer.evaluation
    if not isinstance(evaluation, ApartEvaluation):
        return []
    way, carried = evaluation.transfer, significant(one(evaluation.transfer.most))
    words = f"{show(one(way.nbytes), 'B')} a prompt, {show_time(one(way.time))}, {show_time(one(way.exposed))} exposed"
    return [styled(f"  kv  prefill to decode: {words}; the links carry {carried} prompts/s")]
