"""Options of Megatron-LM to a part of a scenario: what whole scripts say, and rule by rule."""

from __future__ import annotations

import json
from typing import Any

import pytest

from costmodel.exchange.import_result import Imported
from costmodel.ground.errors import Fault
from exchange.scripts import DEEPSEEK, LINE_70B, LLAMA_8B, MIXTRAL, PLAIN, faults, model, parameters, read


def plain(more: str = "", world: int | None = 8) -> Imported:
    """A dense model with further options."""
    return read(f"{PLAIN} {more}", world)


def plan(found: Imported) -> dict[str, Any]:
    return dict(found.document["plan"])


def workload(found: Imported) -> dict[str, Any]:
    return dict(found.document["workload"])


def layer(found: Imported, index: int = 0) -> dict[str, Any]:
    return json.loads(json.dumps(found.document["model"]["layers"][index]))


def losses(found: Imported, kind: str) -> list[str]:
    return [loss.sentence for loss in found.losses if loss.kind == kind]


def only(found: tuple[Fault, ...]) -> Fault:
    assert len(found) == 1, found
    return found[0]


# --- whole scripts


def test_a_dense_model_in_fp8() -> None:
    found = read(LLAMA_8B)
    assert found.format == "options in a shell script of Megatron-LM"
    assert {key: value.value for key, value in found.facts.items()} == {"accelerators": 8, "nodes": 1, "per_node": 8}
    expected = {"dp": 8, "tp": 1, "pp": 1, "cp": 1, "ep": 1, "micro_batch": 1, "zero": 1, "recompute": "none"}
    assert plan(found) == expected | {"sequence_parallel": False, "order": "tp-cp-dp-pp"}
    assert workload(found) == {
        "kind": "training", "sequence": 8192, "global_batch": 128, "tokens": 16 * 10**12, "precision": "fp8",
        "gradients": "bf16", "optimizer": "adamw",
    }  # fmt: skip
    assert found.document["stack"] == "megatron-core"
    assert parameters(found) == 8_030_261_248  # as Llama 3.1 8B is published
    assert not found.missing
    assert not found.warnings
    assert losses(found, "not expressible") == [
        "--fp8-param-gather: weights are kept and gathered in the narrow type: low_precision.primary of a stack"
    ]
    assert "--sequence-parallel is switched off at tp 1" in losses(found, "ignored")


def test_a_mixture_on_as_many_accelerators_as_it_needs() -> None:
    found = read(MIXTRAL, world=32)
    assert {key: plan(found)[key] for key in ("dp", "pp", "ep", "etp")} == {"dp": 8, "pp": 4, "ep": 8, "etp": 1}
    assert layer(found)["experts"] == {"count": 8, "top_k": 2, "ffn_hidden": 14336, "gated": True}
    assert [fault.sentence for fault in found.missing] == [
        "the vocabulary is not known: Llama2Tokenizer, whose file is not here, states it"
    ]
    assert "vocab" not in found.document["model"]
    assert [fault.code for fault in found.warnings] == ["X006"]  # --no-position-embedding
    assert parameters(read(MIXTRAL, world=32, vocab=32000)) == 46_702_792_704  # as Mixtral 8x7B is published


def test_a_mixture_on_too_few_accelerators() -> None:
    found = faults(MIXTRAL, world=None)
    assert [fault.code for fault in found] == ["X005", "X002"]
    assert found[0].sentence == "etp 1 × ep 8 × pp 4 do not divide 8 accelerators"
    assert found[0].hint == "dp 2 cannot hold ep; at least 32 accelerators"


def test_latent_attention_under_fsdp() -> None:
    found = read(DEEPSEEK)
    assert (plan(found)["zero"], plan(found)["ep"]) == (3, 8)
    assert plan(found)["recompute_modules"] == ["mlp", "moe", "mla-up-projection", "norms"]
    assert [(kind["count"], kind.get("leading", False)) for kind in found.document["model"]["layers"]] == [
        (3, True),
        (58, False),
    ]
    assert found.document["model"]["prediction"]["depth"] == 1
    assert [fault.code for fault in found.missing] == ["X002", "X002"]  # accelerators and vocabulary
    assert workload(found)["tokens"] == 585_937_500 * 4096
    assert parameters(read(DEEPSEEK, world=8, vocab=129_280)) == 671_026_419_200  # DeepSeek-V3 and its router biases


