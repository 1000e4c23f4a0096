"""Configurations of the families with experts, latent attention or state-space layers, from the shapes shipped."""

from __future__ import annotations

from typing import Any

from costmodel.documents.schemas.model import Experts, LatentAttention, Layers, Model

from .sizes import common, grouped, sizes, whole


def mixtral(model: Model, kind: Layers) -> Any:
    from transformers import MixtralConfig

    experts = _experts(model)
    return MixtralConfig(
        **grouped(model, kind, experts.ffn_hidden),
        num_local_experts=whole(experts.count),
        num_experts_per_tok=whole(experts.top_k),
    )


def qwen2(model: Model, kind: Layers) -> Any:
    from transformers import Qwen2MoeConfig

    experts = _experts(model)
    shared = experts.shared
    assert shared is not None
    assert experts.shared_gate
    given = grouped(model, kind, shared.ffn_hidden)
    del given["head_dim"]
    return Qwen2MoeConfig(
        **given,
        moe_intermediate_size=whole(experts.ffn_hidden),
        shared_expert_intermediate_size=whole(shared.ffn_hidden),
        num_experts=whole(experts.count),
        num_experts_per_tok=whole(experts.top_k),
    )


def qwen3(model: Model, kind: Layers) -> Any:
    from transformers import Qwen3MoeConfig

    experts = _experts(model)
    return Qwen3MoeConfig(
        **grouped(model, kind, experts.ffn_hidden),
        moe_intermediate_size=whole(experts.ffn_hidden),
        num_experts=whole(experts.count),
        num_experts_per_tok=whole(experts.top_k),
    )


def olmoe(model: Model, kind: Layers) -> Any:
    from transformers import OlmoeConfig

    experts = _experts(model)
    given = grouped(model, kind, experts.ffn_hidden)
    del given["head_dim"]
    return OlmoeConfig(**given, num_experts=whole(experts.count), num_experts_per_tok=whole(experts.top_k))


def gpt_oss(model: Model, kind: Layers) -> Any:
    from transformers import GptOssConfig

    experts = _experts(model)
    return GptOssConfig(
        **grouped(model, kind, experts.ffn_hidden),
        num_local_experts=whole(experts.count),
        num_experts_per_tok=whole(experts.top_k),
    )


def dbrx(model: Model, kind: Layers) -> Any:
    from transformers import DbrxConfig

    experts = _experts(model)
    assert kind.attention is not None
    feed = {
        "ffn_hidden_size": whole(experts.ffn_hidden),
        "moe_num_experts": whole(experts.count),
        "moe_top_k": whole(experts.top_k),
    }
    return DbrxConfig(
        d_model=whole(model.hidden),
        n_heads=whole(kind.attention.heads),
        n_layers=whole(kind.count),
        max_seq_len=whole(model.max_sequence),
        vocab_size=whole(model.vocab),
        attn_config={"kv_n_heads": whole(kind.attention.kv_heads), "rope_theta": 500_000.0},  # read, though undeclared
        ffn_config=feed,
    )


def deepseek_v2(model: Model, kind: Layers) -> Any:
    from transformers import DeepseekV2Config

    return DeepseekV2Config(**_deepseek(model, kind))


def deepseek_v3(model: Model, kind: Layers) -> Any:
    from transformers import DeepseekV3Config

    return DeepseekV3Config(**_deepseek(model, kind))


def _deepseek(model: Model, kind: Layers) -> dict[str, Any]:
    """Dense layers come first; shared experts are counted in widths of a routed one."""
    latent, experts = kind.latent, _experts(model)
    assert isinstance(latent, LatentAttention)
    assert kind.mlp is not None
    assert experts.shared is not None
    return common(model, kind) | {
        "intermediate_size": whole(kind.mlp.ffn_hidden),
        "first_k_dense_replace": whole(kind.count),
        "q_lora_rank": whole(latent.query_rank or 0) or None,
        "kv_lora_rank": whole(latent.kv_rank),
        "qk_nope_head_dim": whole(latent.nope_dim),
        "qk_rope_head_dim": whole(latent.rope_dim),
        "v_head_dim": whole(latent.value_dim),
        "n_routed_experts": whole(experts.count),
        "n_shared_experts": whole(experts.shared.ffn_hidden / experts.ffn_hidden),
        "num_experts_per_tok": whole(experts.top_k),
        "moe_intermediate_size": whole(experts.ffn_hidden),
    }


def llama_4(model: Model, kind: Layers) -> Any:
    """Experts in every layer, or in every second one."""
    from transformers import Llama4TextConfig

    experts = _experts(model)
    dense = [each.mlp.ffn_hidden for each in model.layers if each.mlp is not None]
    return Llama4TextConfig(
        **grouped(model, kind, experts.ffn_hidden),
        num_local_experts=whole(experts.count),
        num_experts_per_tok=whole(experts.top_k),
        intermediate_size_mlp=whole(dense[0]) if dense else 0,
        interleave_moe_layer_step=2 if dense else 1,
    )


def nemotron_h(model: Model, kind: Layers) -> Any:
    """Every layer is one half: attention, a state-space mixer or an MLP."""
    from transformers import NemotronHConfig

    (mixer,) = [each.state_space for each in model.layers if each.state_space is not None]
    (attention,) = [each.attention for each in model.layers if each.attention is not None]
    (feed,) = [each.mlp for each in model.layers if each.mlp is not None]
    halves = []
    for each in model.layers:
        half = "full_attention" if each.attention else "linear_attention" if each.state_space else "mlp"
        halves += [half] * whole(each.count)
    return NemotronHConfig(
        **sizes(model),
        layers_block_type=halves,
        intermediate_size=whole(feed.ffn_hidden),
        num_attention_heads=whole(attention.heads),
        num_key_value_heads=whole(attention.kv_heads),
        head_dim=whole(attention.head_dim),
        mamba_num_heads=whole(mixer.heads),
        mamba_head_dim=whole(mixer.head_dim),
        n_groups=whole(mixer.groups),
        ssm_state_size=whole(mixer.state),
        conv_kernel=whole(mixer.conv),
        chunk_size=whole(mixer.chunk),
    )


def _experts(model: Model) -> Experts:
    return next(kind.experts for kind in model.layers if kind.experts is not None)
