"""Which term moved: a planted regression is found in drawn runs of real layouts, and nothing where nothing moved."""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.evidence.validate.outcomes import Compared
from costmodel.evidence.validate.validate import ALL, moved_terms, validated
from costmodel.exchange.tables.serving_table import ServingTable
from costmodel.explore.import_export.import_file import GivenBesideFile
from costmodel.explore.import_export.import_log_folder import read_log_folder

from .runs_of_22b import BASE, MODERN

NAMES = ("gpus", "tp", "pp", "micro_batch", "global_batch", "recompute", "seq_len")
LAYOUTS = [
    dict(zip(NAMES, cells, strict=True))
    for cells in (
        (8, 8, 1, 4, 4, "full", 2048), (8, 8, 1, 1, 8, "full", 8192), (16, 8, 2, 1, 8, "full", 2048),
        (16, 4, 4, 1, 8, "selective", 2048), (32, 8, 1, 1, 16, "selective", 1024), (32, 4, 2, 1, 64, "full", 8192),
        (64, 8, 4, 1, 16, "full", 2048), (64, 4, 1, 1, 32, "full", 2048), (64, 2, 8, 1, 32, "full", 4096),
        (128, 8, 1, 1, 32, "selective", 2048), (128, 4, 4, 1, 64, "full", 1024), (128, 8, 2, 2, 32, "full", 8192),
    )
]  # fmt: skip
OFF, NOISE = 1.07, 0.01  # how far predictions are off, and how much like runs differ


def table(path: Path, times: Sequence[float] | None = None) -> str:
    rows = [
        {
            **BASE,
            **MODERN,
            **layout,
            "id": f"run-{at}",
            "seq_parallel": "true",
            "step_time_s": 1.0 if times is None else times[at],
        }
        for at, layout in enumerate(LAYOUTS)
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


@functools.cache
def figures(folder: Path) -> tuple[Compared, ...]:
    """Predictions of the layouts, with the shares of their terms."""
    (part,) = validated([table(folder / "layouts.csv")], quantity="time")
    assert [each.refused for each in part.figures] == [None] * len(LAYOUTS)
    return tuple(part.figures)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Compared, ...]:
    return figures(tmp_path_factory.mktemp("layouts"))


def drawn(known: Sequence[Compared], draw: np.random.Generator, term: str = "", factor: float = 1.0) -> list[Compared]:
    """The runs as they would be measured where a term takes so many times as long."""
    found = []
    for each in known:
        assert each.predicted is not None
        share = 1.0 if term == ALL else each.parts.get(term, 0.0)
        time = each.predicted * OFF * (1 + share * (factor - 1)) * float(np.exp(draw.normal(0, NOISE)))
        found.append(replace(each, measured=time))
    return found


