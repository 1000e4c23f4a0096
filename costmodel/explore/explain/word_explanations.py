"""The pages of `costmodel explain WORD`: results, equations, strategies, glossary words, faults and reason codes."""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import costmodel.equations
from costmodel.documents.keys.field_aliases import STACK_ALIASES, Meant, meant_by
from costmodel.documents.keys.key_list import all_keys
from costmodel.documents.keys.overrides import full
from costmodel.documents.keys.schema_paths import key_of
from costmodel.documents.keys.suggestions import alike
from costmodel.documents.reader.find_documents import title_of
from costmodel.documents.reader.folders import FOLDER_OF, has, names
from costmodel.documents.reader.library import (
    bibliography,
    document_class,
    glossary,
    held_against,
    rl_words,
    serving_words,
    strategies,
)
from costmodel.documents.reader.sources import labels
from costmodel.documents.schemas.results import RL_RESULTS as RL_RESULTS
from costmodel.documents.schemas.results import SERVING_RESULTS as SERVING_RESULTS
from costmodel.documents.schemas.results import TRAINING_COLUMNS, machine_name
from costmodel.documents.schemas.rl import RlScenario
from costmodel.documents.schemas.scenario import Scenario
from costmodel.documents.schemas.serving import ServingScenario
from costmodel.estimate.rl.rl_reason_codes import OWN as RL_REFUSALS
from costmodel.estimate.serving.predict_serving import REFUSALS as SERVING_REFUSALS
from costmodel.estimate.shared.reasons import REFUSALS, REMARKS
from costmodel.estimate.training.memory_breakdown import LINES
from costmodel.evidence.validate.imputation import RULES
from costmodel.evidence.validate.serving_rows import RULES as SERVING_RULES
from costmodel.evidence.validate.spelling import REASONS
from costmodel.exchange.tables.kernel_table import table_kind_lines
from costmodel.exchange.tables.run_table import COLUMNS as MEASURED
from costmodel.exchange.tables.serving_table import COLUMNS as SERVED
from costmodel.explore.answer_labels import fit_page, meaning_of
from costmodel.explore.explain.page_search import (
    AnsweredQuestion,
    PageMatch,
    is_clear_match,
    nearest_pages,
    page_of_phrase,
    question_of,
    questions,
)
from costmodel.explore.purchase.offers import COLUMNS as OFFER_COLUMNS
from costmodel.ground.counts import number_of
from costmodel.ground.equation import EQUATIONS, Equation
from costmodel.ground.errors import FAULT_CODES, CostModelError, fail
from costmodel.ground.record import record
from costmodel.ground.units import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTIONS = (
    "plan",
    "plan.sites",
    "workload",
    "assume",
    "assume.overlap",
    "assume.experts",
    "assume.compression",
    "assume.stragglers",
    "run",
    "run.checkpoint",
    "run.restart",
)

_INPUT = "an input of equations"
_ALIKE, _ALIKE_OF_QUESTION = 0.65, 0.85
_MOST = 5  # keys that a page lists
_RULES = {**SERVING_REFUSALS, **RL_REFUSALS, **REFUSALS, **REMARKS, **REASONS}
_RESULTS = {**RL_RESULTS, **SERVING_RESULTS, **TRAINING_COLUMNS}

# Equations that no estimate uses have pages too.
for found in pkgutil.walk_packages(costmodel.equations.__path__, "costmodel.equations."):
    importlib.import_module(found.name)


@record
class Page:
    """The explanation of a word or a code."""

    word: str
    title: str
    text: str
    equation: Equation | None = None
    sources: tuple[tuple[str, str], ...] = ()
    formulas: tuple[Equation, ...] = ()
    asked: AnsweredQuestion | None = None
    nearest_to: str = ""
    others: tuple[PageMatch, ...] = ()


def page(word: str) -> Page:
    """The page of a word and the frequent question about it, or the one that exists; indexed phrases lead to their
    page.

    A phrase that the index has leads to its page.
    """
    target = "" if _is_service_reason_title(word) else page_of_phrase(word) or ""
    asked = question_of(word) or question_of(target)
    if asked is None:
        try:
            return _page_of_word(word)
        except CostModelError:
            if not target:
                raise
            return _page_of_word(target)
    if " " not in word or meaning_of(word) is not None or _spelt_page(word) is not None:  # no key has blanks
        with contextlib.suppress(CostModelError):
            return replace(_page_of_word(word), asked=asked)
    return Page(word, "a question people ask", "", asked=asked)


def _is_service_reason_title(word: str) -> bool:
    """Whether words are the title that answers print beside a reason code of a service."""
    reason = word.lower().removesuffix(" limit")
    return any(rule.title == reason for rule in SERVING_REFUSALS.values())


