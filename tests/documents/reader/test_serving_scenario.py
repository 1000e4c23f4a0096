"""Documents that a scenario of serving names beside those of every scenario."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("draft", "sentence", "hint"),
    [
        ("medusa", "no draft named 'medusa'", "a draft is eagle, mtp, ngram or a model"),
        ("EAGLE3", "no draft named 'EAGLE3'", "did you mean 'eagle'?"),
        ("llama-3.2-1bb", "no model named 'llama-3.2-1bb'", "did you mean 'llama-3.2-1b'?"),
    ],
)
def test_a_draft_that_is_not_there_is_reported_at_its_own_place(
    draft: str, sentence: str, hint: str, run: Any, faults: Any
) -> None:
    drafts = f"plan.speculation={{tokens: 5, chance: 0.6, draft: {draft}}}"
    (fault,) = faults(run("estimate", "serve-llama-3.1-70b", "--set", "plan.tp=8", "--set", drafts))
    assert fault.code == "D009"
    assert sentence in fault.sentence
    assert hint in fault.help
    assert drafts.partition("=")[2] in fault.marked