def test_a_planted_change_is_named_in_nineteen_of_twenty_draws(known: tuple[Compared, ...]) -> None:
    terms = [term for term in known[0].parts if max(each.parts[term] for each in known) >= 0.1]
    assert len(terms) >= 5
    draw, right, among, some, draws = np.random.default_rng(11), 0, 0, 0, 240
    for at in range(draws):
        term, factor = terms[at % len(terms)], (1.4, 1.5, 0.7)[at // len(terms) % 3]
        found = moved_terms(drawn(known, draw) + drawn(known, draw), drawn(known, draw, term, factor))
        named = found.likeliest
        if named is None:
            continue
        some += 1
        assert found.slower or factor < 1
        among += term in (named.term, *found.alike)
        right += named.term == term
        assert named.term != term or named.factor == pytest.approx(factor, rel=0.3)
    assert right >= 0.95 * draws
    assert among >= 0.99 * some


@pytest.fixture(scope="module")
def served() -> tuple[Compared, ...]:
    """Times per token of two services, at four numbers of users each."""
    nights = read_log_folder(str(Path(__file__).parents[1] / "measured" / "team"), GivenBesideFile()).nights
    tables = [table for table in nights["2026-11-28"] if type(table) is ServingTable]
    return tuple(figure for part in validated(tables, quantity="tpot") for figure in part.figures)


def test_a_term_of_a_token_that_a_release_slows_down_is_named(served: tuple[Compared, ...]) -> None:
    draw, right, draws = np.random.default_rng(12), 0, 120
    terms = ("tp", "attention", "prompts")
    assert {*terms} < {*served[0].parts}
    assert all(sum(each.parts.values()) == pytest.approx(1) for each in served)
    for at in range(draws):
        before = [drawn(served, draw) for _ in range(2)]
        found = moved_terms([each for night in before for each in night], drawn(served, draw, terms[at % 3], 2.5))
        right += found.likeliest is not None and found.likeliest.term == terms[at % 3]
    assert right >= 0.95 * draws


def test_a_release_of_the_made_engine_is_named_with_its_term(run: Any) -> None:
    folder = str(Path(__file__).parents[1] / "measured" / "team")
    said = run("check", "--runs", folder, "--json")
    found = json.loads(said.out)
    assert (said.code, found["term"], found["figure"]) == (1, "tp", "tpot")
    assert found["release"] == ["0.17.1", "0.18.0"]
    assert [(each["figure"], each["moved"]) for each in found["runs"]] == [
        ("time", False),
        ("tpot", True),
        ("ttft", False),
    ]


def test_a_machine_that_is_slower_in_all_is_named_as_such(known: tuple[Compared, ...]) -> None:
    draw = np.random.default_rng(5)
    found = moved_terms(drawn(known, draw), drawn(known, draw, ALL, 1.08))
    assert found.likeliest is not None
    assert found.likeliest.term == ALL
    assert found.likeliest.factor == pytest.approx(1.08, abs=0.01)


def test_chance_alone_is_no_change(known: tuple[Compared, ...]) -> None:
    draw = np.random.default_rng(6)
    found = [moved_terms(drawn(known, draw) + drawn(known, draw), drawn(known, draw)) for _ in range(40)]
    assert sum(each.moved for each in found) <= 2


def test_layouts_are_compared_with_themselves(known: tuple[Compared, ...]) -> None:
    """Whose predictions are off by very different factors, which are no change."""
    draw = np.random.default_rng(9)
    off = draw.normal(0, 0.2, len(known))

    def night(factor: float) -> list[Compared]:
        made = zip(drawn(known, draw, ALL, factor), off, strict=True)
        return [replace(each, measured=(each.measured or 0.0) * float(np.exp(own))) for each, own in made]

    before = [*night(1.0), *night(1.0), *night(1.0)]
    assert not moved_terms(before, night(1.0)).moved
    found = moved_terms(before, night(1.06))
    assert found.likeliest is not None
    assert found.likeliest.term == ALL
    assert found.spread < 0.02


def test_a_change_that_no_single_term_explains_is_stated_as_such(known: tuple[Compared, ...]) -> None:
    draw = np.random.default_rng(10)
    before, now = [*drawn(known, draw), *drawn(known, draw), *drawn(known, draw)], drawn(known, draw)
    for place, factor in ((2, 1.25), (6, 0.8), (9, 1.2)):
        now[place] = replace(now[place], measured=(now[place].measured or 0.0) * factor)
    found = moved_terms(before, now)
    assert found.moved
    assert found.likeliest is None
    assert found.slower


def test_the_check_fails_and_names_the_term(known: tuple[Compared, ...], run: Any, tmp_path: Path) -> None:
    draw = np.random.default_rng(8)
    for day, factor in (("2026-11-28", 1.0), ("2026-11-29", 1.0), ("2026-11-30", 1.5)):
        made = drawn(known, draw, "tp", factor)
        table(tmp_path / f"{day}.csv", [each.measured or 0.0 for each in made])
    said = run("check", "--runs", str(tmp_path), "--json")
    found = json.loads(said.out)
    assert (said.code, found["moved"], found["term"]) == (1, True, "tp")
    assert found["factor"] == pytest.approx(1.5, rel=0.2)
    assert run("check", "--runs", str(tmp_path)).out.startswith("tp takes ")
    (tmp_path / "2026-11-30.csv").unlink()
    assert run("check", "--runs", str(tmp_path)).code == 0


@pytest.mark.parametrize("more", [("quickstart",), ("--against", "x.json"), ("--exact",)])
def test_what_belongs_to_scenarios_is_refused(more: tuple[str, ...], run: Any, tmp_path: Path) -> None:
    said = run("check", *more, "--runs", str(tmp_path))
    assert (said.code, "error[C008]" in said.err) == (2, True)


def test_a_folder_without_two_tables_is_refused(run: Any, tmp_path: Path) -> None:
    table(tmp_path / "one.csv")
    for folder in (tmp_path, tmp_path / "none"):
        said = run("check", "--runs", str(folder))
        assert (said.code, "error[C00" in said.err) == (2, True)
