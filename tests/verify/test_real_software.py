"""The reference files still say what the real software does; needs the extra [verify], else skipped."""

from __future__ import annotations

import warnings

import pytest

from .make import PARTS, counted, kept, written

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.filterwarnings("ignore")
def test_the_reference_is_what_it_does(part: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert written(counted(part)) == kept(part).read_text("utf-8")
