"""The arguments of Megatron-LM by its own parser and its own checks, from a checkout that $MEGATRON_LM names.

No GPU and no package beyond PyTorch's is needed: what stands for Triton here is never called.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import io
import os
import sys
import types
import typing
from typing import Any
from unittest.mock import MagicMock

from costmodel.exchange.megatron.options import READ

from .megatron_cases import CASES, options

KEPT = """
accumulate_allreduce_grads_in_fp32 add_bias_linear add_position_embedding bf16 context_parallel_size
data_parallel_sharding_strategy data_parallel_size decoder_first_pipeline_num_layers
decoder_last_pipeline_num_layers expert_model_parallel_size expert_tensor_parallel_size ffn_hidden_size fp16 fp4
fp8 fp8_recipe global_batch_size grad_reduce_in_bf16 group_query_attention hidden_size hybrid_layer_pattern
kv_channels kv_lora_rank
max_position_embeddings micro_batch_size moe_ffn_hidden_size moe_layer_freq moe_router_topk
multi_latent_attention num_attention_heads num_experts num_layers num_layers_per_virtual_pipeline_stage
num_query_groups num_virtual_stages_per_pipeline_rank overlap_grad_reduce overlap_param_gather
pipeline_model_parallel_layout pipeline_model_parallel_size position_embedding_type q_lora_rank qk_layernorm
quick_geglu recompute_granularity recompute_method recompute_num_layers seq_length sequence_parallel squared_relu
swiglu tensor_model_parallel_size train_iters train_samples untie_embeddings_and_output_weights
use_distributed_optimizer use_layer_wise_distributed_optimizer use_megatron_fsdp use_torch_fsdp2
virtual_pipeline_model_parallel_size vocab_size world_size account_for_embedding_in_pipeline_split
account_for_loss_in_pipeline_split cp_comm_type hidden_dropout attention_dropout optimizer main_grads_dtype
exp_avg_dtype exp_avg_sq_dtype fp4_recipe normalization softmax_type moe_token_dispatcher_type
"""


def counted() -> dict[str, Any]:
    """All options; those we read as 'attribute action default'; for every case the arguments, or that it is refused."""
    spelled = [
        (name[2:], action) for action in _parser()._actions for name in action.option_strings if name[:2] == "--"
    ]
    found = {name: action for name, action in spelled if name != "help"}
    read = {
        name: f"{action.dest} {type(action).__name__.strip('_')} {action.default}"
        for name, action in found.items()
        if name in READ
    }
    return {"options": " ".join(sorted(found)), "read": read, "cases": [_checked(case) for case in CASES]}


class _Anything(types.ModuleType):
    """A module that has every attribute."""

    __path__: typing.ClassVar[list[str]] = []
    __version__ = "3.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


class _Stub(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands for Triton, whose kernels nothing calls."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "triton" else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Anything(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _arguments() -> Any:
    """megatron.training.arguments of the checkout."""
    import torch._dynamo
    import torch._inductor.runtime.triton_heuristics
    import torch.utils.flop_counter  # these three look for Triton where it is not
    import typing_extensions

    checkout = os.environ["MEGATRON_LM"]
    if checkout not in sys.path:
        sys.path.insert(0, checkout)
        sys.meta_path.insert(0, _Stub())
        typing.override = typing_extensions.override  # type: ignore[attr-defined]  # of Python 3.12
    from megatron.training import arguments

    torch.cuda.get_device_capability = lambda *_: (9, 0)
    for check in ("is_te_min_version", "is_torch_min_version", "is_flashinfer_min_version"):
        setattr(arguments, check, lambda *_, **__: True)
    arguments.get_device_arch_version = lambda: 10
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    return typing.cast(argparse.ArgumentParser, _arguments().add_megatron_arguments(parser))


def _checked(case: tuple[str, str, int]) -> dict[str, Any]:
    words = options(case)
    fsdp = any("fsdp" in word for word in words)
    os.environ |= {"WORLD_SIZE": str(case[2]), "RANK": "0", "CUDA_DEVICE_MAX_CONNECTIONS": "8" if fsdp else "1"}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            found = _parser().parse_args(words)
            found.rank, found.world_size = 0, case[2]
            _arguments().validate_args(found, {})
        except (AssertionError, ValueError, RuntimeError, SystemExit) as error:
            return {"refused": type(error).__name__}
    attributes = {name: getattr(found, name, None) for name in sorted(KEPT.split())}
    off = (name for name, value in attributes.items() if value is False and not name.startswith("add_"))
    return {name: str(attributes[name]) for name in sorted(attributes.keys() - off) if attributes[name] is not None}
