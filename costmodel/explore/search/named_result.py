"""The result that a word of an option names, such as `--for 'tpot<=25 ms'`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from costmodel.documents.keys.suggestions import alike
from costmodel.documents.schemas.results import ResultColumn, machine_name
from costmodel.ground.errors import COMMAND_LINE, Place, fail

_ENDS = ("_low", "_high")  # of a band, which is named by its result
_CODES = {"--pareto": "C006"}
_POINTED = re.compile(r": (\w+)(?=[;,]|$)")  # the result that the meaning of a label points at


def named_result(word: str, columns: Iterable[str], option: str, written: str) -> str:
    """The name of a result, given with or without its unit; a fault at the word lists similar results, or all.

    written: what stands behind the option
    """
    named = {name: name for name in columns}
    named |= {machine_name(name): name for name in named}
    if word in named:
        return named[word]
    results = [name for name in dict.fromkeys(named.values()) if not name.endswith(_ENDS)]
    close = _labelled(word, named) or alike(word, results, 3, 0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(results)}"
    place = option_place(option, written, word)
    raise fail(_CODES.get(option, "C003"), f"there is no result named '{word}'", place, hint)


def shown_results(columns: Iterable[str], text: str, usual: tuple[str, ...]) -> tuple[str, ...]:
    """The results that --show names, each once; the usual ones where it names none."""
    known = tuple(columns)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple(dict.fromkeys(named_result(part, known, "--show", text) for part in parts)) or usual


def two_results(text: str, columns: Mapping[str, ResultColumn]) -> tuple[str, str]:
    """The two results of --pareto, each of which is better in one direction."""
    ranked = [name for name, column in columns.items() if column.better != "neither"]
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or parts[0] == parts[1]:
        hint = f"for example --pareto memory_peak,{ranked[0]}"
        raise fail("C006", f"'{text}' is not two results", option_place("--pareto", text), hint)
    x, y = (named_result(part, ranked, "--pareto", text) for part in parts)
    return x, y


def _labelled(word: str, named: Mapping[str, str]) -> list[str]:
    """The results that answers print under a word, as `in_flight` for the requests in flight."""
    from costmodel.explore.labels import meaning_of  # of all answers, and read for a word that no result has alone

    spellings = dict.fromkeys((word, word.replace("_", " ")))
    meaning, see = next(filter(None, map(meaning_of, spellings)), ("", ""))
    return list(dict.fromkeys(named[name] for name in (*_POINTED.findall(meaning), see) if name in named))


def option_place(option: str, written: str, word: str = "") -> Place:
    """The place of a word in the value of an option, or of the whole value."""
    ahead = len(option) + 2 + max(written.find(word), 0)
    return Place(COMMAND_LINE, 0, ahead, "", f"{option} {written}", max(1, len(word or written)))
