"""Memory of a loss written the usual way: 16-bit logits, cross entropy in fp32; the most that is alive at once."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

TOKENS, VOCAB, HIDDEN = 2048, 8192, 8


class Alive(TorchDispatchMode):
    """Adds up the storages that operations make and takes them off when they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in self.sizes:
                storage = tensor.untyped_storage()
                self.sizes[storage.data_ptr()] = storage.nbytes()
                weakref.finalize(storage, self.sizes.pop, storage.data_ptr(), None)
        self.most = max(self.most, sum(self.sizes.values()))
        return result


def counted() -> dict[str, float]:
    """Bytes a logit of the logits and all that the loss and its backward hold at their most loaded."""
    x = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16)
    head = torch.randn(VOCAB, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    labels = torch.zeros(TOKENS, dtype=torch.long)
    with Alive() as alive:
        logits = x @ head.T
        loss = torch.nn.functional.cross_entropy(logits.float(), labels)
        del logits
        loss.backward()
    return {"eager": round(alive.most / (TOKENS * VOCAB), 1)}
