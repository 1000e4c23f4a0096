"""Small configurations of reinforcement learning, written for these tests in the keys of published ones."""

from __future__ import annotations

VERL = """\
set -x
max_response=$(((1024 * 3)))
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.train_files=$HOME/data/train.parquet \\
    data.train_batch_size=256 \\
    data.max_prompt_length=512 \\
    data.max_response_length=${max_response} \\
    data.truncation='error' \\
    actor_rollout_ref.model.path=Qwen/Qwen3-8B \\
    actor_rollout_ref.actor.optim.lr=1e-6 \\
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192 \\
    actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 \\
    actor_rollout_ref.actor.use_kl_loss=True \\
    actor_rollout_ref.actor.fsdp_config.param_offload=True \\
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=True \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \\
    actor_rollout_ref.rollout.n=8 \\
    +actor_rollout_ref.rollout.engine_kwargs.vllm.seed=1 \\
    trainer.logger='["console","wandb"]' \\
    trainer.n_gpus_per_node=8 \\
    trainer.nnodes=${NNODES:-2} \\
    trainer.total_training_steps=200 $@
"""
VERL_ASYNC = """\
python3 -m verl.experimental.fully_async_policy.fully_async_main \\
    --config-name='fully_async_ppo_megatron_trainer.yaml' \\
    data.max_prompt_length=512 data.max_response_length=4096 \\
    actor_rollout_ref.model.path=Qwen/Qwen3-30B-A3B \\
    actor_rollout_ref.hybrid_engine=False \\
    actor_rollout_ref.actor.ppo_mini_batch_size=32 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \\
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 \\
    actor_rollout_ref.actor.megatron.expert_model_parallel_size=8 \\
    actor_rollout_ref.rollout.name=sglang actor_rollout_ref.rollout.n=16 \\
    actor_rollout_ref.rollout.quantization=fp8 \\
    algorithm.adv_estimator=grpo algorithm.filter_groups.enable=True \\
    trainer.nnodes=4 trainer.n_gpus_per_node=8 rollout.nnodes=2 rollout.n_gpus_per_node=8 \\
    async_training.staleness_threshold=0.5 async_training.trigger_parameter_sync_step=8
"""
NEMO_BASE = """\
grpo:
  num_prompts_per_step: 64
  num_generations_per_prompt: 32
  max_num_steps: 1000
  async_grpo: {enabled: false, max_trajectory_age_steps: 1}
loss_fn: {reference_policy_kl_penalty: 0.01, ratio_clip_min: 0.2}
policy:
  model_name: meta-llama/Llama-3.1-8B-Instruct
  tokenizer: {name: "${policy.model_name}"}
  train_global_batch_size: 512
  train_micro_batch_size: 1
  max_total_sequence_length: 4096
  precision: bfloat16
  dtensor_cfg: {enabled: false}
  megatron_cfg:
    enabled: true
    activation_checkpointing: true
    pipeline_model_parallel_size: 2
    optimizer: {lr: 3.0e-7, use_distributed_optimizer: true}
  sequence_packing:
    enabled: true
    train_mb_tokens: ${mul:${policy.max_total_sequence_length}, ${policy.train_micro_batch_size}}
  generation:
    backend: vllm
    max_new_tokens: ${policy.max_total_sequence_length}
    colocated: {enabled: true}
    vllm_cfg: {precision: "${policy.precision}", tensor_parallel_size: 1, gpu_memory_utilization: 0.6}
cluster: {gpus_per_node: 8, num_nodes: 2}
"""
NEMO_AHEAD = """\
defaults: base.yaml
grpo:
  async_grpo: {enabled: true}
policy:
  generation:
    colocated: {enabled: false, resources: {num_nodes: 1, gpus_per_node: 8}}
    vllm_cfg: {async_engine: true, gpu_memory_utilization: 0.8}
"""
OPENRLHF = """\
ray job submit --address="http://127.0.0.1:8265" \\
   -- python3 -m openrlhf.cli.train_ppo_ray \\
   --ref.num_nodes 1 --ref.num_gpus_per_node 8 \\
   --actor.num_nodes 1 --actor.num_gpus_per_node 8 \\
   --vllm.num_engines 4 --vllm.tensor_parallel_size 2 \\
   --train.colocate_all --vllm.enable_sleep --ds.enable_sleep \\
   --vllm.gpu_memory_utilization 0.6 \\
   --algo.advantage.estimator group_norm --algo.kl.init_coef 1e-3 \\
   --actor.model_name_or_path Qwen/Qwen3-8B \\
   --reward.remote_url /work/reward.py \\
   --train.micro_batch_size 4 --train.batch_size 128 \\
   --rollout.batch_size 128 --rollout.n_samples_per_prompt 8 \\
   --data.max_len 4096 --rollout.max_new_tokens 3072 \\
   --ds.zero_stage 3 --ds.param_dtype bf16 --ds.packing_samples \\
   --actor.gradient_checkpointing_enable --actor.adam.lr 5e-7 \\
   --logger.wandb.project mine
"""
OPENRLHF_OLDER = """\
python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 6 --vllm_num_engines 2 \\
   --colocate_actor_ref --pretrain Qwen/Qwen3-8B --critic_pretrain Qwen/Qwen3-8B --remote_rm_url /work/reward.py \\
   --train_batch_size 96 --rollout_batch_size 96 --micro_train_batch_size 1 --packing_samples \\
   --prompt_max_len 1024 --generate_max_len 2048 --zero_stage 2 --bf16 --async_train --partial_rollout
"""
TRL = """\
model_name_or_path: Qwen/Qwen3-8B
dataset_name: mine
learning_rate: 1.0e-6
per_device_train_batch_size: 4
gradient_accumulation_steps: 8
steps_per_generation: 16
num_generations: 8
num_iterations: 2
max_completion_length: 4096
beta: 0.04
use_vllm: true
vllm_mode: colocate
vllm_tensor_parallel_size: 2
vllm_gpu_memory_utilization: 0.4
vllm_enable_sleep_mode: true
"""
ACCELERATE = """\
distributed_type: DEEPSPEED
deepspeed_config: {zero_stage: 3}
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""
SLIME = """\
set -ex
NUM_GPUS=${NUM_GPUS:-$(nvidia-smi -L | wc -l)}
source "models/qwen3-30B-A3B.sh"
CKPT_ARGS=(
   --hf-checkpoint /root/Qwen3-30B-A3B
   #--hf-checkpoint /root/Qwen3-30B-A3B-FP8
   --ref-load /root/Qwen3-30B-A3B_torch_dist
)
ROLLOUT_ARGS=(
   --prompt-data /root/data.jsonl --input-key prompt --rollout-shuffle
   --num-rollout 3000 --rollout-batch-size 32 --n-samples-per-prompt 8
   --rollout-max-response-len 8192 --global-batch-size 128 --balance-data
)
PERF_ARGS=(
   --tensor-model-parallel-size 4 --sequence-parallel --context-parallel-size 2
   --expert-model-parallel-size 8 --expert-tensor-parallel-size 1
   --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
   --use-dynamic-batch-size --max-tokens-per-gpu 10240
)
ray job submit --address="http://127.0.0.1:8265" -- python3 train.py \\
   --actor-num-nodes 2 --actor-num-gpus-per-node 8 --colocate \\
   ${MODEL_ARGS[@]} ${CKPT_ARGS[@]} ${ROLLOUT_ARGS[@]} ${PERF_ARGS[@]} \\
   --advantage-estimator grpo --use-kl-loss --kl-loss-coef 0.00 --optimizer adam --lr 1e-6 \\
   --accumulate-allreduce-grads-in-fp32 --attention-backend flash \\
   --rollout-num-gpus-per-engine 8 --sglang-mem-fraction-static 0.7 --sglang-ep-size 8
"""
AREAL = """\
experiment_name: mine
cluster: {n_nodes: 2, n_gpus_per_node: 8}
rollout:
  backend: "sglang:d4t1"
  max_head_offpolicyness: 2
gconfig: {n_samples: 8, max_new_tokens: 4096, temperature: 1.0}
actor:
  backend: "fsdp:d6t1c2"
  path: Qwen/Qwen3-8B
  gradient_checkpointing: true
  dtype: bfloat16
  mb_spec: {max_tokens_per_mb: 10240}
  optimizer: {type: adam, lr: 1.0e-6}
  kl_ctl: 0.0
  ppo_n_minibatches: 4
  use_decoupled_loss: true
  max_new_tokens: ${gconfig.max_new_tokens}
sglang: {model_path: "${actor.path}", mem_fraction_static: 0.8}
train_dataset: {batch_size: 128, path: mine, max_length: 1024}
total_train_steps: 100
"""