def test_one_line_with_an_unknown_option() -> None:
    found = read(LINE_70B)
    assert {key: plan(found)[key] for key in ("dp", "tp", "pp", "vpp")} == {"dp": 1, "tp": 4, "pp": 4, "vpp": 5}
    assert plan(found)["schedule"] == "interleaved"
    assert plan(found)["recompute"] == "selective"
    (warning,) = found.warnings
    assert (warning.code, warning.sentence) == ("X007", "options that Megatron-LM does not have: --my-own-flag")


def test_every_value_has_its_origin() -> None:
    found = read(LLAMA_8B)
    origins = found.origins
    assert str(origins["workload.sequence"]) == "train.sh:9  --seq-length"
    assert origins["plan.zero"].kind == "file"
    assert origins["plan.order"].kind == "default"
    assert "d98e8a64dd" in origins["plan.order"].text
    assert origins["plan.dp"].kind == "derived"
    assert origins["model.layers.0.mlp.ffn_hidden"].place is not None
    assert [key.place.line for key in found.document["plan"] if key == "zero"] == [18]


# --- the same in other forms


def test_yaml_of_options_says_the_same_as_a_script() -> None:
    lines = []
    words = iter([*PLAIN.split(), None])
    word = next(words)
    while word is not None:
        value = next(words)
        bare = value is None or value.startswith("--")
        lines.append(f"  {word}: {'true' if bare else value}")
        word = value if bare else next(words)
    text = (
        "ENV_VARS:\n  NCCL_ALGO: Ring\nMODEL_ARGS:\n" + "\n".join(lines) + "\n  --swiglu: false\nTEST_TYPE: regular\n"
    )
    found = read(text, 8)
    assert found.format == "options in YAML of Megatron-LM"
    assert found.document["plan"] == plain().document["plan"]
    assert found.document["workload"] == plain().document["workload"]


def test_flat_yaml_with_underscores_says_the_same() -> None:
    text = "\n".join(f"{name.strip().replace('-', '_')}: {value}" for name, value in _pairs(PLAIN))
    assert read(text, 8).document["plan"] == plain().document["plan"]
    nested = "language_model:\n" + "\n".join(f"  {line}" for line in text.splitlines())
    assert read(nested, 8).document["workload"] == plain().document["workload"]


def _pairs(line: str) -> list[tuple[str, str]]:
    found = [part.split(maxsplit=1) for part in line.split("--") if part.strip()]
    return [(part[0], part[1].strip() if len(part) > 1 else "true") for part in found]


def test_a_part_of_a_script_is_read_from_its_variables() -> None:
    found = read(f'MODEL_ARGS=" \\\n {PLAIN} \\\n"\nOTHER=(--swiglu --lr 1e-4 --min-lr 1e-5)\nNAME=x', 8)
    assert layer(found)["mlp"]["gated"] is True
    assert any(sentence.startswith("the text starts no training") for sentence in losses(found, "ignored"))


@pytest.mark.parametrize(
    "launcher",
    [
        "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py {}",
        "python -m torch.distributed.run --nproc-per-node=8 --nnodes=2 pretrain_gpt.py {}",
        "#SBATCH --nodes=2\n#SBATCH --gres=gpu:h100:8\nsrun python pretrain_gpt.py {}",
        "#SBATCH -N 2\n#SBATCH --ntasks-per-node 8\nsrun python pretrain_gpt.py {}",
        "mpirun -np 16 python pretrain_gpt.py {}",
        "srun -n 16 bash -c 'cd /x; python -u pretrain_gpt.py {}'",
        "CMD='pretrain_gpt.py {}'\nexport X=1\ntorchrun --nproc_per_node=8 --nnodes=2 $CMD",
        "if [ -f x ]; then torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py {}; fi",
    ],
)
def test_accelerators_are_those_of_the_launcher(launcher: str) -> None:
    found = read(launcher.replace("{}", PLAIN))
    assert found.facts["accelerators"].value == 16
    assert plan(found)["dp"] == 16


