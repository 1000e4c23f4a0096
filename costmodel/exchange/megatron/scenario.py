"""Options of Megatron-LM to a part of a scenario (model, workload, plan, stack and what is assumed), and back.

The options stand in a shell script, in YAML, or among the arguments that the program prints at the head of a log.
Nothing runs. Every value has its origin: a line of the text, or the default of the version of Megatron-LM named. A
script is written from the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.scenario import Plan
from costmodel.exchange.foreign_keys import UNKNOWN_STATES, because
from costmodel.exchange.import_result import COUNTS, GivenSize, Imported, Origin, OriginValue
from costmodel.exchange.launcher_options import environment_facts, launcher_verdicts
from costmodel.exchange.megatron.model import CANNOT, model_of_options, model_options
from costmodel.exchange.megatron.options import (
    OF_LAYOUT,
    OF_MODEL,
    OF_SOFTWARE,
    OF_WORKLOAD,
    OPTIMIZERS,
    OTHER_MODELS,
    OVERLAPS,
    RECIPES,
    REFUSED,
    TABLE,
    TITLE,
    VERSION,
    spelling,
)  # fmt: skip
from costmodel.exchange.megatron.plan import plan_of_options, plan_options
from costmodel.exchange.megatron.stated_options import MegatronFlags, accelerator_count, read_statement
from costmodel.exchange.option_rows import Table, renamed_option_hint, written
from costmodel.exchange.training.job import NOWHERE, Job, TrainingFormat, TrainingRemarks
from costmodel.exchange.values import as_text, document_name, likely_name, placed_document, unknown_names
from costmodel.ground.errors import CostModelError, Fault, Place


def read_options(
    text: str, file: str, *, size: GivenSize | None = None, vocab: int | None = None, title: str = "model"
) -> Imported:
    """The scenario values that a text of Megatron-LM options states.

    `size` (the cluster), `vocab` (the vocabulary) and `title` (the model's name) are given beside the text. Values that
    are not stated anywhere are in `missing`; keys that depend on them are left out.
    """
    flags = MegatronFlags(read_statement(text, file), file)
    around = launcher_verdicts(flags.statement.launch)
    around.join(environment_facts(flags.statement.environment, file))
    facts = {**{path: value for path, value in around.weak.items() if path in COUNTS}, **accelerator_count(flags)}
    found = (size or GivenSize()).accelerators(facts)
    if isinstance(found, Fault):
        flags.faults.append(found)
    elif found is not None:
        facts["accelerators"] = found
    _refuse_options(flags)
    laid_out = plan_of_options(flags, facts.get("accelerators"))
    name, assume = stack_of_options(flags)
    tree: dict[str, Any] = {
        "model": _named_model(flags, vocab, title),
        "workload": workload_of_options(flags, laid_out.get("dp")),
        "stack": name,
        "plan": laid_out,
    }
    if assume:
        tree["assume"] = assume
    dropout_loss(flags)
    _losses(flags)
    warnings = [*flags.warnings, *_unknown_options(flags)]
    if flags.faults:
        raise CostModelError(*flags.faults, *flags.missing)
    document, origins = placed_document(tree, Place(file))
    validate(Plan, document["plan"], file)
    if "vocab" in tree["model"]:
        validate(Model, document["model"], file)
    kind = f"{flags.statement.form} of Megatron-LM"
    losses, missing = (*flags.losses, *around.losses), tuple(flags.missing)
    keys = (*around.keys, *flags.verdicts())
    return Imported(kind, document, origins, losses, (*around.warnings, *warnings), facts, missing, keys)


def _named_model(flags: MegatronFlags, vocab: int | None, title: str) -> dict[str, Any]:
    """The model with the name and the source that a document needs."""
    given = {} if vocab is None else {"vocab": OriginValue(vocab, Origin("assumed", "given beside the text"))}
    made = Origin("file", "the text itself", Place(flags.file))
    source = {"title": OriginValue("Options of Megatron-LM", made), "where": OriginValue(flags.file, made)}
    said = model_of_options(flags)
    if given:
        flags.missing = [fault for fault in flags.missing if not fault.sentence.startswith("the vocabulary")]
    named = {"name": OriginValue(document_name(title), made), "title": OriginValue(title, made)}
    head = {"schema": OriginValue("costmodel/model/v1", made), **named}
    return head | said | given | {"source": OriginValue("options", made), "sources": {"options": source}}


def _refuse_options(flags: MegatronFlags) -> None:
    """Records a fault for each stated option that no document expresses."""
    program = flags.statement.program
    if program in OTHER_MODELS:
        flags.refuse("X003", f"{program} trains {OTHER_MODELS[program]}", None, "no document expresses such a model")
    for name, what in REFUSED.items():
        stated = flags.stated.get(name)
        if stated is not None and [word.text for word in stated.words] != ["0"]:
            flags.refuse("X003", f"--{name}: {what}", stated.place, "no document states it; nothing was written")
    for name, stated in flags.stated.items():
        if name in TABLE and TABLE[name].gone:
            sentence, hint = renamed_option_hint(TABLE[name])
            flags.refuse("X005", f"--{sentence}", stated.place, hint)


def _losses(flags: MegatronFlags) -> None:
    """Losses for stated options that fill no costmodel key, by their effect on the cost."""
    for word in flags.statement.stray:
        flags.lose("ignored", f"{word.doubt.sentence if word.doubt else as_text(word.text)}: read as nothing")
    for name, stated in flags.stated.items():
        texts, row = [word.text for word in stated.words], TABLE.get(name)
        if row is not None and row.costs_nothing:
            flags.lose("ignored", f"--{name}", name)
        elif row is not None and row.loss and not (len(texts) == 1 and texts[0] in row.harmless):
            flags.lose(row.loss[0], f"--{name}: {row.loss[1]}", name)


def _unknown_options(flags: MegatronFlags) -> list[Fault]:
    """One warning that lists the options that Megatron-LM does not have."""
    unknown = [(f"--{name}", stated.place) for name, stated in flags.stated.items() if name not in TABLE]

    def likely(name: str) -> str:
        close = likely_name(name.removeprefix("--"), TABLE)
        return f"--{close}" if close else ""

    return unknown_names("options that Megatron-LM does not have", unknown, likely)


# --- workload, and the types of a training


def workload_of_options(flags: MegatronFlags, dp: OriginValue | None) -> dict[str, Any]:
    """The workload as a mapping of values with origins."""
    sequence = flags.first("seq-length", "encoder-seq-length")
    if not sequence.value:
        flags.need_option(("seq-length", "encoder-seq-length"))
        sequence = sequence._replace(value=1)
    longest = flags.number("max-position-embeddings")
    if longest and sequence.value > longest:
        sentence = f"--seq-length {sequence.value} is over --max-position-embeddings {longest}"
        flags.refuse("X005", sentence, sequence.place)
    tree: dict[str, Any] = {"kind": flags.fixed("training", "a training script"), "sequence": sequence}
    batch = _global_batch(flags, dp)
    if batch is not None:
        tree["global_batch"] = batch
    tokens = _token_budget(flags, sequence, batch)
    tree |= {"tokens": tokens} if tokens is not None else {}
    return tree | {
        "precision": _precision_value(flags),
        "gradients": _gradients(flags),
        "optimizer": _optimizer_name(flags),
    }


def _global_batch(flags: MegatronFlags, dp: OriginValue | None) -> OriginValue | None:
    """The sequences of a step: as stated, as scheduled, or micro-batch × dp."""
    batch = flags["global-batch-size"]
    if flags["step-batch-size-schedule"].value:
        return _last_scheduled_batch(flags, batch)
    if flags["rampup-batch-size"].value is not None:
        flags.lose("approximated", "the batch grows to its size: here it has it from the start", "rampup-batch-size")
    if batch.value:
        return batch
    if dp is None:
        return None
    micro = flags.number("micro-batch-size", 1)
    return flags.derived(micro * dp.value, "micro-batch × dp, where it is left out", "micro-batch-size")


def _last_scheduled_batch(flags: MegatronFlags, batch: OriginValue) -> OriginValue | None:
    """The last batch size of a schedule such as 0:512 1000:1024."""
    schedule = flags["step-batch-size-schedule"]
    if batch.value and not flags.statement.resolved:
        sentence = "--step-batch-size-schedule and --global-batch-size exclude each other"
        flags.refuse("X005", sentence, schedule.place)
        return batch
    sizes = re.findall(r":(\d{1,9})\b", " ".join(schedule.value))
    if not sizes:
        flags.refuse("X005", "--step-batch-size-schedule has no sizes", schedule.place)
        return None
    flags.lose("approximated", "the batch grows by a schedule: here it has its last size", "step-batch-size-schedule")
    return schedule._replace(value=int(sizes[-1]))


def _token_budget(flags: MegatronFlags, sequence: OriginValue, batch: OriginValue | None) -> OriginValue | None:
    """The tokens of the whole training: as stated, or samples or steps times the batch."""
    iterations, samples = flags["train-iters"], flags["train-samples"]
    if iterations.value and samples.value:
        flags.refuse("X005", "--train-iters and --train-samples exclude each other", samples.place)
    if samples.value:
        return flags.derived(samples.value * sequence.value, "samples × sequence", "train-samples")
    if iterations.value and batch is not None:
        found = iterations.value * batch.value * sequence.value
        return flags.derived(found, "iterations × global batch × sequence", "train-iters")
    return None


# --- types


def _precision_value(flags: MegatronFlags) -> OriginValue:
    """The arithmetic of the training, with a fault where two types are stated."""
    wide = [name for name in ("bf16", "fp16") if flags.on(name)]
    eight, four = flags["fp8-format"], flags["fp4-format"]
    if len(wide) > 1 or (eight.value and four.value):
        flags.refuse("X005", "give one of two types to train in", flags["fp16"].place or four.place)
    if not wide:
        if not flags.sound("bf16", "fp16"):
            return flags["bf16"]._replace(value="bf16")
        sentence = "neither --bf16 nor --fp16: training in fp32, which is not read from a script"
        flags.refuse("X003", sentence, eight.place, "write --bf16 into the text if it is meant")
        return flags["bf16"]._replace(value="bf16")
    for format_, recipe, names in ((four, "fp4-recipe", {"nvfp4": "nvfp4"}), (eight, "fp8-recipe", RECIPES)):
        if format_.value:
            chosen = flags[recipe]
            if chosen.value not in names:
                flags.refuse("X003", f"--{recipe} {chosen.value}: a recipe in code", chosen.place)
            if wide == ["fp16"]:
                flags.refuse("X003", "narrow types beside fp16: no workload expresses both", format_.place)
            text = f"{format_.value}, recipe {chosen.value}"
            return flags.derived(names.get(chosen.value, "fp8"), text, recipe, "fp4-format", "fp8-format")
    return flags[wide[0]]._replace(value=wide[0])


def _gradients(flags: MegatronFlags) -> OriginValue:
    """The gradient type: by default fp32 with bf16 weights, and fp16 with fp16 weights."""
    narrow, wide = flags["grad-reduce-in-bf16"], flags["accumulate-allreduce-grads-in-fp32"]
    if flags.on("fp16"):
        return wide._replace(value="fp32") if wide.value else flags.derived("fp16", "the type of the weights", "fp16")
    if narrow.value or (flags.statement.resolved and not wide.value):
        return narrow._replace(value="bf16")
    if flags["main-grads-dtype"].value == "bf16" and not wide.value:
        return flags["main-grads-dtype"]
    return wide._replace(value="fp32") if wide.value else flags.derived("fp32", "fp32 beside bf16", "bf16")


def _optimizer_name(flags: MegatronFlags) -> OriginValue:
    """The optimizer document that the options for optimizer and state types mean."""
    kind = flags["optimizer"]
    name = OPTIMIZERS.get(kind.value)
    if name is None:
        hint = "write --optimizer adam into a copy, then --set workload.optimizer=NAME where it is estimated"
        flags.refuse("X003", f"--optimizer {kind.value}: {UNKNOWN_STATES}", kind.place, hint)
        return kind._replace(value="adamw")
    moments = {flags["exp-avg-dtype"].value, flags["exp-avg-sq-dtype"].value}
    if name != "adamw" or moments == {"fp32"}:
        return kind._replace(value=name)
    if not flags.on("use-precision-aware-optimizer"):
        flags.lose("ignored", "types of moments count with --use-precision-aware-optimizer alone", "exp-avg-dtype")
        return kind._replace(value=name)
    if moments == {"bf16"}:
        return flags.derived("adamw-bf16", "moments in bf16", "exp-avg-dtype", "exp-avg-sq-dtype")
    flags.lose(
        "not expressible", f"moments in {' and '.join(sorted(map(str, moments)))}: here in fp32", "exp-avg-dtype"
    )
    return kind._replace(value=name)


# --- stack and assumptions


def stack_of_options(flags: MegatronFlags) -> tuple[OriginValue, dict[str, Any]]:
    """The name of the stack, and the assumptions that make it behave as the text states."""
    assume: dict[str, Any] = {}
    experts = _expert_assumptions(flags) if flags["num-experts"].value else {}
    if flags.on("use-torch-fsdp2"):
        return flags["use-torch-fsdp2"]._replace(value="fsdp2"), {"experts": experts} if experts else {}
    counted = [
        name for name in OVERLAPS if name != "tp-comm-overlap" or flags.number("tensor-model-parallel-size", 1) > 1
    ]
    overlapped = [name for name in counted if flags.on(name)]
    if not overlapped:
        name = flags.derived("megatron-lm", "nothing overlaps", *counted)
    else:
        name = flags.derived("megatron-core", "communication overlaps", *overlapped)
        missing = {OVERLAPS[other]: other for other in counted if other not in overlapped}
        if "dp" in missing and "weights" not in missing:
            flags.refuse(
                "X005", "--overlap-param-gather needs --overlap-grad-reduce", flags["overlap-param-gather"].place
            )
        if missing:
            assume["overlap"] = {key: flags[other]._replace(value=0) for key, other in missing.items()}
    return name, assume | ({"experts": experts} if experts else {})


def _expert_assumptions(flags: MegatronFlags) -> dict[str, OriginValue]:
    """How often a token is sent, and the capacity of experts; a loss for what has no key."""
    dispatcher = flags["moe-token-dispatcher-type"]
    if dispatcher.value == "allgather":
        sentence = "tokens are gathered on all ranks of ep (allgather), here sent to their experts alone"
        flags.lose("not expressible", sentence, "moe-token-dispatcher-type")
    found = {"deduplicated": dispatcher._replace(value=dispatcher.value == "flex")}
    if not flags.on("moe-grouped-gemm"):
        sentence = "the products of experts run one after another without --moe-grouped-gemm, here at grouped rates"
        flags.lose("approximated", sentence, "moe-grouped-gemm")
    capacity = flags["moe-expert-capacity-factor"]
    return found | ({"capacity": capacity} if capacity.value and capacity.value > 0 else {})


def dropout_loss(flags: MegatronFlags) -> None:
    """A loss if the text trains with dropout, which is on by default."""
    for name in ("hidden-dropout", "attention-dropout"):
        value = flags[name].value
        if value is not None and float(value) > 0:
            sentence = f"--{name} {float(value):g}: masks are stored; set kernels.dropout of a stack"
            flags.lose("approximated", sentence, name)


# --- the options of a job

_GRADIENTS = {
    ("bf16", "fp32"): ["accumulate-allreduce-grads-in-fp32"],
    ("bf16", "bf16"): ["grad-reduce-in-bf16"],
    ("fp16", "fp32"): ["accumulate-allreduce-grads-in-fp32"],
    ("fp16", "fp16"): [],
}
_YOURS = "yours to add: --data-path, --tokenizer-type with --tokenizer-model, --lr and its schedule, --save"
_OF_EXPERTS = "--moe-router-load-balancing-type, --moe-router-topk-scaling-factor"


def write_megatron(job: Job, remarks: TrainingRemarks) -> str:
    """The launch script for a job; keys that it cannot express are faults."""
    groups: tuple[tuple[str, Table, dict[str, Any]], ...] = (
        ("model", OF_MODEL, model_options(job.model, remarks)),
        ("layout", OF_LAYOUT, plan_options(job, remarks)),
        ("workload", OF_WORKLOAD, {**_token_options(job, remarks), **_type_options(job, remarks)}),
        ("software", OF_SOFTWARE, _software_options(job, remarks)),
    )
    remarks.note(_YOURS)
    remarks.note("dropout is written as 0.0, whatever an imported script had; stack.kernels.dropout has its cost")
    for left in _fixed_model_options(job):
        remarks.note(f"yours to add, of the model: {left}")
    lines = ["OPTIONS=("]
    for name, table, beside in groups:
        options = written(table, job, remarks.refuse, beside)
        lines += [
            f"    # {name}",
            *(f"    --{name}{_plain_value(value)}" for name, value in options.items() if value is not False),
        ]
    launch = f"torchrun --nproc-per-node {job.per_node} --nnodes {job.nodes} pretrain_gpt.py"
    return "\n".join([*lines, ")", f'{launch} "${{OPTIONS[@]}}" "$@"', ""])


def _plain_value(value: Any) -> str:
    return "" if value is True else f" {value}"


def _fixed_model_options(job: Job) -> Iterator[str]:
    """Options that a checkpoint needs and a model document omits, because they affect neither time nor memory."""
    if job.model.positions == "rotary":
        yield "--rotary-base (10,000 without it), and any scaling, as --use-rope-scaling"
    yield "--norm-epsilon (1e-5 without it)"
    if job.model.has_experts:
        yield _OF_EXPERTS


def _token_options(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    tokens = job.workload.tokens
    if tokens is None:
        remarks.note("yours to add: --train-iters or --train-samples, since the scenario has no workload.tokens")
        return {}
    return {"train-samples": round(tokens / job.workload.sequence)}


def _type_options(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    """Megatron options for precision and optimizer; what they cannot state becomes a remark."""
    precision = job.workload.precision
    wide = "fp16" if precision == "fp16" else "bf16"
    found: dict[str, Any] = {wide: True}
    if precision in RECIPES.values():
        found |= {"fp8-format": "hybrid", "fp8-recipe": spelling(RECIPES, precision)}
    elif precision == "nvfp4":
        found |= {"fp4-format": "e2m1", "fp4-recipe": "nvfp4"}
    elif precision in ("fp32", "tf32"):
        remarks.refuse("workload.precision", f"{precision}: a script without --bf16 and --fp16 is not written")
    elif precision != wide:
        remarks.refuse("workload.precision", f"{precision} is no recipe of Megatron-LM")
    if (wide, job.gradients) not in _GRADIENTS:
        remarks.refuse("workload.gradients", f"{job.gradients} beside {wide} is no choice of Megatron-LM")
    found |= dict.fromkeys(_GRADIENTS.get((wide, job.gradients), []), True)
    optimizer = "adamw" if job.optimizer == "adamw-bf16" else job.optimizer
    if optimizer not in OPTIMIZERS.values():
        remarks.refuse("workload.optimizer", f"{job.optimizer} is no optimizer of Megatron-LM")
    else:
        found["optimizer"] = spelling(OPTIMIZERS, optimizer)
    if job.optimizer == "adamw-bf16" or "optimizer" in job.plan.offload:
        found["use-precision-aware-optimizer"] = True
    if job.optimizer == "adamw-bf16":
        found |= {"exp-avg-dtype": "bf16", "exp-avg-sq-dtype": "bf16"}
    return found


def _software_options(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    """Options for dropout, token dispatch and communication overlap."""
    found: dict[str, Any] = {"attention-dropout": "0.0", "hidden-dropout": "0.0"}
    if job.model.has_experts:
        found |= {"moe-grouped-gemm": True, "moe-permute-fusion": True, "moe-router-dtype": "fp32"}
        found["moe-token-dispatcher-type"] = "flex" if job.deduplicated else "alltoall"
        found |= {"moe-flex-dispatcher-backend": "deepep"} if job.deduplicated else {}
        if job.assume.experts.capacity is not None:
            found["moe-expert-capacity-factor"] = f"{job.assume.experts.capacity:g}"
    if job.stack != "megatron-core":
        return found
    for name, key in OVERLAPS.items():
        if getattr(job.assume.overlap, key) == 0 or (key == "tp" and job.plan.tp == 1):
            continue
        if key == "weights" and not job.plan.zero:
            continue
        if key == "tp" and not job.plan.sequence_parallel:
            remarks.note("--tp-comm-overlap needs --sequence-parallel: assume.overlap.tp=0 states that nothing hides")
            continue
        found[name] = True
    return found


FORMAT = TrainingFormat(
    name="megatron",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    elsewhere={
        "plan.dp": "--nproc-per-node and --nnodes of the launcher",
        "workload.kind": "a training program",
        **because("costmodel only", "schema source sources note check", "model"),
        **because("a name is for the reader of the file to give", "name title", "model"),
        **because("training has types of its own", "stored stored_experts stored_wide stored_cache", "model"),
        "model.published": "no parameters are counted in a script",
    },
    fixed={
        "plan.schedule": "1f1b, or interleaved with several chunks",
        "plan.offload_to": "the host is the only place",
        "model.prediction.layer": "the last layer once more",
        "model.prediction.depth": "--mtp-num-layers, with the layer",
        "model.layers.shared_output": "no model of Megatron-LM has one",
        "model.layers.state_space.conv": "4 in its code",
        "model.layers.state_space.chunk": "128 in its code",
        "model.layers.mlp": "a layer that has no experts",
        "model.layers.attention": "a layer that has no latent attention",
        "model.layers.experts.biases": "as those of the MLP, --disable-bias-linear",
        "model.layers.experts.shared.ffn_hidden": "--moe-shared-expert-intermediate-size, the whole width",
        "model.layers.experts.shared.gated": "as that of the experts",
        "model.layers.experts.shared.biases": "as those of the MLP",
    },
    cannot={**NOWHERE, **CANNOT, "workload.tuning": "adapters are matters of Megatron-Bridge"},
    kind="a script",
    mark="--",
    stacks=("megatron-core", "megatron-lm"),
    write=write_megatron,
)
