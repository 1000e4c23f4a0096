"""Reads and writes scripts of slime: its own options, those of SGLang with a prefix, and those of Megatron-LM."""

from __future__ import annotations

import re
from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.import_result import LossKind
from costmodel.exchange.megatron.options import OPTIMIZERS
from costmodel.exchange.megatron.options import TABLE as MEGATRON
from costmodel.exchange.option_rows import NOTHING, Row, choice, lost, one_of, option, option_table, part, quiet, switch
from costmodel.exchange.rl.rl_format import (
    GRANULARITY,
    UNEXPRESSED,
    Follows,
    RlFormat,
    RlJob,
    fill_algorithm,
    not_stated,
    tokens_of_micro_batch,
    tool_options,
)
from costmodel.exchange.serving.command_options import Spelling
from costmodel.exchange.training.file_facts import Layer

_ALGORITHMS = {"grpo": "grpo", "ppo": "ppo", "gspo": "grpo", "cispo": "grpo", "reinforce_plus_plus": "grpo",
               "reinforce_plus_plus_baseline": "grpo", "on_policy_distillation": "grpo"}  # fmt: skip
_EXACT = ("grpo", "ppo")
_ASYNC = "train_async.py"
_LAYOUT = {
    "tensor-model-parallel-size": "plan.tp",
    "pipeline-model-parallel-size": "plan.pp",
    "context-parallel-size": "plan.cp",
    "expert-model-parallel-size": "plan.ep",
    "expert-tensor-parallel-size": "plan.etp",
    "decoder-first-pipeline-num-layers": "plan.first_stage_layers",
    "decoder-last-pipeline-num-layers": "plan.last_stage_layers",
}
_OTHER_PASSES = "another pass over a copy of the weights"