@pytest.mark.parametrize(
    "launcher",
    ["torchrun --nproc_per_node 8 --nnodes $N a.py", "torchrun --nproc_per_node auto a.py", "srun python a.py", ""],
)
def test_accelerators_that_stand_nowhere_are_missing(launcher: str) -> None:
    found = read(f"{launcher} {PLAIN}")
    assert not found.facts
    assert [fault.code for fault in found.missing] == ["X002"]
    assert "dp" not in plan(found)


# --- what hangs on running


def test_a_value_of_code_is_refused_with_what_would_do_instead() -> None:
    fault = only(faults(f"torchrun a.py {PLAIN} --tensor-model-parallel-size $(nproc)"))
    assert fault.code == "X008"
    assert fault.sentence == "--tensor-model-parallel-size hangs on what $(…) prints: nothing is run here"
    assert fault.hint.endswith("the arguments that the program prints at the head of its log")


@pytest.mark.parametrize(
    ("value", "sentence"), [("$TP", "$TP, which the text does not set"), ("$3", "$3, an argument of the script")]
)
def test_a_value_that_the_text_does_not_set_is_asked_for(value: str, sentence: str) -> None:
    fault = only(faults(f"torchrun a.py {PLAIN} --tensor-model-parallel-size {value}"))
    assert (fault.code, fault.sentence) == ("X002", f"--tensor-model-parallel-size is {sentence}")


def test_code_in_options_that_cost_nothing_is_no_matter() -> None:
    found = read(f"torchrun a.py {PLAIN} --save $(date) --data-path $1 --load $LOAD $EXTRA", 8)
    assert not found.warnings
    assert "$EXTRA, which the text does not set: read as nothing" in losses(found, "ignored")


def test_code_where_options_stand_is_refused() -> None:
    text = f"A=({PLAIN})\nif [ -f x ]; then A+=(--tensor-model-parallel-size 2); fi\ntorchrun a.py ${{A[@]}}"
    assert only(faults(text)).code == "X008"
    for options in ("$(cat options)", "`cat options`"):
        assert {fault.code for fault in faults(f"torchrun a.py {options} {PLAIN} --swiglu {options}")} == {"X008"}


def test_two_trainings_in_one_script_are_a_conflict_and_the_same_one_twice_is_not() -> None:
    fault = only(faults(f"torchrun a.py {PLAIN}\ntorchrun a.py {PLAIN} --swiglu"))
    assert fault.code == "X004"
    assert fault.place is not None
    assert fault.place.line == 2
    assert read(f"if [ -f x ]; then srun a.py {PLAIN}; else torchrun b.py {PLAIN}; fi", 8)


def test_of_an_option_that_stands_twice_the_last_counts_and_the_other_is_named() -> None:
    found = plain("--num-layers 16")
    assert layer(found)["count"] == 16
    assert "--num-layers of line 1: that of line 1 counts" in losses(found, "ignored")


# --- losses


@pytest.mark.parametrize(
    ("more", "kind", "sentence"),
    [
        ("--lr 1e-4", "ignored", "--lr"),
        ("--num-query-groups 8", "ignored", "--num-query-groups means nothing without --group-query-attention"),
        ("--data-parallel-sharding-strategy optim", "ignored", "--data-parallel-sharding-strategy means nothing"),
        ("--cuda-graph-impl local", "approximated", "--cuda-graph-impl: CUDA graphs spare the host's time"),
        ("--hidden-dropout 0.1", "approximated", "--hidden-dropout 0.1: masks are stored"),
        ("--rampup-batch-size 16 16 1000", "approximated", "the batch grows to its size"),
        ("--distribute-saved-activations", "not expressible", "--distribute-saved-activations: saved activations"),
        (
            "--optimizer-cpu-offload --optimizer-offload-fraction 0.5",
            "not expressible",
            "--optimizer-offload-fraction: a",
        ),
        ("--use-precision-aware-optimizer --exp-avg-dtype fp8", "not expressible", "moments in fp32 and fp8"),
        ("--context-parallel-size 2 --cp-comm-type a2a+p2p", "not expressible", "--cp-comm-type a2a+p2p"),
        ("--num-experts 8", "not expressible", "tokens are gathered on all ranks of ep (allgather)"),
        ("--recompute-granularity selective --recompute-modules mhc", "not expressible", "--recompute-modules mhc"),
    ],
)
def test_what_a_scenario_does_not_say_is_a_loss(more: str, kind: str, sentence: str) -> None:
    before = losses(plain(), kind)
    fresh = [loss for loss in losses(plain(more), kind) if loss not in before]
    assert any(loss.startswith(sentence) for loss in fresh), fresh


