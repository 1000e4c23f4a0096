"""Variations of a loaded scenario: the documents that it names are not read again, and all are listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.documents.reader.folders import shipped_file
from costmodel.documents.reader.load_scenario import load, vary
from costmodel.ground.errors import CostModelError


@pytest.mark.usefixtures("in_its_folder")
def test_a_document_that_changes_meanwhile_stays_as_it_was_read(tmp_path: Path) -> None:
    model = tmp_path / "mine.yaml"
    text = shipped_file("scenarios/models/llama-3.1-8b.yaml").read_text("utf-8")
    model.write_text(text.replace("name: llama-3.1-8b", "name: mine"), "utf-8")
    case = load("quickstart", ["model=mine.yaml"])
    model.unlink()
    varied = vary(case, ["plan.tp=4"])
    assert varied.model == case.model
    assert varied.digests == case.digests
    with pytest.raises(CostModelError, match=r"mine\.yaml"):
        load("quickstart", ["model=mine.yaml"])


def test_every_variation_lists_the_documents_that_it_names() -> None:
    case = load("quickstart")
    for _ in range(2):
        varied = vary(case, ["stack=deepspeed"])
        assert varied.digests == {**case.digests, **load("quickstart", ["stack=deepspeed"]).digests}