_OWN = option_table(
    part("program", "workload.staleness", "word", "train.py"),
    option("hf-checkpoint", "model", "word"),
    option("rollout-batch-size", "workload.prompts", "count"),
    option("n-samples-per-prompt", "workload.samples", "count", 1),
    option("rollout-max-response-len", "workload.response.limit", "count"),
    option("rollout-max-prompt-len", "longest_prompt", "count"),
    option("rollout-max-context-len", "longest", "count"),
    option("num-rollout", "workload.iterations", "count"),
    option("global-batch-size", "workload.mini_batch", "count",
           beside=("num-steps-per-rollout", lambda steps: not steps)),
    option("num-steps-per-rollout", "mini_batches", "count"),
    part("advantage-estimator", "workload.algorithm", choice(_ALGORITHMS, UNEXPRESSED), "grpo"),
    part("dynamic-sampling-filter-path", "workload.algorithm", "word"),
    part("over-sampling-batch-size", "workload.wave workload.staleness", "count"),
    part("partial-rollout", "workload.rollouts", "flag", False),
    part("use-kl-loss", "workload.reference", "flag", False),
    part("kl-coef", "workload.reference", "figure", 0.0),
    option("use-rollout-logprobs", "workload.old_log_probabilities", switch("engine", NOTHING), False),
    part("actor-num-nodes", "nodes", "count", 1),
    part("actor-num-gpus-per-node", "accelerators", "count", 8),
    part("rollout-num-gpus", "rollout_ranks", "count"),
    option("rollout-num-gpus-per-engine", "plan.rollout.tp", "count", 1),
    part("colocate", "plan.rollout.colocated", "flag", False),
    part("offload", "plan.rollout.offload", "flag", False),
    part("offload-train", "plan.rollout.offload", "flag"),
    part("offload-rollout", "stack.sharing.sleeps", "flag"),
    part("use-dynamic-batch-size", "plan.micro_batch", "flag", False),
    part("max-tokens-per-gpu", "plan.micro_batch", "count"),
    part("micro-batch-size", "plan.micro_batch", "count", 1),
    [option(name, key, "count") for name, key in _LAYOUT.items()],
    option("sequence-parallel", "plan.sequence_parallel", "flag", False,
           beside=("tensor-model-parallel-size", lambda tp: (tp or 1) > 1)),
    option("recompute-granularity", "plan.recompute", GRANULARITY, "null"),
    option("recompute-method", "plan.recompute_method", one_of("uniform", "block")),
    option("recompute-num-layers", "plan.recompute_layers", "count"),
    option("optimizer-cpu-offload", "plan.offload", switch(["optimizer"], NOTHING), False),
    option("optimizer", "workload.optimizer", choice(OPTIMIZERS), "adam"),
    option("fp16", "workload.precision", switch("fp16", "bf16"), False),
    option("sglang-mem-fraction-static", "plan.rollout.memory", "share"),
    option("sglang-ep-size", "plan.rollout.ep", "count", 1),
    option("sglang-dp-size", "plan.rollout.dp_attention", "count", 1),
    option("sglang-max-running-requests", "stack.rollout.sequences", "count"),
    option("sglang-expert-parallel-size", kind="count", old="sglang-ep-size"),
    option("sglang-data-parallel-size", kind="count", old="sglang-dp-size"),
    lost("approximated", "engines without graphs: here with them", "sglang-disable-cuda-graph"),
    lost("approximated", _OTHER_PASSES, "keep-old-actor opd-teacher-load"),
    lost("not expressible", "weights of another type in engines",
         "sglang-quantization sglang-kv-cache-dtype sglang-torchao-config"),
    lost("not expressible", "drafts in engines", "sglang-speculative-algorithm sglang-speculative-num-steps "
         "sglang-speculative-eagle-topk sglang-speculative-num-draft-tokens"),
    lost("not expressible", "layers that predict further tokens are trained", "enable-mtp-training"),
    lost("approximated", "weights reach engines after several iterations", "update-weights-interval", 1, "1"),
    lost("approximated", "changes of weights alone are sent, or over a disk",
         "update-weight-mode update-weight-transport", "full", "nccl"),
    lost("not expressible", "engines of another job", "rollout-external-engine-addrs"),
    tool_options("custom-generate-function-path"),
    quiet("sglang-router-ip sglang-router-port sglang-router-request-timeout-secs sglang-server-concurrency "
          "sglang-attention-backend sglang-cuda-graph-bs sglang-cuda-graph-max-bs sglang-enable-metrics "
          "sglang-log-level sglang-context-length sglang-chunked-prefill-size sglang-enable-dp-attention "
          "sglang-enable-dp-lm-head sglang-moe-dense-tp-size sglang-disable-radix-cache sglang-decode-log-interval "
          "sglang-enable-ep-moe sglang-moe-a2a-backend sglang-deepep-mode sglang-watchdog-timeout "
          "sglang-reasoning-parser sglang-tool-call-parser sglang-enable-deterministic-inference"),
    quiet("allgather-cp balance-by-flops balance-data buffer-filter-path custom-config-path custom-rm-path "
          "custom-advantage-function-path custom-convert-samples-to-train-data-path custom-loss-function-path "
          "custom-eval-rollout-log-function-path custom-rollout-log-function-path custom-model-provider-path "
          "custom-megatron-before-log-prob-hook-path custom-megatron-before-train-step-hook-path "
          "custom-megatron-init-path custom-pg-loss-reducer-function-path custom-reward-post-process-path "
          "custom-tis-function-path custom-update-weight-post-write-path data-pad-size-multiplier data-source-path "
          "disable-compute-advantages-and-returns disable-grpo-std-normalization disable-rewards-normalization "
          "disable-rollout-global-dataset disable-wandb-random-suffix dump-details eps-clip eps-clip-high eps-clip-c "
          "entropy-coef eval-config eval-function-path eval-prompt-data eval-reward-key eval-interval eval-top-p "
          "eval-top-k eval-temperature eval-max-response-len eval-input-key eval-label-key "
          "fetch-trajectory-retry-times get-mismatch-metrics group-rm input-key label-key apply-chat-template "
          "kl-loss-coef kl-loss-type log-multi-turn log-passrate log-probs-chunk-size log-probs-max-tokens-per-gpu "
          "log-correct-samples log-reward-category loss-mask-type loss-type mask-offpolicy-in-partial-rollout "
          "megatron-config-path megatron-to-hf-mode memory-recorder memory-snapshot-dir memory-snapshot-num-steps "
          "metadata-key min-batch-collection-ratio model-name multimodal-keys n-samples-per-eval-prompt "
          "num-critic-only-steps num-epoch num-gpus-per-node opd-kl-coef opd-type opsm-delta profile-target "
          "prompt-data qwen-gdn-backend recompute-loss-function ref-ckpt-step ref-load ref-update-interval "
          "reset-optimizer-states reward-key rm-type rm-url rollout-all-samples-process-path rollout-buffer-url "
          "rollout-data-postprocess-path rollout-data-transport rollout-function-path rollout-seed rollout-shuffle "
          "rollout-health-check-first-wait rollout-health-check-interval rollout-health-check-timeout "
          "rollout-sample-filter-path rollout-sample-hook-path rollout-skip-special-tokens rollout-stop "
          "rollout-stop-token-ids rollout-task-type rollout-temperature rollout-top-k rollout-top-p save-hf "
          "save-debug-rollout-data save-debug-train-data skip-eval-before-train start-rollout-id tb-project-name "
          "tis-clip tis-clip-low tool-key train-env-vars update-weight-buffer-size update-weight-disk-dir "
          "use-fault-tolerance use-opd use-opsm use-rollout-entropy use-rollout-routing-replay use-routing-replay "
          "use-tis use-unbiased-kl use-wandb wandb-always-use-train-step wandb-dir wandb-mode wandb-project "
          "wandb-group wandb-key wandb-host wandb-team lr weight-decay adam-beta1 adam-beta2 attention-backend "
          "use-distributed-optimizer bf16"),
)  # fmt: skip


