"""The page of the referee is what the recorded answers give, of the runs that are shipped, and of nothing fitted."""

from __future__ import annotations

from collections import Counter

from costmodel.documents.reader.library import names
from costmodel.documents.reader.library import read as document

from .referee import ANSWERS, COLUMNS, OURS, OWN, PAGE, PROGRAMS, RUNS, page, read


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text("utf-8") == page(), "python -m tests.generated.referee.referee writes it again"


def test_the_runs_are_those_shipped() -> None:
    """Every run with a step time or a rate of tokens, as measured."""
    shipped = {
        f"{name}/{run.name}": measured
        for name in names("measured")
        for run in document("measured", name).runs
        if (measured := run.measured.step_time or run.measured.output_tokens_per_s)
    }
    assert {row["run"]: float(row["measured"]) for row in read(RUNS)} == shipped


def test_each_program_answers_or_refuses_each_run_once() -> None:
    runs, answers = {row["run"]: row for row in read(RUNS)}, read(ANSWERS)
    assert list(answers[0]) == list(COLUMNS)
    kinds = Counter(row["kind"] for row in runs.values())
    for program in PROGRAMS:
        asked = Counter(row["run"] for row in answers if row["program"] == program)
        assert set(asked.values()) == {1}
        assert {runs[run]["kind"] for run in asked} <= set(kinds)
        assert sum(asked.values()) == sum(kinds[kind] for kind in {runs[run]["kind"] for run in asked})
    assert all(bool(row["predicted"]) != bool(row["refused"]) for row in answers)
    sources = {row["source"] for row in runs.values()}
    assert all(source in sources for own in OWN.values() for source in own)


def test_only_costmodel_gives_a_band() -> None:
    """Every answer of costmodel has one, and it answers every run."""
    for row in read(ANSWERS):
        assert bool(row["in_band"]) == (row["program"] == OURS)