def page_or_nearest(words: str) -> Page:
    """The page of a word or a phrase; else the page that shares most words with it, if that is clear."""
    try:
        return page(words)
    except CostModelError as error:
        nearest = nearest_pages(words, _all_page_texts())
        if not is_clear_match(nearest):
            raise _with_page_hint(error, nearest) from None
        return replace(page(nearest[0].word), nearest_to=words, others=tuple(nearest[1:]))


@functools.cache
def _all_page_texts() -> dict[str, tuple[str, str]]:
    """For the word of every page that explains something: its title with names, and its text."""
    texts = {asked.words[0]: (f"{asked.question} {' '.join(asked.words)}", asked.text) for asked in questions()}
    for word, entry in strategies().items():
        about = " ".join((entry["what"], entry["pays"], entry["costs"]))
        texts.setdefault(word, (f"{entry['title']} {' '.join(entry.get('also', ()))}", about))
    for word, entry in {**rl_words(), **serving_words()}.items():
        texts.setdefault(word, (f"{entry['title']} {' '.join(entry.get('also', ()))}", str(entry["text"])))
    for word, column in _RESULTS.items():
        texts.setdefault(word, (column.meaning, ""))
    for word, (meaning, _) in labels().items():
        texts.setdefault(word, (meaning, "")) if meaning else None
    return texts


def _page_of_word(word: str) -> Page:
    """The page of any word: label, result, equation, strategy, glossary word, code, key or document."""
    labelled, known = meaning_of(word), _spelt_page(word)
    if labelled is None:
        return known or _page_of_path(word)
    meaning, see = labelled
    more = known or _page_of_known_word(see)
    if more is known and not meaning and see and more is not None and more.title.startswith(_INPUT):
        more = _page_of_known_word(see) or more  # an input of equations that has the same name
    if more is None:
        return Page(word, "a label of answers", meaning)
    if not meaning or meaning.lower() == more.text.lower():
        return replace(more, word=word)
    pointed = (
        f"{more.word}: " if more is not known else "as an input of equations: " if more.title.startswith(_INPUT) else ""
    )
    return replace(more, word=word, title="a label of answers", text=f"{meaning}\n{pointed}{more.text}")


def _spelt_page(word: str) -> Page | None:
    """The page of a costmodel word that is spelt with blanks, hyphens or underscores."""
    return next(filter(None, map(_page_of_known_word, (word, word.replace(" ", "_"), word.replace(" ", "-")))), None)


def _page_of_known_word(word: str) -> Page | None:
    """The page of a word that costmodel itself has, in any capitalisation; None for other words."""
    word = _words_by_lower_case().get(word.lower(), word)
    if word in FAULT_CODES:
        return Page(word, "a fault of the input", FAULT_CODES[word] + _list_under_code(word))
    if word in _RULES:
        rule = _RULES[word]
        return Page(word, rule.title, rule.meaning + _list_under_code(word))
    if word in (named := _serving_and_rl_words()):
        return _page_of_serving_or_rl(named[word])
    if word in _RESULTS:
        column = _RESULTS[word]
        other = SERVING_RESULTS.get(word, column).meaning
        text = column.meaning if other == column.meaning else f"{column.meaning}\nwhen serving: {other}"
        text += f"\ncostmodel explain SCENARIO {word} shows its equations"
        return Page(word, f"a result, in {column.unit}; {column.better} is better", text)
    if word in EQUATIONS:
        equation = EQUATIONS[word]
        sources = _source_titles(equation.contract.source)
        return Page(word, equation.contract.title, equation.contract.formula, equation, sources)
    if word in (named := _strategy_names()):
        found = _strategy_page(named[word])
        keys = _keys_ending_with(word) if word != named[word] else ""  # a value of a key may be a key elsewhere
        return replace(found, text="\n".join(filter(None, (found.text, keys))))
    if word in glossary():
        found = _glossary_page(word)
        return replace(found, text="\n".join((found.text, *_keys_named(word))))
    if word in LINES:
        return Page(word, "a line of the memory ledger, in B", f"costmodel explain SCENARIO {word} traces it")
    return None


def _glossary_page(word: str) -> Page:
    entry = glossary()[word]
    unit = "" if entry["unit"] == "choice" else f", in {_units_text(entry['unit'])}"
    return Page(word, f"{_INPUT}{unit}", str(entry["meaning"]))


def _keys_named(word: str) -> Iterator[str]:
    """The scenario keys with this name, each with its meaning."""
    for section in SECTIONS:
        key = key_of(Scenario, f"{section}.{word}")
        if key is not None and "description" in key:
            yield f"{section}.{word}: {key['description']}"


def _keys_ending_with(word: str) -> str:
    """The scenario keys whose last part is the word, each with its meaning; empty if there is none."""
    keys = [key for key in all_keys() if key.path.endswith(f".{word}")]
    lines = [f"{key.path}: {key.meaning}" for key in keys[:_MOST]]
    return "\n".join(lines + [f"and {len(keys) - _MOST} more"] * (len(keys) > _MOST))


