"""Figures in notebooks: of every kind of scenario, and what has no figure is refused by name."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import costmodel


@pytest.mark.parametrize("name", ["quickstart", "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"])
def test_every_kind_of_scenario_has_figures(name: str) -> None:
    case = costmodel.load(name)
    for figure in ("time", "memory"):
        root = ElementTree.fromstring(costmodel.figure(case, figure)._repr_svg_())
        assert [item for item in root.iter() if item.get("data-name")]
    if name == "quickstart":
        assert costmodel.figure(case, "roofline")._repr_svg_().startswith("<svg")
        return
    with pytest.raises(costmodel.CostModelError, match="there is no figure 'roofline'"):
        costmodel.figure(case, "roofline")
