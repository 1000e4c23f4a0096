"""explain: why this figure; what does this word or code mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.shared import SetOption, answering
from costmodel.errors import fail
from costmodel.report.reply import Reply


@answering
def explain(
    what: Annotated[
        str | None,
        typer.Argument(help="A scenario, or a word or code", show_default=False, autocompletion=completion.explained),
    ] = None,
    quantity: Annotated[
        str | None,
        typer.Argument(
            help="A figure of the scenario's plan", show_default=False, autocompletion=completion.quantities
        ),
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    depth: Annotated[int, typer.Option("--depth", min=1, max=50, help="How far down the tree")] = 3,
    assignments: SetOption = None,
) -> Reply:
    """Why a figure is what it is: equation, inputs, units and source of each; or what a word or code means.

    Examples:
      costmodel explain llama-3-70b-512 dp_exposed
      costmodel explain ring_time
      costmodel explain matrix multiply
      costmodel explain L002

    Alone it lists what can be explained. Exit code 1 when the plan is not legal.

    Next: --depth 6 goes further down
    """
    from costmodel.explore.explain.labels import meaning_of
    from costmodel.explore.explain.pages import page
    from costmodel.report import tree

    if what is None:
        return Reply(tree.words, tree.words_json)
    words = " ".join(filter(None, (what, quantity, *(more or ()))))
    if more or (quantity is not None and (meaning_of(words) or not _asked_of_a_scenario(what, quantity))):
        what, quantity = words, None
    if quantity is not None:
        return _figure(what, quantity, assignments or (), depth)
    if _is_scenario(what):
        raise fail("C003", f"'{what}' is a scenario; say which figure", None, f"costmodel explain {what} step_time")
    about = page(what)
    return Reply(lambda: tree.page(about), lambda: tree.page_json(about))


def _figure(scenario: str, quantity: str, assignments: Sequence[str], depth: int) -> Reply:
    """A figure of a scenario's plan, as a tree of equations."""
    from costmodel.documents.case import load_any, training
    from costmodel.estimate.plan import predict
    from costmodel.explore.explain.explain import quantities
    from costmodel.explore.explain.labels import meaning_of
    from costmodel.explore.explain.pages import all_words
    from costmodel.explore.face import explain as explain_figure
    from costmodel.report import machine, tree
    from costmodel.report.plan import refusal

    loaded = load_any(scenario, assignments)
    if loaded.kind == "serving":
        from costmodel.commands import serving

        return serving.explain(loaded, quantity, depth)
    quantity = quantity if quantity in quantities() else (meaning_of(quantity) or ("", ""))[1] or quantity
    if quantity not in quantities() and quantity in all_words():
        raise fail("C003", f"'{quantity}' is a word, not a figure of a plan", None, f"costmodel explain {quantity}")
    case = training(loaded)
    asked = predict(case)
    if asked.refused:
        return Reply(lambda: refusal(asked), lambda: machine.estimate(asked), yes=False)
    node = explain_figure(case, quantity)
    return Reply(lambda: tree.tree(case, node, depth), lambda: tree.tree_json(case, node))


def _asked_of_a_scenario(what: str, quantity: str) -> bool:
    """Whether two words are a scenario, perhaps misspelt, and a figure of its plan."""
    from costmodel.explore.explain.explain import quantities

    return _is_scenario(what) or quantity in quantities()


def _is_scenario(what: str) -> bool:
    """Whether a word names a scenario, or a file that may hold one."""
    from costmodel.documents.folders import SUFFIXES, names

    return what == "-" or what in names("scenario") or what.endswith(SUFFIXES)
