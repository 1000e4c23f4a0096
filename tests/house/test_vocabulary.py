"""One word per thing: every argument name of every equation is in the glossary, with the unit it has there."""

from __future__ import annotations

from typing import Any

from costmodel.ground.equation import Equation

from .catalogue import VOCABULARY, read_yaml, registered
from .test_docstrings import unit_fault

GLOSSARY = read_yaml(VOCABULARY)
WHERE = "costmodel/equations/vocabulary.yaml"


def units(entry: dict[str, Any]) -> list[str]:
    """The units a word may have; several only where it serves two things."""
    written = entry["unit"] if isinstance(entry["unit"], list) else [entry["unit"]]
    return [str(unit) for unit in written]


def test_the_glossary_says_meaning_and_unit() -> None:
    assert GLOSSARY, f"{WHERE} is absent or empty"
    odd = {word: entry for word, entry in GLOSSARY.items() if set(entry or {}) != {"meaning", "unit"}}
    assert odd == {}
    faults = {
        word: unit_fault(unit)
        for word, entry in GLOSSARY.items()
        for unit in units(entry)
        if unit != "choice" and unit_fault(unit)
    }
    assert faults == {}


def test_the_glossary_is_sorted() -> None:
    assert list(GLOSSARY) == sorted(GLOSSARY)


def test_every_argument_is_in_the_glossary() -> None:
    missing: dict[str, list[str]] = {}
    for equation in registered():
        for name in equation.signature.parameters:
            if name not in GLOSSARY:
                missing.setdefault(name, []).append(f"{equation.room}.{equation.name}")
    listed = "\n".join(f"  {name}: {', '.join(where[:3])}" for name, where in sorted(missing.items()))
    assert not missing, f"use a word of {WHERE}, or add there:\n{listed}"


def unit_faults(equation: Equation) -> list[str]:
    """The arguments of an equation whose unit is none of their word's."""
    return [
        f"  {equation.room}.{equation.name}({argument.name}) [{argument.unit or 'choice'}], glossary {units(entry)}"
        for argument in equation.contract.arguments
        if (entry := GLOSSARY.get(argument.name))
        and (argument.unit or "choice") not in units(entry)
        and (argument.unit is None or "u" not in units(entry))
    ]


def test_every_argument_has_the_unit_of_its_word() -> None:
    odd = [fault for equation in registered() for fault in unit_faults(equation)]
    assert not odd, "one word, one unit:\n" + "\n".join(odd)


def test_a_planted_unit_is_caught() -> None:
    def toy(message: float) -> float:
        """Time of a toy.

        message: without its unit → time [s]
        """
        return message

    assert unit_faults(Equation(toy)) != []
    toy.__doc__ = (toy.__doc__ or "").replace("message:", "message [B]:")
    assert unit_faults(Equation(toy)) == []