def _trainer_row(row: Row) -> Row:
    """A row for a Megatron-LM option that is not read; model-shape options cost nothing."""
    parts = {path.partition(".")[0] for path in row.fills.split()}
    kind: LossKind = "not expressible" if parts & {"plan", "stack"} else "approximated"
    loss = (kind, "as the trainer does it by default") if parts & {"plan", "stack", "assume"} else row.loss
    return Row(row.option, loss=loss, harmless=row.harmless)


_TABLE = {**{name: _trainer_row(row) for name, row in MEGATRON.items() if not row.gone}, **_OWN}


def _read_dependent_options(keys: ForeignKeys, layer: Layer) -> None:
    """Adds to `layer`, the facts of the file, what the table of options does not express: algorithm, batches, GPUs."""
    fill_algorithm(keys, layer, "advantage-estimator", _EXACT, "dynamic-sampling-filter-path")
    _lose_further_prompts(keys, layer)
    if keys["program"].value == _ASYNC:
        layer.facts["workload.staleness"] = keys.derived(1, f"{_ASYNC}: one iteration ahead", "program")
    tokens, cp = "max-tokens-per-gpu", keys["context-parallel-size"].value or 1
    dynamic = keys["use-dynamic-batch-size"].value and keys[tokens].value
    layer.fill("plan.micro_batch", tokens_of_micro_batch(keys[tokens], cp) if dynamic else keys["micro-batch-size"])
    layer.weak["plan.zero"] = keys.assumed(1, "slime shards optimizer states")
    _read_accelerators(keys, layer)


def _lose_further_prompts(keys: ForeignKeys, layer: Layer) -> None:
    """Prompts beyond one iteration: for a later iteration, to replace dropped ones, or to skip slow ones."""
    dropped, drawn = keys["dynamic-sampling-filter-path"], keys["over-sampling-batch-size"]
    prompts, cut = keys["rollout-batch-size"].value or 0, keys["partial-rollout"]
    if not (drawn.value or 0) > prompts > 0:
        return
    if cut.value:
        text = "prompts beyond those of an iteration"
        more = keys.derived(drawn.value / prompts - 1, text, "over-sampling-batch-size")
        layer.facts["workload.staleness"] = more
        layer.fill("workload.rollouts", cut._replace(value="partial"))
    elif dropped.value:
        layer.fill("workload.wave", drawn)
    else:
        sentence = "generation ends when enough answers are complete: here it waits for all"
        keys.lose("approximated", sentence, "over-sampling-batch-size")


