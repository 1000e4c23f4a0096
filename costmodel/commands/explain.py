"""explain: why this figure; what does this word or code mean."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from costmodel.commands.shared import ForceOption, Format, FormatOption, JsonOption, OutputOption, SetOption, deliver
from costmodel.documents.library import load, names
from costmodel.errors import fail
from costmodel.explore.explain import all_words, quantities
from costmodel.explore.explain import page as page_of
from costmodel.explore.face import explain as explain_figure
from costmodel.report import tree


def explain(
    what: Annotated[str | None, typer.Argument(help="A scenario, or a word or code", show_default=False)] = None,
    quantity: Annotated[str | None, typer.Argument(help="A figure of the scenario's plan", show_default=False)] = None,
    depth: Annotated[int, typer.Option("--depth", min=1, max=50, help="How far down the tree")] = 3,
    assignments: SetOption = None,
    form: FormatOption = Format.TABLE,
    as_json: JsonOption = False,
    output: OutputOption = None,
    force: ForceOption = False,
) -> None:
    """Why a figure is what it is: equation, inputs, units and source of each; or what a word or code means.

    Examples:

      costmodel explain llama-3-70b-512 dp_exposed

      costmodel explain ring_time

      costmodel explain L002

    Alone it lists what can be explained. Next: --depth 6 goes further down
    """
    written = as_json or form is Format.JSON
    if what is None:
        words = all_words()
        deliver(
            lambda: [Text(f"quantities: {', '.join(quantities())}"), Text(), Text(f"words: {', '.join(words)}")],
            lambda: {"schema": "costmodel/words/v1", "quantities": quantities(), "words": words},
            as_json=written,
            output=output,
            force=force,
        )
    elif quantity is None and (what == "-" or what in names("scenario") or what.endswith((".yaml", ".yml", ".json"))):
        raise fail("C003", f"'{what}' is a scenario; say which figure", None, f"costmodel explain {what} step_time")
    elif quantity is None:
        about = page_of(what)
        deliver(lambda: tree.page(about), lambda: tree.page_json(about), as_json=written, output=output, force=force)
    else:
        node = explain_figure(load(what, assignments or ()), quantity)
        deliver(
            lambda: tree.tree(node, depth),
            lambda: {"schema": "costmodel/explanation/v1", **tree.as_json(node)},
            as_json=written,
            output=output,
            force=force,
        )
