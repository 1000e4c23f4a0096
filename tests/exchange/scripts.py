"""Training scripts as people write them, and reading them as the tests do."""

from __future__ import annotations

from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.model import Model
from costmodel.estimate.model.shards import model_parameters
from costmodel.exchange.import_result import GivenSize, Imported
from costmodel.exchange.megatron.scenario import read_options
from costmodel.ground.errors import CostModelError, Fault

FILE = "train.sh"

# The shapes are of published configurations; the options are those that NVIDIA's examples give for them.
LLAMA_8B = """#!/bin/bash
GPUS_PER_NODE=8
NODES=1
SEQ=8192
DTYPE="fp8"
MODEL=(
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --group-query-attention --num-query-groups 8 --kv-channels 128
    --seq-length $SEQ --max-position-embeddings $SEQ --position-embedding-type rope
    --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear
    --attention-dropout 0.0 --hidden-dropout 0.0
)
TRAIN=(--micro-batch-size 1 --global-batch-size 128 --train-samples 1953125000 --bf16 --grad-reduce-in-bf16)
FP8=()
if [[ "$DTYPE" == "fp8" ]]; then
    FP8+=("--fp8-format hybrid" "--fp8-param-gather")
fi
TRAIN+=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --sequence-parallel)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NODES pretrain_gpt.py \\
    ${MODEL[@]} ${TRAIN[@]} ${FP8[@]} --mock-data --vocab-size 128256
"""

MIXTRAL = """NODES=${SLURM_NNODES:-"1"}
MODEL_ARGS=(
    --disable-bias-linear --seq-length 4096 --max-position-embeddings 32768 --num-layers 32 --hidden-size 4096
    --ffn-hidden-size 14336 --num-attention-heads 32 --normalization RMSNorm --position-embedding-type rope --swiglu
    --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 8 --no-position-embedding
    --num-experts 8 --moe-router-topk 2 --moe-token-dispatcher-type alltoall
    --attention-dropout 0.0 --hidden-dropout 0.0
)
LAYOUT=(--tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8
        --use-distributed-optimizer --sequence-parallel --overlap-param-gather --overlap-grad-reduce)
if [ -n "${WANDB_API_KEY}" ]; then
    LAYOUT+=(--wandb-project ${WANDB_PROJECT:-"none"})
fi
torchrun --nproc_per_node 8 --nnodes $NODES pretrain_gpt.py ${MODEL_ARGS[@]} ${LAYOUT[@]} \\
    --micro-batch-size 1 --global-batch-size 256 --bf16 --tokenizer-type Llama2Tokenizer --tokenizer-model $2
"""

DEEPSEEK = """EP=${EP:-8}
ARGS=(
 --expert-model-parallel-size ${EP} --expert-tensor-parallel-size 1 --use-distributed-optimizer --overlap-grad-reduce
 --overlap-param-gather --disable-bias-linear --micro-batch-size 4 --global-batch-size 2048 --train-samples 585937500
 --recompute-granularity selective --recompute-modules mlp moe mla_up_proj layernorm --seq-length 4096 --num-layers 61
 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 --max-position-embeddings 4096
 --position-embedding-type rope --make-vocab-size-divisible-by 3232 --normalization RMSNorm --swiglu
 --untie-embeddings-and-output-weights --multi-latent-attention --attention-dropout 0.0 --hidden-dropout 0.0
 --qk-layernorm --num-experts 256 --moe-layer-freq [0]*3+[1]*58 --moe-ffn-hidden-size 2048
 --moe-shared-expert-intermediate-size 2048 --moe-router-topk 8 --moe-token-dispatcher-type flex
 --moe-router-group-topk 4 --moe-router-num-groups 8 --moe-router-enable-expert-bias --q-lora-rank 1536
 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 --mtp-num-layers 1 --bf16
 --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params
)
srun python pretrain_gpt.py ${ARGS[@]}
"""

LINE_70B = (
    "torchrun --nproc-per-node=8 --nnodes=2 pretrain_gpt.py --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 "
    "--num-attention-heads 64 --group-query-attention --num-query-groups 8 --seq-length 4096 "
    "--max-position-embeddings 4096 --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights "
    "--disable-bias-linear --position-embedding-type rope --tensor-model-parallel-size=4 "
    "--pipeline-model-parallel-size=4 --num-virtual-stages-per-pipeline-rank 5 --sequence-parallel "
    "--recompute-activations --micro-batch-size=1 --global-batch-size=64 --bf16 --use-distributed-optimizer "
    "--vocab-size 32000 --tokenizer-type NullTokenizer --my-own-flag 3"
)
PLAIN = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 "
    "--micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 32000 --attention-dropout 0 --hidden-dropout 0"
)


def read(text: str, world: int | None = None, vocab: int | None = None) -> Imported:
    """What the reader makes of a text."""
    return read_options(text, FILE, size=GivenSize(world), vocab=vocab)


def model(found: Imported) -> Model:
    """The model document as the scenario reader would have it."""
    return validate(Model, found.document["model"], FILE)


def parameters(found: Imported) -> float:
    """What the model document counts."""
    return float(model_parameters(model(found)))


def faults(text: str, world: int | None = 8) -> tuple[Fault, ...]:
    """Why a text is refused."""
    try:
        read(text, world)
    except CostModelError as error:
        return error.faults
    raise AssertionError("it was read")
