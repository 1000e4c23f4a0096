"""Whether models that see or hear share the table of their text half with its head, by which of two options."""

from __future__ import annotations

import contextlib
from typing import Any

from costmodel.exchange.huggingface.families.multimodal import WRAPPERS, Wrapper

from .config_parameters import _built

OPTIONS = (None, True, False)
TEXT = {"num_hidden_layers": 1}


def counted() -> dict[str, Any]:
    """By class whether tied, for each pair of the outer and the inner option; without classes that cannot be built."""
    found = {wrapper.classes[0]: _of_class(wrapper) for wrapper in WRAPPERS}
    return {name: answers for name, answers in found.items() if answers}


def _of_class(wrapper: Wrapper) -> list[list[Any]]:
    return [
        [outer, inner, tied]
        for outer in OPTIONS
        for inner in OPTIONS
        if (tied := _tied(wrapper, outer, inner)) is not None
    ]


def _tied(wrapper: Wrapper, outer: bool | None, inner: bool | None) -> bool | None:
    import transformers
    from transformers import CONFIG_MAPPING

    given: dict[str, Any] = {} if outer is None else {"tie_word_embeddings": outer}
    given[wrapper.keys[0]] = {**TEXT} if inner is None else {**TEXT, "tie_word_embeddings": inner}
    with contextlib.suppress(Exception):
        config = CONFIG_MAPPING[wrapper.types[0]](**given)
        model = _built(getattr(transformers, wrapper.classes[0])._from_config, config)
        return model.get_output_embeddings().weight is model.get_input_embeddings().weight
    return None