@pytest.mark.parametrize(
    "harmless",
    [
        "--cuda-graph-impl none",
        "--attention-backend fused",
        "--optimizer-offload-fraction 1.0",
        "--transformer-impl transformer_engine",
    ],
)
def test_options_at_their_default_lose_nothing(harmless: str) -> None:
    assert not losses(plain(harmless), "approximated")
    assert not losses(plain(harmless), "not expressible")


def test_rows_that_are_padded_otherwise_are_counted() -> None:
    found = plain("--make-vocab-size-divisible-by 3232")
    (loss,) = (loss for loss in found.losses if "padded" in loss.sentence)
    assert loss.parameters == (32_320 - 32_000) * 4096  # tied: one table
    assert found.document["model"]["vocab"] == 32_000


# --- refusals


@pytest.mark.parametrize(
    ("more", "code", "sentence"),
    [
        ("--fp16", "X005", "give one of two types to train in"),
        ("--optimizer soap", "X003", "--optimizer soap: its memory per parameter is not known here"),
        ("--fp8-format hybrid --fp8-recipe custom", "X003", "--fp8-recipe custom: a recipe in code"),
        ("--moe-latent-size 512", "X003", "--moe-latent-size: experts of a narrower stream"),
        ("--position-embedding-type relative", "X003", "--position-embedding-type relative: a table of distances"),
        ("--position-embedding-type round", "X005", "--position-embedding-type 'round' is none of"),
        ("--num-layers many", "X005", "--num-layers is 'many', not a whole number"),
        ("--num-layers 1e400", "X005", "--num-layers is '1e400', not a whole number"),
        ("--num-layers 99999999999999999999", "X005", "--num-layers is '99999999999999999999', not a whole number"),
        ("--num-layers 2 4", "X005", "--num-layers takes one value, not 2"),
        ("--num-layers 0", "X002", "--num-layers is 0"),
        ("--num-layers", "X005", "no value follows --num-layers"),
        ("--swiglu true", "X005", "--swiglu takes no value, and 'true' follows it"),
        ("--tensor-model-parallel-size 3", "X005", "tp 3 × pp 1 × cp 1 do not divide 8 accelerators"),
        ("--global-batch-size 12", "X005", "--global-batch-size 12 is no multiple of micro-batch 1 × dp 8"),
        ("--num-experts 8 --moe-layer-freq __import__('os')", "X005", "--moe-layer-freq is"),
        ("--num-experts 8 --moe-layer-freq [0]*3", "X005", "--moe-layer-freq has 3 entries for 32 layers"),
        ("--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout '(t*9999)*9999'", "X005", "--pipeline"),
        ("--hybrid-layer-pattern MMG", "X003", "--hybrid-layer-pattern MMG has layers other than"),
        ("--window-size 128", "X005", "--window-size takes 2 whole numbers"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_or_makes_no_sense_is_refused(more: str, code: str, sentence: str) -> None:
    fault = only(faults(f"torchrun a.py {PLAIN} {more}"))
    assert fault.code == code
    assert fault.sentence.startswith(sentence)
    assert fault.place is not None
    assert fault.place.line == 1


EMBEDDING, LOSS = (f"--account-for-{end}-in-pipeline-split" for end in ("embedding", "loss"))


@pytest.mark.parametrize(
    ("layers", "hint"),
    [
        (
            30,
            "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split counts both ends as layers",
        ),
        (31, "--account-for-loss-in-pipeline-split counts the loss as a layer"),
        (29, ""),
    ],
)
def test_layers_that_do_not_divide_lead_to_the_ends_that_make_them_divide(layers: int, hint: str) -> None:
    pipeline = f"{PLAIN} --num-layers {layers} --pipeline-model-parallel-size 8"
    uneven = "--decoder-first-pipeline-num-layers makes them uneven"
    assert only(faults(pipeline)).hint == (f"{hint}, or {uneven}" if hint else uneven)
    counted = hint.partition(" counts")[0]
    assert not hint or plan(read(f"{pipeline} {counted}", 8))["split"].startswith("lighter")


def test_training_in_fp32_is_refused() -> None:
    fault = only(faults(PLAIN.replace("--bf16", "")))
    assert (fault.code, fault.hint) == ("X003", "write --bf16 into the text if it is meant")


@pytest.mark.parametrize("program", ["pretrain_bert.py", "/workspace/pretrain_t5.py"])
def test_a_program_of_another_model_is_refused(program: str) -> None:
    assert only(faults(f"torchrun {program} {PLAIN}")).code == "X003"


@pytest.mark.parametrize("text", ["", "echo hello", "a: 1\nb: 2", "# --num-layers --hidden-size --seq-length", "{}"])
def test_a_text_without_options_is_of_no_known_format(text: str) -> None:
    assert only(faults(text)).code in ("X001", "D002")


def test_every_fault_of_a_text_is_named_at_once() -> None:
    found = faults("torchrun a.py --num-layers x --hidden-size 4096 --fp16 --swiglu 3 --tensor-model-parallel-size 3")
    assert {fault.code for fault in found} == {"X005", "X002"}
    assert len(found) >= 7


# --- what options make of the model


def test_layers_by_letters() -> None:
    head = PLAIN.replace("--num-layers 32 ", "")
    found = read(f"{head} --disable-bias-linear --hybrid-layer-pattern MM*-ME --num-experts 4 --mamba-num-heads 64", 8)
    kinds = {
        name: kind["count"]
        for kind in found.document["model"]["layers"]
        for name in kind
        if name not in ("count", "norms")
    }
    assert kinds == {"state_space": 3, "attention": 1, "mlp": 1, "experts": 1}
    assert all(kind["norms"] == 1 for kind in found.document["model"]["layers"])
    assert model(found).layers[0].state_space is not None


def test_windows_of_every_second_layer() -> None:
    found = plain("--window-size 127,0 --window-attn-skip-freq 2 --softmax-type learnable")
    kinds = [(kind["count"], kind["attention"].get("window")) for kind in found.document["model"]["layers"]]
    assert kinds == [(16, 128), (16, None)]
    assert layer(found)["attention"]["sinks"] is True


@pytest.mark.parametrize(
    ("more", "biases"),
    [
        ("", (True, True, True)),
        ("--disable-bias-linear", (None, None, None)),
        ("--disable-bias-linear --add-qkv-bias", (True, None, None)),
    ],
)
def test_biases_are_on_unless_they_are_switched_off(more: str, biases: tuple[Any, ...]) -> None:
    kind = layer(plain(more))
    assert (kind["attention"].get("biases"), kind["attention"].get("output_bias"), kind["mlp"].get("biases")) == biases


# --- stack and assumptions


@pytest.mark.parametrize(
    ("more", "stack", "overlap"),
    [
        ("", "megatron-lm", {}),
        ("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather", "megatron-core", {}),
        ("--use-distributed-optimizer --overlap-grad-reduce", "megatron-core", {"weights": 0}),
        (
            "--tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap",
            "megatron-core",
            {"dp": 0, "weights": 0},
        ),
        (
            "--tensor-model-parallel-size 2 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather",
            "megatron-core",
            {"tp": 0},
        ),
    ],
)
def test_what_overlaps_makes_the_stack(more: str, stack: str, overlap: dict[str, int]) -> None:
    found = plain(more)
    assert found.document["stack"] == stack
    assert found.document.get("assume", {}).get("overlap", {}) == overlap


def test_a_capacity_and_a_dispatcher_are_assumptions_of_experts() -> None:
    found = plain("--num-experts 8 --moe-expert-capacity-factor 1.25 --moe-token-dispatcher-type flex")
    assert found.document["assume"]["experts"] == {"deduplicated": True, "capacity": 1.25}


def test_a_gate_on_attention_is_as_wide_as_the_queries() -> None:
    """One more matrix from the stream to all heads in each layer."""
    text = LLAMA_8B.replace("--bf16", "--bf16 --attention-output-gate", 1)
    found = read(text)
    assert found.document["model"]["layers"][0]["attention"]["output_gate"] is True
    assert parameters(found) - parameters(read(LLAMA_8B)) == 32 * 4096 * 4096
