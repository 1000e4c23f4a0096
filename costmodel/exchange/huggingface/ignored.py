"""Options of any config.json that cost nothing, or little, or belong elsewhere."""

from __future__ import annotations

import re

# What every configuration class has, and what saving a model adds.
_GENERAL = """
_name_or_path add_cross_attention architectures auto_map begin_suppress_tokens chunk_size_feed_forward
cross_attention_hidden_size custom_pipelines decoder_start_token_id dtype finetuning_task id2label label2id
is_composition is_decoder is_encoder_decoder keys_to_ignore_at_inference language model_type name_or_path
output_attentions output_hidden_states output_past output_scores prefix problem_type pruned_heads return_dict
sub_configs task_specific_params tf_legacy_loss tokenizer_class torch_dtype torchscript transformers_version
use_bfloat16 use_cache use_return_dict classifier_dropout classifier_bias num_labels tie_encoder_decoder
gradient_checkpointing unsloth_version unsloth_fixed model_max_length cache_implementation
"""
_GENERATION = """
bad_words_ids diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size exponential_decay_length_penalty
forced_bos_token_id forced_eos_token_id length_penalty max_length max_new_tokens min_length no_repeat_ngram_size
num_beam_groups num_beams num_return_sequences remove_invalid_values repetition_penalty return_dict_in_generate
suppress_tokens temperature top_k top_p typical_p
"""
_POSITIONS = """
alibi_bias_max default_rope_theta max_window_layers original_max_position_embeddings partial_rotary_factor rope
rope_interleave rope_local_base_freq rope_parameters rope_ratio rope_scaling rope_theta rotary rotary_base rotary_dim
rotary_emb_base rotary_emb_fraction rotary_pct local_rope_theta position_embedding_type
"""
_NUMERICS = """
activation activation_dropout activation_function attention_dropout attention_probs_dropout_prob attn_pdrop
dropout embd_pdrop embed_dropout emb_pdrop hidden_act hidden_activation hidden_dropout hidden_dropout_prob
init_std initializer_factor initializer_range layer_norm_eps layer_norm_epsilon mlp_hidden_act norm_eps norm_epsilon
rms_norm_eps layernorm_epsilon resid_pdrop residual_dropout embedding_dropout scale_embedding mup_enabled
pretraining_tp use_mtp mtp_transformer_layers tensor_parallel_degree attn_implementation
_flash_attn_2_enabled use_flash_attn flash_attention ep_size
"""
_ROUTING = """
aux_loss_alpha norm_topk_prob output_router_logits routed_scaling_factor router_aux_loss_coef router_jitter_noise
router_z_loss_coef router_aux_loss_alpha scoring_func seq_aux moe_layer_freq topk_method route_scale
"""
_TOKENS = re.compile(r"(.+_)?(token|tokens)(_(id|ids|index))?|.*_token_(id|index)|(bos|eos|pad|unk|sep|cls|mask)_\w+")

WITHOUT_COST = frozenset(" ".join((_GENERAL, _GENERATION, _POSITIONS, _NUMERICS, _ROUTING)).split())

# Options that cost something and that no costmodel key expresses, with the sentence to print where they are set.
APPROXIMATED = {
    "attn_logit_softcapping": "scores are capped by a tanh, whose time is not modelled",
    "final_logit_softcapping": "logits are capped by a tanh, whose time is not modelled",
    "clip_qkv": "queries, keys and values are clipped, whose time is not modelled",
}
CANNOT_BE_SAID = {
    "num_mtp_modules": "modules of multi-token prediction, whose shape is not in the file",
}
# Parts of a multimodal configuration beside the text model.
OTHER_PARTS = re.compile(
    r"(vision|audio|speech|image|video|mm|vq|vqmodel|projector|connector|resampler|encoder|talker|vit|perceiver|q?former)"
    r"(_\w+)?|\w+_(vision|audio)_config|img_processor|embd_layer|audio_processor|visual"
)


def is_token(name: str) -> bool:
    """Whether an option names a token of the vocabulary."""
    return _TOKENS.fullmatch(name) is not None
