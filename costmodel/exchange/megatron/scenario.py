"""Options of Megatron-LM to a part of a scenario: model, workload, plan, stack and what is assumed.

The options stand in a shell script, in YAML, or among the arguments that the program prints at the head of a log.
Nothing runs. Every value has its origin: a line of the text, or the default of the version of Megatron-LM named.
"""

from __future__ import annotations

from typing import Any

from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.scenario import Plan
from costmodel.exchange.foreign_keys import unknown_names
from costmodel.exchange.import_result import COUNTS, GivenSize, Imported, Origin, OriginValue
from costmodel.exchange.launcher_options import of_environment, of_launcher
from costmodel.exchange.megatron.model import model
from costmodel.exchange.megatron.options import OTHER_MODELS, REFUSED, TABLE
from costmodel.exchange.megatron.plan import plan
from costmodel.exchange.megatron.stated import MegatronFlags, accelerators, dropped, read_statement, stack, workload
from costmodel.exchange.option_rows import hint_of_gone
from costmodel.exchange.values.foreign_values import document_name, placed, shown
from costmodel.ground.errors import CostModelError, Fault, Place


def read_options(
    text: str, file: str, *, size: GivenSize | None = None, vocab: int | None = None, title: str = "model"
) -> Imported:
    """The scenario values that a text of Megatron-LM options states.

    `size` (the cluster), `vocab` (the vocabulary) and `title` (the model's name) are given beside the text. Values that
    are not stated anywhere are in `missing`; keys that depend on them are left out.
    """
    flags = MegatronFlags(read_statement(text, file), file)
    around = of_launcher(flags.statement.launch)
    around.join(of_environment(flags.statement.environment, file))
    facts = {**{path: value for path, value in around.weak.items() if path in COUNTS}, **accelerators(flags)}
    found = (size or GivenSize()).accelerators(facts)
    if isinstance(found, Fault):
        flags.faults.append(found)
    elif found is not None:
        facts["accelerators"] = found
    _refuse_options(flags)
    laid_out = plan(flags, facts.get("accelerators"))
    name, assume = stack(flags)
    tree: dict[str, Any] = {
        "model": _model(flags, vocab, title),
        "workload": workload(flags, laid_out.get("dp")),
        "stack": name,
        "plan": laid_out,
    }
    if assume:
        tree["assume"] = assume
    dropped(flags)
    _losses(flags)
    warnings = [*flags.warnings, *_unknown_options(flags)]
    if flags.faults:
        raise CostModelError(*flags.faults, *flags.missing)
    document, origins = placed(tree, Place(file))
    validate(Plan, document["plan"], file)
    if "vocab" in tree["model"]:
        validate(Model, document["model"], file)
    kind = f"{flags.statement.form} of Megatron-LM"
    losses, missing = (*flags.losses, *around.losses), tuple(flags.missing)
    keys = (*around.keys, *flags.verdicts())
    return Imported(kind, document, origins, losses, (*around.warnings, *warnings), facts, missing, keys)


def _model(flags: MegatronFlags, vocab: int | None, title: str) -> dict[str, Any]:
    """The model with the name and the source that a document needs."""
    given = {} if vocab is None else {"vocab": OriginValue(vocab, Origin("assumed", "given beside the text"))}
    made = Origin("file", "the text itself", Place(flags.file))
    source = {"title": OriginValue("Options of Megatron-LM", made), "where": OriginValue(flags.file, made)}
    said = model(flags)
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
            sentence, hint = hint_of_gone(TABLE[name])
            flags.refuse("X005", f"--{sentence}", stated.place, hint)


def _losses(flags: MegatronFlags) -> None:
    """Losses for stated options that fill no costmodel key, by their effect on the cost."""
    for word in flags.statement.stray:
        flags.lose("ignored", f"{word.doubt.sentence if word.doubt else shown(word.text)}: read as nothing")
    for name, stated in flags.stated.items():
        texts, row = [word.text for word in stated.words], TABLE.get(name)
        if row is not None and row.costs_nothing:
            flags.lose("ignored", f"--{name}", name)
        elif row is not None and row.loss and not (len(texts) == 1 and texts[0] in row.harmless):
            flags.lose(row.loss[0], f"--{name}: {row.loss[1]}", name)


def _unknown_options(flags: MegatronFlags) -> list[Fault]:
    """One warning that lists the options that Megatron-LM does not have."""
    unknown = [stated for name, stated in flags.stated.items() if name not in TABLE]
    if not unknown:
        return []
    names = [f"--{stated.name}" for stated in unknown]
    table = [f"--{name}" for name in TABLE]
    return [unknown_names("options that Megatron-LM does not have", names, unknown[0].place, table)]
