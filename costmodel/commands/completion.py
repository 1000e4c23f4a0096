"""Shell completions: names of documents, results, words and codes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from glob import escape, iglob
from typing import get_args

from costmodel.documents.reader.folders import FOLDER_OF, SUFFIXES, names, plural
from costmodel.ground.counts import Schedule


def _names_that_start(known: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in dict.fromkeys(known) if name.startswith(incomplete) and name.isprintable()]


def _files(incomplete: str, suffixes: tuple[str, ...] = SUFFIXES) -> list[str]:
    """Files and folders that a path may continue to."""
    paths = sorted(iglob(f"{escape(incomplete)}*"))
    return [
        f"{path}/" if os.path.isdir(path) else path
        for path in paths
        if path.isprintable() and (path.endswith(suffixes) or os.path.isdir(path))
    ]


def _documents_or_files(*kinds: str, suffixes: tuple[str, ...] = SUFFIXES) -> Callable[[str], list[str]]:
    """A completion function: names of documents of these kinds, or file paths, that start with the incomplete word."""

    def complete(incomplete: str) -> list[str]:
        known = [name for kind in kinds for name in names(kind)]
        return _names_that_start(known, incomplete) + _files(incomplete, suffixes)

    return complete


scenarios = _documents_or_files("scenario")
scenarios_and_models = _documents_or_files("scenario", "model")
nodes = _documents_or_files("node")
models = _documents_or_files("model")
stacks = _documents_or_files("stack")
measured = _documents_or_files("measured", suffixes=(".csv", *SUFFIXES))


def shelves(incomplete: str) -> list[str]:
    """The names of groups of documents, as `list` takes them."""
    return _names_that_start([*map(plural, FOLDER_OF), "hardware", "keys"], incomplete)


def keys(incomplete: str) -> list[str]:
    """Keys of a scenario and of the documents it names."""
    from costmodel.documents.keys.key_list import all_keys

    return _names_that_start((key.path for key in all_keys()), incomplete)


def assignments(incomplete: str) -> list[str]:
    """Completions for --set: paths, and after the equals sign the values of the path."""
    from costmodel.documents.keys.key_list import values_of

    path, sign, _ = incomplete.partition("=")
    return _names_that_start((f"{path}={value}" for value in values_of(path)), incomplete) if sign else keys(incomplete)


def documents(incomplete: str) -> list[str]:
    """Names of documents of every kind that start with the incomplete word."""
    return _names_that_start((name for kind in FOLDER_OF for name in names(kind)), incomplete)


def accelerators(incomplete: str) -> list[str]:
    """Names of accelerators that start with the incomplete word."""
    return _names_that_start(names("accelerator"), incomplete)


def precisions(incomplete: str) -> list[str]:
    """Names of precisions, such as bf16, that start with the incomplete word."""
    from costmodel.documents.schemas.precision import Precision

    return _names_that_start(get_args(Precision), incomplete)


def explained(incomplete: str) -> list[str]:
    """Completions for the first argument of `explain`: scenarios, words, codes and files."""
    from costmodel.explore.explain.word_explanations import all_words

    return _names_that_start([*names("scenario"), *all_words()], incomplete) + _files(incomplete)


def quantities(incomplete: str) -> list[str]:
    """Names of results of a plan that start with the incomplete word."""
    from costmodel.explore.explain.equation_trees import quantities

    return _names_that_start(quantities(), incomplete)


def pairs(incomplete: str) -> list[str]:
    """Pairs of results separated by a comma that start with the incomplete text."""
    from costmodel.documents.schemas.results import TRAINING_COLUMNS

    first, comma, _ = incomplete.partition(",")
    ranked = [name for name, column in TRAINING_COLUMNS.items() if column.better != "neither"]
    return _names_that_start((f"{first}{comma}{name}" if comma else name for name in ranked), incomplete)


def collectives(incomplete: str) -> list[str]:
    """Names of collectives that start with the incomplete word."""
    return _names_that_start(
        ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce", "send"), incomplete
    )


def schedules(incomplete: str) -> list[str]:
    """Pipeline schedules separated by commas that start with the incomplete text."""
    before, comma, _ = incomplete.rpartition(",")
    return _names_that_start((f"{before}{comma}{name}" for name in get_args(Schedule)), incomplete)
