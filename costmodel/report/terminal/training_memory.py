"""The memory of training in a terminal: the breakdown of a plan's stages, and the states of a model alone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from costmodel.documents.schemas.default_values import SAFE
from costmodel.estimate.model.mixers.mixing_half import CacheKind
from costmodel.estimate.shared.plan_batch import STAGES
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.memory_breakdown import ALLOCATED, LINES, RESERVED, host_band, stored_gradient
from costmodel.estimate.training.parallelism.pipeline import summed_once, weight_replication
from costmodel.estimate.training.training_inputs import ELEMENT_BYTES
from costmodel.estimate.training_answer.evaluate_training import verdict
from costmodel.explore.plan_choice_text import adapter_notes, recompute_and_offload_texts
from costmodel.ground.units import counted, gib, percent, show_memory
from costmodel.report.answers.memory import room_words
from costmodel.report.answers.plan_parts import LedgerLine, LedgerSum, MemoryLedger
from costmodel.report.document import AnswerDocument, Cell, Column, Section, Table, Value
from costmodel.report.terminal.formatting import BAND
from costmodel.report.terminal.head import assumed_lines, imported_files_lines, job_lines, model_name_lines
from costmodel.report.terminal.layout import HEAD, VERDICT_STYLE, WARN, CellTable, Line, shell_line, styled
from costmodel.report.terminal.plan_lines import memory_band_text, verdict_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from costmodel.estimate.training_answer.predict_training import Answer
    from costmodel.explore.explain.model_memory import ModelMemory


def training_ledger(answer: Answer) -> MemoryLedger:
    """The lines of each stage, and the totals that tools show."""
    held, stages = answer.evaluation.ledger, int(answer.evaluation.block.pp[0])
    there = held.stages(stages)
    lines = [
        LedgerLine(
            name,
            [number(held.line(name, place)) for place in there],
            ledger_note(answer, name),
            _ROLES.get(name, "buffers"),
            ledger_label(answer, name),
        )
        for name in LINES
    ]
    elsewhere = "; stages on other nodes take less of theirs" * (answer.evaluation.block.structure.shares == "stages")
    return MemoryLedger(
        f"Per GPU, a pipeline of {stages} stages{elsewhere}" if stages > 1 else "Per GPU, all in one pipeline stage",
        [STAGES[place] for place in there],
        lines,
        [
            LedgerSum("allocated", len(ALLOCATED), "torch.cuda.max_memory_allocated"),
            LedgerSum("reserved", len(RESERVED), "+ fragmentation: max_memory_reserved"),
            LedgerSum("peak", len(LINES), f"+ {_paged_states_words(answer)}runtime: as in nvidia-smi", "memory_peak"),
        ],
        float(answer.inputs.usable_memory),
        "usable",
        _free_memory_line(answer),
        _host_memory_line(answer),
        fits=verdict(answer.evaluation.costs.row()["memory_share"]) != "does not fit",
        band=memory_band_text(answer.evaluation.costs.row()),
    )


def _host_memory_line(answer: Answer) -> list[Text]:
    """A line on host memory that offload needs; empty without offload."""
    costs = answer.evaluation.costs.row()
    if not costs["host_memory"]:
        return []
    where = answer.evaluation.block.structure.offload_to
    tool = "cpu, as free shows" if where == "cpu" else where
    share, held = percent(costs["host_share"]), "what it has"
    if where == "cpu" and answer.inputs.case.node.memory is None:
        held = f"{gib(answer.inputs.host.capacity)} GiB (assumed)"
    low, high = (float(np.max(end)) for end in host_band(answer.inputs, costs["host_memory"]))
    band = f"; {BAND} {gib(low)} – {gib(high)} GiB"
    return [styled(f"  on the host  {gib(costs['host_memory'])} GiB of a node ({tool}), {share} of {held}{band}")]


def _paged_states_words(answer: Answer) -> str:
    """Words on paged optimizer states, for the line `runtime`."""
    return "pages and " if answer.inputs.optimizer.paged else ""


def _free_memory_line(answer: Answer) -> Text:
    """A line on how much of the usable memory is used and free."""
    costs, usable = answer.evaluation.costs.row(), float(answer.inputs.usable_memory)
    stated = verdict(costs["memory_share"])
    words = f"  {room_words(costs['memory_share'] * usable, usable)}   {verdict_words(costs)}"
    risky = stated == "fits" and costs["fit_chance"] < SAFE
    return styled(words, WARN if risky else VERDICT_STYLE[stated])


def _active_parameters_line(facts: ModelMemory) -> Iterator[Text]:
    """A line on the parameters of an MoE model that one token uses."""
    if facts.active is not None:
        yield styled(f"  {float(facts.active):,.0f} active: met by one token, embedding and head included")


def model_memory(facts: ModelMemory) -> AnswerDocument:
    """A model without a machine: parameters, weights, and states by ZeRO stage."""
    name, count = facts.model.title, f"{float(facts.parameters):,.0f} parameters"
    head: list[Line] = [
        *job_lines([facts.assumed]),
        styled(f"{name}: {count}; weights and AdamW states alone", HEAD),
        *_active_parameters_line(facts),
        *imported_files_lines(facts.foreign),
        *model_name_lines(facts.hub),
        *([styled(f"its shape is that of {facts.twin} of the library")] if facts.twin else []),
    ]
    stages = {f"zero {stage}, dp {dp:.0f}": (dp, stage) for dp, stage in facts.recipes[0].kept if stage}
    held = {row: [float(recipe.kept[each]) for recipe in facts.recipes] for row, each in stages.items()}
    held = {"weights": [float(recipe.weights) for recipe in facts.recipes], **held}
    rows: list[list[Cell]] = [[row, *(Value(gib(each), each) for each in values)] for row, values in held.items()]
    whole = " · ".join(gib(float(recipe.kept[8.0, 0])) for recipe in facts.recipes)
    beneath = [styled(f"  all states unsharded: {whole} GiB; activations and buffers come on top")]
    table = Table([Column("GiB a rank", "k"), *(Column(recipe.title) for recipe in facts.recipes)], rows)
    sections = [Section("recipes", "Weights and states", table=table, beneath=beneath)]
    served = _cache_lines(facts)
    sections += [Section("cache", "Cache in serving", ahead=served, detail="the cache in serving")] if served else []
    assumed = assumed_lines([item for foreign in facts.foreign.values() for item in foreign.assumed])
    closing = [shell_line("Next:", _search_command(facts))]
    return AnswerDocument(None, name, head, f"{name} has {count}.", "plain", sections, assumed, closing=closing)


def _cache_lines(facts: ModelMemory) -> list[Line]:
    """The KV cache of a sequence in serving, by kind of layer."""
    if not facts.cache:
        return []
    table = cache_rows(facts.cache, ("a token", f"sequence of {facts.served:,.0f}"))
    return [table, styled("  in serving: 16 bits, all heads once")]


def _search_command(facts: ModelMemory) -> str:
    """The command that ranks plans for this model."""
    return shlex.join(["costmodel", "search", "--model", facts.named])


def cache_rows(kinds: Sequence[CacheKind], columns: Sequence[str]) -> CellTable:
    """A row for each kind of layer, and their sum if there are several; a dash where a kind has no bytes."""
    shown = list(kinds)
    if len(kinds) > 1:
        sums = tuple(map(sum, zip(*(kind.held for kind in kinds), strict=True)))
        shown.append(CacheKind("all", sum(kind.layers for kind in kinds), sums))
    rows = [(kind.name, counted(kind.layers), *map(_gib_text, kind.held)) for kind in shown]
    return CellTable(("cache by layers", "layers", *columns), rows, "lr" + "r" * len(columns), indent="  ")


def _gib_text(nbytes: float) -> str:
    """Bytes in GiB as text; a dash for 0."""
    return show_memory(nbytes) if nbytes else "—"


_ROLES = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "recompute": "activations",
    "logits": "third",
    "runtime": "runtime",
    "fragmentation": "raw",
}
_NOTES = {
    "gathered": "unsharded units in flight",
    "buckets": "reduce buckets",
    "context": "keys and values of other ranks",
    "recompute": "what one layer holds while it is recomputed",
    "logits": "logits, loss, last norm",
    "update": "temporary memory of the optimizer step beyond backward",
    "fragmentation": "of the caching allocator (assumed)",
    "pages": "optimizer states in managed memory, which torch does not count, and which move to the host",
    "runtime": "context and communicators (assumed)",
}


def ledger_label(answer: Answer, name: str) -> str:
    """The label of a line; `gathered` is called `copies` if no rank gathers weights from another."""
    gathers = answer.evaluation.block.structure.zero == 3 and _shards_states(answer)
    return "copies" if name == "gathered" and not gathers else name


def _shards_states(answer: Answer) -> bool:
    """Whether several ranks shard the training states."""
    return number(answer.evaluation.block.shards) > 1


def ledger_note(answer: Answer, name: str) -> str:
    """A note on the content of a line."""
    inputs, structure = answer.inputs, answer.evaluation.block.structure
    states, optimizer = inputs.stack.states, f"{float(inputs.optimizer_state):.3g} B a parameter"
    notes = {
        "weights": _weight_words(answer),
        "gradients": _gradient_words(answer),
        "optimizer": f"{optimizer}, {_sharding_words(answer)}" if _effective_zero(answer) >= 1 else optimizer,
        "activations": recompute_and_offload_texts(structure)[0],
    }
    if ledger_label(answer, "gathered") == "copies":
        unpacked = "4-bit weights, unpacked for use"
        notes["gathered"] = (
            unpacked if inputs.has_packed_weights else "16-bit copies of what is used, and their gradients"
        )
    if inputs.ranks == 1:
        notes["runtime"] = "context (assumed)"
    if states.cast and inputs.tuning is None:
        notes["gathered"] = f"{states.compute:.0f} B a parameter that matmuls read, autocast's copies"
    notes |= adapter_notes(inputs)
    if structure.recompute_modules is not None:
        notes["recompute"] = "recomputed modules of one layer"
    return notes.get(name, _NOTES.get(name, ""))


def _effective_zero(answer: Answer) -> int:
    """The effective ZeRO stage: 0 if one rank alone has all states."""
    return answer.evaluation.block.structure.zero if _shards_states(answer) else 0


def _sharding_words(answer: Answer) -> str:
    """Over how many ranks the states are sharded, in words."""
    replicas = float(answer.evaluation.block.dp_replicate[0])
    return "sharded over dp" if replicas == 1 else "sharded over dp / dp_replicate"


def _weight_words(answer: Answer) -> str:
    """How many bytes weights take per parameter, and how they are sharded."""
    inputs, structure = answer.inputs, answer.evaluation.block.structure
    states, narrow, zero = inputs.stack.states, inputs.narrow, _effective_zero(answer)
    kept = 0.0 if narrow and narrow.primary else states.weights
    copies = f" + {inputs.recipe.copies:.3g} {inputs.recipe.name}" if narrow and narrow.cached else ""
    words = f"{kept:.0f}{copies} B a parameter"
    words += ", once for each direction" if weight_replication(structure.schedule) > 1 else ""
    if zero == 3:
        return f"{words}, {_sharding_words(answer)}"
    whole = states.sharded_master and zero > 0
    return f"{words}, {_sharding_words(answer)}, and {states.compute:.0f} B whole" if whole else words


def _gradient_words(answer: Answer) -> str:
    """How many bytes gradients take per parameter, and how they are sharded."""
    inputs, block = answer.inputs, answer.evaluation.block
    zero, offload, width = _effective_zero(answer), block.structure.offload, inputs.widths.gradient
    late = bool(np.any(summed_once(inputs, block)))
    words = f"{width:.0f} B a parameter"
    if "optimizer" in offload and zero >= 2 and not late and inputs.stack.offload and inputs.stack.offload.gradients:
        return f"{words}, in pieces on their way to the host"
    if inputs.stack.states.gradient_copies and zero <= 1 and "optimizer" not in offload:
        wide = width == ELEMENT_BYTES["fp32"]
        return f"{words}, and {width / 2:.0f} B of backward" if wide else f"{words}, and {2 * width:.0f} B of the shard"
    if zero < 2:
        return words
    kept = stored_gradient(inputs.stack.states, width, zero=zero)
    return (
        f"{words}, whole until the last micro-batch" if late else f"{kept:.0f} B a parameter, {_sharding_words(answer)}"
    )