def _page_of_path(path: str) -> Page:
    """The page of a scenario path: the meaning of the key, then the page of its last word."""
    schemas, last = (Scenario, ServingScenario, RlScenario), path.rpartition(".")[2]
    key = next(filter(None, (key_of(schema, full(path)) for schema in schemas)), None)
    plain = path.casefold()  # keys are written in small letters
    if key is None and "." not in path and (meant := "\n".join(_keys_named(plain)) or _keys_ending_with(plain)):
        return Page(path, "a key of the scenario", meant)
    if key is None:
        return _page_of_other_path(path)
    meant = str(key.get("description", ""))
    known = _glossary_page(last) if last in glossary() else _page_of_known_word(last)
    if known is None:
        return Page(path, "a key of the scenario", meant)
    again = known.text.lower().startswith(meant.lower())
    return replace(known, word=path, text=known.text if again else f"{meant}\n{known.text}")


def _page_of_other_path(path: str) -> Page:
    """The page of a path that is no scenario key: a key of another document, a document, or another tool's word."""
    plain = path.removeprefix("fit.")
    for kind in FOLDER_OF:
        key = key_of(document_class(kind), plain) if "." in path or kind == "efficiency" else None
        if key is not None:
            meaning = str(key.get("description", ""))
            return Page(path, f"a key of {kind} documents", meaning)
    for kind in FOLDER_OF:
        if has(kind, path):
            what = f"{title_of(kind, path)}\ncostmodel show {path} prints it" if kind != "efficiency" else ""
            what += f"\n{_evidence_words(path)}" if kind == "accelerator" else ""
            return Page(path, f"a{'n' if kind[0] in 'aeio' else ''} {kind}, by name", what)
    if alike := _documents_starting_with(path):
        return Page(path, "documents of that name", alike)
    if path in (groups := words_by_kind()):
        return Page(path, "a group of words", ", ".join(groups[path]))
    columns = {machine_name(name): name for name in TRAINING_COLUMNS} | {f"{line}_bytes": line for line in LINES}
    if path in columns:
        return replace(page(columns[path]), word=path)
    reason = path.lower().removesuffix(" limit")
    if code := next((code for code, rule in SERVING_REFUSALS.items() if rule.title == reason), ""):
        return page(code)
    if words := fit_page(path):
        return Page(path, "a fit of measured times", words)
    if (meant := meant_by(path)) is not None:
        return Page(path, "a word of other tools", "\n".join(filter(None, (_costmodel_keys_text(meant), meant.note))))
    if (stack := STACK_ALIASES.get(path.lower())) is not None:
        return Page(path, "software, by another name", f"costmodel uses the stack {stack}: costmodel show {stack}")
    raise _unknown_word(path, [*all_words(), *labels()])


def _evidence_words(accelerator: str) -> str:
    """How far predictions for an accelerator are from published training runs, in words."""
    held = held_against([accelerator]).get(accelerator)
    if held is None:
        return "no published training run of it: predictions of training are not checked (costmodel explain accuracy)"
    runs = f"{number_of(held.runs, 'published training run')} ({held.date})"
    return f"predictions are {percent(held.median)} off in the median of {runs}: costmodel explain accuracy"


def _documents_starting_with(word: str) -> str:
    """Accelerators, nodes, models and stacks whose names start with a word, such as tpu or llama."""
    kinds = ("accelerator", "node", "model", "stack")
    names_by_kind = {
        kind: [name for name in sorted(names(kind)) if f"{name}-".startswith(word.lower())] for kind in kinds
    }
    lines = [f"{kind}s: {', '.join(listed)}" for kind, listed in names_by_kind.items() if listed]
    return "\n".join([*lines, "costmodel show NAME prints one"]) if len(word) > 2 and lines else ""


def _costmodel_keys_text(meant: Meant) -> str:
    return f"here {' or '.join(meant.keys)}" if meant.keys else ""


def _units_text(unit: Any) -> str:
    """The units of a glossary word as text; "u" stands for any unit."""
    shown = [str(item) for item in (unit if isinstance(unit, list) else [unit])]
    return " or ".join("any unit" if item == "u" else item for item in shown)


@functools.cache
def _strategy_names() -> dict[str, str]:
    """The main name of a strategy, by each of its names."""
    return {name: word for word, entry in strategies().items() for name in (word, *entry.get("also", ()))}


def _strategy_page(word: str) -> Page:
    entry = strategies()[word]
    stated = (entry["what"], f"When it pays: {entry['pays']}", f"What it costs: {entry['costs']}")
    formulas = tuple(EQUATIONS[name] for name in entry["equations"])
    return Page(word, entry["title"], "\n".join(stated), None, _source_titles(entry["source"]), formulas)