def _read_accelerators(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the numbers of GPUs for training and generation to `layer`, the facts of the file."""
    names = ("actor-num-gpus-per-node", "actor-num-nodes")
    each, nodes = (keys[name] for name in names)
    trainer = keys.derived(each.value * nodes.value, "nodes × GPUs of the actor", names[0])
    own = keys["rollout-num-gpus"]
    if not keys["colocate"].value:
        layer.fill("trainer_ranks", trainer)
        if own.value:
            layer.fill("rollout_ranks", own)
        else:
            keys.refuse("X002", "rollout-num-gpus is not stated, and colocate neither", names[0], "add one of the two")
        return
    keys.without_effect("rollout-num-gpus", "colocate: engines have all GPUs of the actor")
    layer.fill("accelerators", trainer)
    layer.fill("nodes", nodes)
    moved = [keys[name].value for name in ("offload", "offload-train", "offload-rollout")]
    if moved[1] is False and not moved[0]:
        layer.facts["plan.rollout.offload"] = keys.derived(False, "states stay", "offload-train")
    if moved[2] is False and not moved[0]:
        layer.facts["stack.sharing.sleeps"] = keys.derived(False, "engines stay", "offload-rollout")


def _combined_options(job: RlJob) -> dict[str, Any]:
    """Options that each combine several keys."""
    workload, (nodes, each), shared = job.workload, job.nodes_of(job.ranks[0]), not job.ranks[1]
    ahead = round(workload.prompts * (1 + workload.staleness)) if workload.rollouts == "partial" else None
    away = bool(job.rollout.offload)
    return {
        "advantage-estimator": "ppo" if workload.algorithm == "ppo" else "grpo",
        "dynamic-sampling-filter-path": "filter.py" if workload.algorithm == "dapo" else None,
        "over-sampling-batch-size": ahead or round(workload.wave or 0) or None,
        "partial-rollout": True if ahead else None,
        "use-kl-loss": True if workload.refers else None,
        "num-steps-per-rollout": None,
        "rollout-max-context-len": None,
        "actor-num-nodes": nodes,
        "actor-num-gpus-per-node": each,
        "rollout-num-gpus": job.ranks[1] or None,
        "colocate": True if shared else None,
        "offload-train": (True if away else "false") if shared else None,
        "offload-rollout": (True if job.stack.sharing.sleeps else "false") if shared else None,
        "use-dynamic-batch-size": True if job.tokens else None,
        "max-tokens-per-gpu": job.tokens or None,
        "micro-batch-size": None if job.tokens else job.count("plan.micro_batch"),
    }


def _program_line(job: RlJob) -> str:
    """The start of the command that trains a job, for asynchronous training another program."""
    ahead = job.workload.staleness and job.workload.rollouts == "batch"
    return f"python3 {_ASYNC if ahead else 'train.py'}"


FORMAT = RlFormat(
    name="slime",
    title="script of slime",
    version="slime 0.2",
    table=_TABLE,
    mark="--",
    marks=re.compile(r"--rollout-batch-size\b|--actor-num-gpus-per-node\b|--rollout-num-gpus-per-engine\b"),
    program=re.compile(r"\btrain(?:_async)?\.py$"),
    configured=(),
    spelling=Spelling(between="-", negated=True),
    follows=(
        Follows("workload.reference", "use-kl-loss kl-coef", lambda *where: any(where)),
    ),
    beyond=_read_dependent_options,
    kind="Command",
    program_of=_program_line,
    several=_combined_options,
    fixed={"plan.zero": "optimizer states are sharded"},
    cannot=not_stated(_TABLE, {
        **because("the first and the last stage alone may differ", "split"),
        **because("as the trainer does it by default", "schedule vpp recompute_modules dp_replicate"),
        "stack.rollout": "SGLang generates",
    }),
)  # fmt: skip
