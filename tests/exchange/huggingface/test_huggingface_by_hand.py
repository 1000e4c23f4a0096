"""Parameters of small models by formulas of our own, from the description of each architecture: no table, no code."""

from __future__ import annotations

from typing import Any

import pytest

from exchange.published import parameters, read

V, H, L, A, K, D, F, S = 1000, 64, 4, 8, 2, 16, 176, 128  # vocabulary, width, layers, heads, of keys, their width …


def attention(biases: int = 0, output_bias: int = 0) -> int:
    """Queries, keys, values and the way back."""
    return 2 * H * A * D + 2 * H * K * D + biases * (A + 2 * K) * D + output_bias * H


def rotary(**more: Any) -> dict[str, Any]:
    """The options that most classes share."""
    return {
        "vocab_size": V, "hidden_size": H, "num_hidden_layers": L, "num_attention_heads": A, "num_key_value_heads": K,
        "head_dim": D, "intermediate_size": F, "max_position_embeddings": S, **more,
    }  # fmt: skip


GATED, PLAIN = 3 * H * F, 2 * H * F
E, T, X = 4, 2, 48  # experts, of a token, width of one
ROUTED = E * (3 * H * X + H)  # and a row of the router for each
NOPE, ROPE, VALUE, RANK_Q, RANK_KV = 24, 8, 20, 40, 32
LATENT = H * RANK_Q + RANK_Q + RANK_Q * A * (NOPE + ROPE) + H * (RANK_KV + ROPE) + RANK_KV
LATENT += RANK_KV * A * (NOPE + VALUE) + A * VALUE * H
LATENT_OPTIONS = {
    "q_lora_rank": RANK_Q, "kv_lora_rank": RANK_KV, "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE,
    "v_head_dim": VALUE,
}  # fmt: skip
M, P, G, N, C = 8, 16, 2, 32, 4  # heads of a state space, their width, groups, state, taps
INNER = M * P
STATE = H * (2 * INNER + 2 * G * N + M) + (INNER + 2 * G * N) * (C + 1) + 3 * M + INNER + INNER * H

HEADS = [8, 12, 12, 12]  # of the layers of Laguna

