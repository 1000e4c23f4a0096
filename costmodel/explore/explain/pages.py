"""Pages about words and codes: results, equations, strategies, the vocabulary, faults and reasons."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import costmodel.equations
from costmodel.documents.faults import key_of
from costmodel.documents.kernels import told_kinds
from costmodel.documents.library import FOLDERS, bibliography, glossary, strategies
from costmodel.documents.overrides import full
from costmodel.documents.scenario import Scenario
from costmodel.documents.table import COLUMNS as MEASURED
from costmodel.equation import EQUATIONS, Equation
from costmodel.errors import FAULT_CODES
from costmodel.estimate.costs import COLUMNS
from costmodel.estimate.legality.rules import REFUSALS, REMARKS
from costmodel.estimate.memory.ledger import LINES
from costmodel.explore.explain.explain import unknown
from costmodel.explore.validate.fills import RULES
from costmodel.explore.validate.reasons import REASONS

SECTIONS = ("plan", "workload", "assume", "assume.overlap", "assume.experts")

# Equations that no estimate uses have pages too.
for found in pkgutil.walk_packages(costmodel.equations.__path__, "costmodel.equations."):
    importlib.import_module(found.name)


@dataclass(frozen=True)
class Page:
    """What a word or a code means."""

    word: str
    title: str
    text: str
    equation: Equation | None = None
    sources: tuple[tuple[str, str], ...] = ()
    formulas: tuple[Equation, ...] = ()


def page(word: str) -> Page:
    """The page of a word: a result, an equation, a strategy, a word of the vocabulary, a code."""
    word = {known.lower(): known for known in all_words()}.get(word.lower(), word)
    if word in FAULT_CODES:
        return Page(word, "a fault of the input", FAULT_CODES[word] + _listed(word))
    if word in (rules := {**REFUSALS, **REMARKS, **REASONS}):
        rule = rules[word]
        return Page(word, rule.title, rule.meaning + _listed(word))
    if word in COLUMNS:
        column = COLUMNS[word]
        return Page(word, f"a result, in {column.unit}; {column.better} is better", column.meaning)
    if word in EQUATIONS:
        equation = EQUATIONS[word]
        return Page(
            word, equation.contract.title, equation.contract.formula, equation, _titles(equation.contract.source)
        )
    if word in (named := _strategies()):
        return _strategy(named[word])
    if word in glossary():
        found = _word(word)
        return replace(found, text="\n".join((found.text, *_as_keys(word))))
    if word in LINES:
        return Page(word, "a line of the memory ledger, in B", f"costmodel explain SCENARIO {word} traces it")
    return _key(word)


def _word(word: str) -> Page:
    entry = glossary()[word]
    unit = "" if entry["unit"] == "choice" else f", in {_units(entry['unit'])}"
    return Page(word, f"a word of the vocabulary{unit}", str(entry["meaning"]))


def _as_keys(word: str) -> Iterator[str]:
    """The keys of a scenario that are written like a word, each with what it is for."""
    for section in SECTIONS:
        key = key_of(Scenario, f"{section}.{word}")
        if key is not None and "description" in key:
            yield f"{section}.{word}: {key['description']}"


def _key(path: str) -> Page:
    """The page of a path of a scenario: what its key is for, before what the word means that it ends with."""
    key, last = key_of(Scenario, full(path)), path.rpartition(".")[2]
    if key is None and "." not in path and (meant := "\n".join(_as_keys(path))):
        return Page(path, "a key of the scenario", meant)
    if key is None:
        return _key_elsewhere(path)
    meant = str(key.get("description", ""))
    if last not in all_words():
        return Page(path, "a key of the scenario", meant)
    known = _word(last) if last in glossary() else page(last)
    again = known.text.lower().startswith(meant.lower())
    return replace(known, word=path, text=known.text if again else f"{meant}\n{known.text}")


def _key_elsewhere(path: str) -> Page:
    """The page of a path of a document that scenarios name, as it is written there."""
    for kind, (_, document) in FOLDERS.items():
        key = key_of(document, path) if "." in path else None
        if key is not None:
            return Page(path, f"a key of {kind} documents", str(key.get("description", "")))
    raise unknown(path, all_words())


def _units(unit: Any) -> str:
    """The units of a word; u is any."""
    told = [str(item) for item in (unit if isinstance(unit, list) else [unit])]
    return " or ".join("any unit" if item == "u" else item for item in told)


def _strategies() -> dict[str, str]:
    """The name of a strategy by each of its names."""
    return {name: word for word, entry in strategies().items() for name in (word, *entry.get("also", ()))}


def _strategy(word: str) -> Page:
    entry = strategies()[word]
    said = (entry["what"], f"When it pays: {entry['pays']}", f"What it costs: {entry['costs']}")
    formulas = tuple(EQUATIONS[name] for name in entry["equations"])
    return Page(word, entry["title"], "\n".join(said), None, _titles(entry["source"]), formulas)


def _listed(word: str) -> str:
    """What belongs under the page of a code: the columns of a table, or how empty cells are filled."""
    if word == "D014":
        return "".join(f"\n{name}: {column.meaning}" for name, column in MEASURED.items())
    if word == "D015":
        return "".join(f"\n{told}" for told in told_kinds())
    return "".join(f"\n{name}: {rule}" for name, rule in RULES.items()) if word == "V006" else ""


def worth_asking() -> dict[str, list[str]]:
    """What to ask `explain` about, by kind: each strategy once, without bands and what equations call their inputs."""
    rooms: dict[str, list[str]] = {}
    for name, equation in EQUATIONS.items():
        if name not in COLUMNS:
            rooms.setdefault(equation.room, []).append(name)
    return {
        "results": [name for name in COLUMNS if not name.endswith(("_low", "_high"))],
        "memory": [name for name in LINES if name not in COLUMNS],
        "strategies": list(strategies()),
        "codes": [*FAULT_CODES, *sorted({**REFUSALS, **REMARKS, **REASONS})],
        **rooms,
    }


def all_words() -> list[str]:
    """Everything `explain WORD` knows."""
    words = [*COLUMNS, *LINES, *_strategies(), *glossary(), *EQUATIONS, *FAULT_CODES, *REFUSALS, *REMARKS, *REASONS]
    return list(dict.fromkeys(words))


def _titles(source: str) -> tuple[tuple[str, str], ...]:
    """Keys of the bibliography a source names, with their titles."""
    known = bibliography()
    keys = [part.split()[0] for part in source.split(";") if part.strip()]
    return tuple((key, str(known[key]["title"])) for key in keys if key in known)
