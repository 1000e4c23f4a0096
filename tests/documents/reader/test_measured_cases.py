"""Scenarios of measured tables: documents that several runs name are read once, and each run lists its own."""

from __future__ import annotations

from collections import Counter

import pytest

from costmodel.documents.keys.overrides import listed
from costmodel.documents.reader import library
from costmodel.documents.reader.library import DocumentReader, read
from costmodel.documents.reader.load_scenario import any_from
from costmodel.documents.reader.measured_cases import cases
from costmodel.documents.text.yaml_tree import copied

MANY = "narayanan-2021"  # one machine, and models of many sizes


def test_a_document_that_several_runs_name_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: Counter[tuple[str, str]] = Counter()
    text_of = DocumentReader.text

    def counted(reader: DocumentReader, kind: str, name: str, *place: object, **more: object) -> object:
        texts[kind, name] += 1
        return text_of(reader, kind, name, *place, **more)  # type: ignore[arg-type]

    table = read("measured", MANY)
    monkeypatch.setattr(library.DocumentReader, "text", counted)
    assert len(cases(table)) > 3
    machine = Counter({key: count for key, count in texts.items() if key[0] in ("accelerator", "fabric", "efficiency")})
    assert machine
    assert set(machine.values()) == {1}


def test_each_run_lists_the_documents_that_it_names_alone() -> None:
    table = read("measured", MANY)
    for run, case in cases(table):
        changes = {change.path: change for change in (*listed(table.set), *listed(run.set))}
        inward = sorted(changes.values(), key=lambda change: change.path.count("."))
        alone = any_from(DocumentReader(), copied(table.scenario), table.name, inward)
        assert case.digests == alone.digests
        assert case.trees == alone.trees
        assert case.own == alone.own