CASES: dict[str, tuple[dict[str, Any], int]] = {
    "mistral4, latent attention and experts in every layer": (
        {"architectures": ["Mistral4ForCausalLM"], "vocab_size": V, "hidden_size": H, "num_hidden_layers": L,
         "num_attention_heads": A, "max_position_embeddings": S, "moe_intermediate_size": X, "n_routed_experts": E,
         "num_experts_per_tok": T, **LATENT_OPTIONS},
        2 * V * H + L * (LATENT + ROUTED + 3 * H * X + 2 * H) + H,
    ),
    "laguna, heads by layer, a gate as wide as queries, the first layer dense": (
        {"architectures": ["LagunaForCausalLM"], **rotary(), "gating": "per-element", "num_experts": E,
         "num_attention_heads_per_layer": HEADS, "num_experts_per_tok": T, "moe_intermediate_size": X,
         "shared_expert_intermediate_size": X},
        2 * V * H + H + GATED + sum(3 * H * each * D + 2 * H * K * D + 2 * D + 2 * H for each in HEADS)
        + (L - 1) * (ROUTED + E + 3 * H * X),
    ),
    "llama": (
        {"architectures": ["LlamaForCausalLM"], **rotary()},
        2 * V * H + L * (attention() + GATED + 2 * H) + H,
    ),
    "qwen2, tied, biases of queries, keys and values": (
        {"architectures": ["Qwen2ForCausalLM"], **rotary(tie_word_embeddings=True)},
        V * H + L * (attention(1) + GATED + 2 * H) + H,
    ),
    "qwen3, norms of every head": (
        {"architectures": ["Qwen3ForCausalLM"], **rotary()},
        2 * V * H + L * (attention() + 2 * D + GATED + 2 * H) + H,
    ),
    "gemma2, four norms": (
        {"architectures": ["Gemma2ForCausalLM"], **rotary()},
        V * H + L * (attention() + GATED + 4 * H) + H,
    ),
    "olmo2, norms of all heads": (
        {"architectures": ["Olmo2ForCausalLM"], **rotary(head_dim=H // A)},
        2 * V * H + L * (2 * H * H + 2 * H * K * (H // A) + H + K * (H // A) + GATED + 2 * H) + H,
    ),
    "cohere, halves side by side": (
        {"architectures": ["CohereForCausalLM"], **rotary()},
        V * H + L * (attention() + GATED + H) + H,
    ),
    "gpt2": (
        {"architectures": ["GPT2LMHeadModel"], "vocab_size": V, "n_embd": H, "n_layer": L, "n_head": A,
         "n_positions": S},
        (V + S) * H + L * (12 * H * H + 9 * H + 4 * H) + 2 * H,
    ),
    "opt, two rows before the first position": (
        {
            "architectures": ["OPTForCausalLM"], "vocab_size": V, "hidden_size": H, "num_hidden_layers": L,
            "ffn_dim": F, "num_attention_heads": A, "max_position_embeddings": S, "word_embed_proj_dim": H,
        },
        (V + S + 2) * H + L * (4 * H * H + 4 * H + PLAIN + F + H + 4 * H) + 2 * H,
    ),
    "bloom, a norm behind the embedding": (
        {"architectures": ["BloomForCausalLM"], "vocab_size": V, "hidden_size": H, "n_layer": L, "n_head": A},
        V * H + 2 * H + L * (12 * H * H + 9 * H + 4 * H) + 2 * H,
    ),
    "falcon, one key head and one norm": (
        {"architectures": ["FalconForCausalLM"], "vocab_size": V, "hidden_size": H, "num_hidden_layers": L,
         "num_attention_heads": A},
        V * H + L * (2 * H * H + 2 * H * (H // A) + 8 * H * H + 2 * H) + 2 * H,
    ),
    "falcon, the new decoder": (
        {"architectures": ["FalconForCausalLM"], "vocab_size": V, "hidden_size": H, "num_hidden_layers": L,
         "num_attention_heads": A, "num_kv_heads": K, "new_decoder_architecture": True},
        V * H + L * (2 * H * H + 2 * H * K * (H // A) + 8 * H * H + 4 * H) + 2 * H,
    ),
    "mixtral": (
        {"architectures": ["MixtralForCausalLM"], **rotary(intermediate_size=X, num_local_experts=E)},
        2 * V * H + L * (attention() + ROUTED + 2 * H) + H,
    ),
    "mixtral of one expert, whose router is a row": (
        {"architectures": ["MixtralForCausalLM"],
         **rotary(intermediate_size=F, num_local_experts=1, num_experts_per_tok=1)},
        2 * V * H + L * (attention() + GATED + H + 2 * H) + H,
    ),
    "helium, heads that fill the width": (
        {"architectures": ["HeliumForCausalLM"], **rotary(head_dim=H // A)},
        2 * V * H + L * (2 * H * H + 2 * H * K * (H // A) + GATED + 2 * H) + H,
    ),
    "qwen2-moe, experts in every second layer, a shared one with a gate": (
        {
            "architectures": ["Qwen2MoeForCausalLM"],
            **rotary(num_experts=E, num_experts_per_tok=T, moe_intermediate_size=X, decoder_sparse_step=2),
            "shared_expert_intermediate_size": 2 * X,
        },
        2 * V * H + L * (attention(1) + 2 * H) + L // 2 * (GATED + ROUTED + 3 * H * 2 * X + H) + H,
    ),
    "gpt-oss, sinks, and biases everywhere": (
        {"architectures": ["GptOssForCausalLM"],
         **rotary(intermediate_size=X, num_local_experts=E, num_experts_per_tok=T)},
        2 * V * H + L * (attention(1, 1) + A + ROUTED + E * (2 * X + H + 1) + 2 * H) + H,
    ),
    "deepseek-v3, one dense layer, a bias for every expert": (
        {
            "architectures": ["DeepseekV3ForCausalLM"], **rotary(), **LATENT_OPTIONS, "first_k_dense_replace": 1,
            "n_routed_experts": E, "num_experts_per_tok": T, "moe_intermediate_size": X, "n_shared_experts": 2,
            "n_group": 1, "topk_group": 1,
        },
        2 * V * H + L * (LATENT + 2 * H) + GATED + (L - 1) * (ROUTED + E + 2 * 3 * H * X) + H,
    ),
    "nemotron-h, halves one by one": (
        {
            "architectures": ["NemotronHForCausalLM"], **rotary(), "hybrid_override_pattern": "M-M*", "n_groups": G,
            "mamba_num_heads": M, "mamba_head_dim": P, "ssm_state_size": N, "conv_kernel": C, "chunk_size": 64,
        },
        2 * V * H + 2 * STATE + PLAIN + attention() + 4 * H + H,
    ),
    "mamba2, tied": (
        {
            "architectures": ["Mamba2ForCausalLM"], "vocab_size": V, "hidden_size": H, "num_hidden_layers": L,
            "num_heads": M, "head_dim": P, "n_groups": G, "state_size": N, "conv_kernel": C, "expand": INNER // H,
            "tie_word_embeddings": True,
        },
        V * H + L * (STATE + H) + H,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_parameters_equal_the_formula(name: str) -> None:
    config, wanted = CASES[name]
    assert parameters(read(config)) == wanted
