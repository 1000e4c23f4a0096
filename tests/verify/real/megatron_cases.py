"""Options of Megatron-LM to try: each case a base, what is added to it, and the accelerators."""

from __future__ import annotations

DENSE = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 "
    "--micro-batch-size 1 --bf16 --vocab-size 32000 --mock-data --lr 1e-4 --min-lr 1e-5"
)
SPARSE = DENSE + (
    " --swiglu --ffn-hidden-size 14336 --num-experts 8 --position-embedding-type rope --disable-bias-linear"
)
LATENT = SPARSE + " --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-layernorm"
HYBRID = DENSE.replace("--num-layers 32 ", "") + " --disable-bias-linear --position-embedding-type none"

CASES: tuple[tuple[str, str, int], ...] = (
    (DENSE, "", 8),
    (DENSE, "--swiglu", 8),
    (DENSE, "--swiglu --hidden-size 2560 --num-attention-heads 20", 8),
    (DENSE, "--squared-relu --kv-channels 96", 8),
    (DENSE, "--quick-geglu --ffn-hidden-size 11008", 8),
    (DENSE, "--hidden-size 4095", 8),
    (DENSE, "--group-query-attention", 8),
    (DENSE, "--group-query-attention --num-query-groups 8", 8),
    (DENSE, "--num-query-groups 8", 8),
    (DENSE, "--use-rotary-position-embeddings --no-position-embedding", 8),
    (DENSE, "--no-position-embedding", 8),
    (DENSE, "--tensor-model-parallel-size 4 --sequence-parallel", 16),
    (DENSE, "--sequence-parallel", 8),
    (DENSE, "--tensor-model-parallel-size 3", 8),
    (DENSE, "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2", 8),
    (DENSE, "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3", 8),
    (DENSE, "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 8", 8),
    (DENSE, "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 4", 8),
    (DENSE, "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 1", 8),
    (DENSE, "--num-virtual-stages-per-pipeline-rank 4", 8),
    (DENSE, "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 "
            "--num-virtual-stages-per-pipeline-rank 4", 8),
    (DENSE, "--num-layers 30 --pipeline-model-parallel-size 4 --account-for-embedding-in-pipeline-split "
            "--account-for-loss-in-pipeline-split --num-layers-per-virtual-pipeline-stage 4", 8),
    (DENSE, "--num-layers 31 --pipeline-model-parallel-size 4 --account-for-loss-in-pipeline-split", 8),
    (DENSE, "--num-layers 30 --pipeline-model-parallel-size 4", 8),
    (DENSE, "--num-layers 30 --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 7 "
            "--decoder-last-pipeline-num-layers 7", 8),
    (DENSE, "--num-layers 30 --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout "
            "Ettttttt|tttttttt|tttttttt|tttttttL", 8),
    (DENSE, "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout Et*4|(tttt|)*6t*4,L", 8),
    (DENSE, "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout Et*16|t*16L", 8),
    (DENSE, "--context-parallel-size 2 --cp-comm-type a2a", 8),
    (DENSE, "--context-parallel-size 2 --seq-length 4094", 8),
    (DENSE, "--context-parallel-size 3 --seq-length 4094", 9),
    (DENSE, "--seq-length 8192", 8),
    (DENSE, "--global-batch-size 64 --micro-batch-size 2 --train-iters 100", 8),
    (DENSE, "--micro-batch-size 2", 8),
    (DENSE, "--train-samples 1000 --train-iters 100", 8),
    (DENSE, "--step-batch-size-schedule 0:16 --global-batch-size 64", 8),
    (DENSE, "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather", 8),
    (DENSE, "--use-distributed-optimizer --overlap-param-gather", 8),
    (DENSE, "--overlap-grad-reduce --overlap-param-gather", 8),
    (DENSE, "--grad-reduce-in-bf16", 8),
    (DENSE.replace("--bf16", "--fp16"), "", 8),
    (DENSE.replace("--bf16", "--fp16"), "--accumulate-allreduce-grads-in-fp32", 8),
    (DENSE, "--fp16", 8),
    (DENSE, "--fp8-format hybrid --fp8-recipe blockwise", 8),
    (DENSE, "--fp8-format hybrid --fp4-format e2m1", 8),
    (DENSE, "--use-megatron-fsdp --ckpt-format fsdp_dtensor", 8),
    (DENSE, "--use-megatron-fsdp --ckpt-format fsdp_dtensor --data-parallel-sharding-strategy optim_grads", 8),
    (DENSE, "--data-parallel-sharding-strategy optim_grads", 8),
    (DENSE, "--use-torch-fsdp2 --ckpt-format torch_dist --untie-embeddings-and-output-weights "
            "--no-gradient-accumulation-fusion", 8),
    (DENSE, "--use-torch-fsdp2 --ckpt-format torch_dist --no-gradient-accumulation-fusion", 8),
    (DENSE, "--recompute-activations", 8),
    (DENSE, "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", 8),
    (DENSE, "--recompute-granularity selective --recompute-method block", 8),
    (DENSE, "--checkpoint-activations", 8),
    (DENSE, "--optimizer muon --use-distributed-optimizer", 8),
    (DENSE, "--swiglu --squared-relu", 8),
    (SPARSE, "", 8),
    (SPARSE, "--moe-ffn-hidden-size 2048 --moe-router-topk 4", 8),
    (SPARSE, "--expert-model-parallel-size 8 --tensor-model-parallel-size 2", 16),
    (SPARSE, "--expert-model-parallel-size 3", 9),
    (SPARSE, "--expert-tensor-parallel-size 1 --tensor-model-parallel-size 2 --sequence-parallel", 16),
    (SPARSE, "--moe-layer-freq 2", 8),
    (SPARSE, "--moe-layer-freq ([0]*2+[1]*30)", 8),
    (SPARSE, "--moe-layer-freq [0,1]*16", 8),
    (DENSE, "--expert-model-parallel-size 8", 8),
    (LATENT, "", 8),
    (LATENT, "--group-query-attention --num-query-groups 8", 8),
    (LATENT, "--kv-channels 16 --moe-layer-freq [0]+[1]*31", 8),
    (HYBRID, "--hybrid-layer-pattern M-M-M*-M-M-M*-", 8),
    (HYBRID, "--hybrid-override-pattern MMM*MEME --num-experts 4", 8),
    (HYBRID, "--hybrid-layer-pattern M-M-|M*-M|-M-M|*-M- --pipeline-model-parallel-size 2", 8),
)  # fmt: skip


def options(case: tuple[str, str, int]) -> list[str]:
    """The words of a case."""
    base, more, _ = case
    return [*base.split(), *more.split()]