@functools.cache
def _serving_and_rl_words() -> dict[str, str]:
    """The word whose page explains it, for each name of a serving or RL word."""
    entries = {**rl_words(), **serving_words()}
    return {name: word for word, entry in entries.items() for name in (word, *entry.get("also", ()))}


def _page_of_serving_or_rl(word: str) -> Page:
    """The page of a word of serving or RL."""
    entry, column = {**rl_words(), **serving_words()}[word], {**RL_RESULTS, **SERVING_RESULTS}.get(word)
    text = str(entry["text"]) if column is None else f"{column.meaning}\n{entry['text']}"
    formulas = tuple(EQUATIONS[name] for name in entry["equations"])
    return Page(word, str(entry["title"]), text, None, _source_titles(str(entry["source"])), formulas)


def _list_under_code(word: str) -> str:
    """The list below the page of a code: columns of a table, or rules that fill empty cells."""
    if word == "D014":
        runs = "".join(f"\n{name}: {column.meaning}" for name, column in MEASURED.items())
        return f"{runs}\nA table of serving:" + "".join(f"\n{name}: {it.meaning}" for name, it in SERVED.items())
    if word == "D015":
        return "".join(f"\n{shown}" for shown in table_kind_lines())
    if word == "D018":
        return "".join(f"\n{name}: {column.meaning}" for name, column in OFFER_COLUMNS.items())
    if word != "V006":
        return ""
    serving = "".join(f"\n{name}: {rule}" for name, rule in SERVING_RULES.items())
    return "".join(f"\n{name}: {rule}" for name, rule in RULES.items()) + f"\nOf serving:{serving}"


def words_by_kind() -> dict[str, list[str]]:
    """The words that `explain` knows, by kind; without bands and arguments of equations."""
    rooms: dict[str, list[str]] = {}
    for name, equation in EQUATIONS.items():
        if name not in TRAINING_COLUMNS and name not in SERVING_RESULTS and name not in RL_RESULTS:
            rooms.setdefault(equation.room, []).append(name)
    return {
        "results": [name for name in TRAINING_COLUMNS if not name.endswith(("_low", "_high"))],
        "memory": [name for name in LINES if name not in TRAINING_COLUMNS],
        "results of serving": [name for name in SERVING_RESULTS if name not in TRAINING_COLUMNS],
        "words of serving": [word for word in serving_words() if word not in SERVING_RESULTS],
        "results of reinforcement learning": [name for name in RL_RESULTS if name not in TRAINING_COLUMNS],
        "words of reinforcement learning": list(rl_words()),
        "strategies": list(strategies()),
        "questions": [question.words[0] for question in questions() if _page_of_known_word(question.words[0]) is None],
        "codes": [*FAULT_CODES, *sorted(_RULES)],
        **rooms,
    }


@functools.cache
def all_words() -> tuple[str, ...]:
    """Every word and code that `explain` has a page for."""
    words = [
        *TRAINING_COLUMNS,
        *LINES,
        *_strategy_names(),
        *glossary(),
        *EQUATIONS,
        *FAULT_CODES,
        *REFUSALS,
        *REMARKS,
        *REASONS,
    ]
    words += [*SERVING_RESULTS, *RL_RESULTS, *_serving_and_rl_words(), *SERVING_REFUSALS, *RL_REFUSALS]
    words += [word for question in questions() for word in question.words]
    return tuple(dict.fromkeys(words))


@functools.cache
def _words_by_lower_case() -> dict[str, str]:
    """The usual spelling of every word, by its lower-case form."""
    return {word.lower(): word for word in all_words()}


def _source_titles(source: str) -> tuple[tuple[str, str], ...]:
    """The bibliography keys in a Source line, each with its title."""
    known = bibliography()
    keys = [part.split()[0] for part in source.split(";") if part.strip()]
    return tuple((key, str(known[key]["title"])) for key in keys if key in known)


def _unknown_word(word: str, known: list[str]) -> CostModelError:
    """The fault for a word without a page, with close matches; a phrase must match more closely."""
    close = alike(word, known, 3, _ALIKE_OF_QUESTION if " " in word else _ALIKE)
    hint = (
        f"did you mean {' or '.join(close)}?"
        if close
        else "costmodel explain, without a word, lists what can be explained"
    )
    return fail("C003", f"'{word}' is not known", None, hint)


def _with_page_hint(error: CostModelError, matches: list[PageMatch]) -> CostModelError:
    """The fault with a hint that also names pages which share words with the question."""
    if not matches:
        return error
    (fault,) = error.faults
    named = " or ".join(page.word for page in matches)
    spelt = fault.hint if fault.hint.startswith("did you mean") else ""
    return CostModelError(replace(fault, hint=f"{spelt} pages about it: {named}".strip()))
