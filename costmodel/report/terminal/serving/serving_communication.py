"""What the accelerators of a replica send: over which link, how often, how long."""

from __future__ import annotations

import math

from rich.text import Text

from costmodel.equations.network.collectives import algorithm_bandwidth, bus_bandwidth
from costmodel.estimate.serving.evaluate_apart import ApartEvaluation
from costmodel.estimate.serving.operating_point import micro_batch
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.replica_traffic import ServingTransfer, transfers
from costmodel.explore.kept_answers import one
from costmodel.ground.units import show, show_time, significant
from costmodel.report.terminal.serving.serving_estimate import following, problems, titled
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import HEAD, styled

_GROUPS = (("tp", "tp_exposed"), ("dcp", "dcp_exposed"), ("ep", "ep_exposed"), ("pp", "pp_exposed"))
_NAMES = ("", "group", "ranks", "link", "op", "size", "count", "time", "algbw", "busbw")


def sent(answer: ServingAnswer) -> list[ServingTransfer]:
    """Everything that is sent at the scenario's load."""
    evaluation = answer.evaluation
    return [] if answer.refused else list(transfers(answer.inputs, evaluation.layout, evaluation.in_flight))


def communication(answer: ServingAnswer) -> list[Line]:
    """Who talks over what in a step of decoding, and for one prompt, in nccl-tests' columns."""
    rows = [_row(answer, item) for item in sent(answer)]
    costs, experts = answer.costs, "ep" if one(answer.evaluation.layout.ep) > 1 else "experts"
    lines: list[Line] = [
        *titled(answer),
        styled(f"{_carried(answer)}; prompt: one prompt by itself", HEAD),
        CellTable(_NAMES, rows, "llrllrrrrr", drop=("algbw", "link")),
        styled("  algbw, busbw in GB/s" if rows else "  nothing: one accelerator in every group"),
    ]
    for name, key in _GROUPS:
        if costs[key]:
            share = costs[key] / costs["tpot"]
            words = "" if math.isnan(share) else f", {share * 100:.1f} % of the time of a token"
            name = experts if name == "ep" else name
            lines.append(styled(f"  {name}  {show_time(costs[key])} a step{words}"))
    own = answer.inputs.engine.kernels.own_all_reduce
    if own and costs["tp_exposed"] and answer.inputs.kernels.all_reduce is not None:
        lines.append(
            styled(
                f"Up to {show(own, 'B')} by the engine's own all-reduce; larger ones, and those between nodes, by NCCL."
            )
        )
    lines += _between(answer)
    lines += [styled(_cache(answer))] if rows else []
    longest = max(_GROUPS, key=lambda group: costs[group[1]])[1]
    figure = longest if costs[longest] else "tpot"
    return [*lines, *problems(answer), Text(), following(answer, "explain", figure, before="Next:")]


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


def _row(answer: ServingAnswer, item: ServingTransfer) -> tuple[str, ...]:
    transfer, case = item.transfer, answer.inputs.case
    ranks, time, size = one(transfer.group.ranks), one(transfer.time), one(transfer.message)
    busbw = bus_bandwidth(size, ranks, time, operation=transfer.operation)
    return (
        item.moment,
        transfer.group.name,
        f"{ranks:.0f}",
        case.scale_up.name if one(transfer.group.domains) == 1 else case.scale_out.name,
        transfer.operation.replace("_", "-"),
        show(size, "B"),
        f"{one(transfer.count):,.0f}",
        show_time(time),
        significant(one(algorithm_bandwidth(size, time)) / 1e9),
        significant(one(busbw) / 1e9),
    )
