"""Recompute by module and by layer: at its ends it is none or full, and each module trades memory for time."""

from __future__ import annotations

import pytest

from costmodel.explore.search.search import search
from estimate.cases import ask, case, costs, inputs, line, mixed, model, written_out

SMALL = inputs(model(layers=8), stack="megatron-core")
MODULES = ["norms", "attention", "mlp-activation", "mlp"]
SAME = ("step_time", "memory_peak", "hfu", "mfu", "tp_volume", "dp_volume")


def _same(one: dict[str, float], other: dict[str, float]) -> None:
    assert {name: one[name] for name in SAME} == pytest.approx({name: other[name] for name in SAME}, rel=1e-12)


def test_half_of_the_layers_lie_in_the_middle() -> None:
    """Between none and full exactly half way: work is counted by layer."""
    none, half, full = (costs(SMALL, tp=2, **plan) for plan in (NONE, {"recompute_layers": 4}, {"recompute": "full"}))
    assert half["matmul"] == pytest.approx((none["matmul"] + full["matmul"]) / 2)
    assert half["tp_volume"] == pytest.approx((none["tp_volume"] + full["tp_volume"]) / 2)
    kept = [line(ask(SMALL, tp=2, **plan), "activations") for plan in (NONE, {"recompute_layers": 4}, FULL)]
    assert kept[1] == pytest.approx((kept[0] + kept[2]) / 2, rel=2e-3)


def test_what_runs_again_where_stages_are_uneven() -> None:
    """Stages of 2, 6, 6 and 2 layers compute up to 4 of each again: 12 of 16, as many more FLOP."""
    uneven = inputs(model(layers=16), stack="megatron-core")
    stated = {"pp": 4, "first_stage_layers": 2, "last_stage_layers": 2}
    some, full = (costs(uneven, **stated, **plan) for plan in ({"recompute_layers": 4}, FULL))
    shares = [each["hfu"] / each["mfu"] - 1 for each in (some, full)]
    assert shares[0] == pytest.approx(12 / 16 * shares[1])


NONE, FULL = {"recompute": "none"}, {"recompute": "full"}


@pytest.mark.parametrize("module", MODULES)
def test_each_module_keeps_less_and_takes_longer(module: str) -> None:
    none, some = ask(SMALL, tp=2, **NONE), ask(SMALL, tp=2, recompute_modules=[module])
    assert line(some, "activations") < line(none, "activations")
    assert some.evaluation.costs.row()["step_time"] > none.evaluation.costs.row()["step_time"]
    assert costs(SMALL, tp=2, **FULL)["step_time"] > some.evaluation.costs.row()["step_time"]


def test_what_each_module_drops_by_count() -> None:
    """A layer of a rank at tp 2 with sequence parallelism, 4096 tokens of 2 bytes, flash attention."""
    tokens, hidden, ffn, heads, layers = 4096, 1024, 4096, 16, 8
    drops = {
        "norms": 2 * 2 * hidden * tokens / 2,
        "attention": 2 * 2 * heads / 2 * tokens,
        "mlp-activation": 2 * ffn / 2 * tokens,
        "mlp": 2 * 2 * ffn / 2 * tokens,
    }
    whole = line(ask(SMALL, tp=2, **NONE), "activations")
    for module, nbytes in drops.items():
        kept = line(ask(SMALL, tp=2, recompute_modules=[module]), "activations")
        assert whole - kept == pytest.approx(layers * nbytes), module


def test_named_modules_are_named_where_selective_means_operations() -> None:
    """MaxText drops of an MLP what Megatron does, and multiplies one of its two matrices again: the last is dead."""
    asked, other = inputs(model(layers=8), stack="maxtext"), inputs(model(layers=8), stack="megatron-core")
    plans = ({**NONE}, {"recompute_modules": ["mlp"]}, {"recompute_modules": ["norms"]})
    kept, others = ([line(ask(each, zero=3, **plan), "activations") for plan in plans] for each in (asked, other))
    assert kept == pytest.approx(others)
    found = [costs(each, zero=3, **plans[1]) for each in (asked, other)]
    again, all_again = (each["hfu"] / each["mfu"] - 1 for each in found)
    assert again == pytest.approx(all_again / 2)


def test_policies_keep_what_they_name() -> None:
    """MaxText's save_qkv_proj: input, queries, keys and values; save_dot_except_mlp the stream between halves too."""
    tokens, hidden, layers = 4096, 1024, 8
    asked = inputs(model(layers=layers, gated=True), stack="maxtext")
    for between, modules in (
        (1, ["attention", "norms", "mlp"]),
        (0, ["attention", "attention-output", "norms", "mlp"]),
    ):
        kept = line(ask(asked, zero=3, recompute_modules=modules), "activations")
        assert kept == pytest.approx(layers * tokens * 2 * (hidden + 3 * hidden + between * hidden))


def test_the_output_projection_is_multiplied_and_scattered_again() -> None:
    """A quarter of what the MLP multiplies again, whose last matrix is dead; one scatter where that has one gather."""
    asked = inputs(model(layers=8), stack="maxtext")
    plans = (NONE, {"recompute_modules": ["attention-output"]}, {"recompute_modules": ["mlp"]})
    none, out, mlp = (costs(asked, tp=4, zero=3, **plan) for plan in plans)
    assert out["hfu"] / out["mfu"] - 1 == pytest.approx((mlp["hfu"] / mlp["mfu"] - 1) / 4)
    assert out["tp_volume"] - none["tp_volume"] == pytest.approx(mlp["tp_volume"] - none["tp_volume"])


def test_the_core_of_unfused_attention_is_what_selective_drops() -> None:
    kernels = {"attention": "unfused", "dropout": False, "traffic_factor": 1.1, "selective": "core-attention"}
    asked = inputs(model(), stack=written_out("stack", "megatron-core", kernels=kernels, name="unfused"))
    by_name, usual = (ask(asked, tp=2, **plan) for plan in ({"recompute_modules": ["attention"]}, SELECTIVE))
    assert line(by_name, "activations") == pytest.approx(line(usual, "activations"))
    assert by_name.evaluation.costs.row()["hfu"] == pytest.approx(usual.evaluation.costs.row()["hfu"])


SELECTIVE = {"recompute": "selective"}


def test_the_mlp_exchanges_once_more_than_none_and_half_of_full() -> None:
    none, mlp, full = (costs(SMALL, tp=4, **plan)["tp_volume"] for plan in (NONE, {"recompute_modules": ["mlp"]}, FULL))
    assert mlp - none == pytest.approx((full - none) / 2)


def test_layers_run_again_together_keep_fewer_inputs() -> None:
    one, four = (ask(SMALL, recompute_layers=count, recompute_method="uniform") for count in (1, 4))
    assert line(four, "activations") == pytest.approx(line(one, "activations") / 4)
    assert line(four, "recompute") == pytest.approx(4 * line(one, "recompute"))
    _same(one.evaluation.costs.row(), costs(SMALL, **FULL))


def test_search_tries_what_is_listed() -> None:
    space = {"tp": [2], "pp": [1], "micro_batch": [1], "zero": [1], "recompute": ["none", "selective", "full"]}
    space |= {
        "recompute_modules": [["norms"], ["norms", "mlp"]],
        "recompute_layers": [2, 4],
        "offload": [[], ["optimizer"]],
    }
    found = search(case(model(layers=8), search=space), size=50)
    structures = [plan.structure for plan in found.best]
    ways = {(one.recompute_modules, one.recompute_layers, one.offload) for one in structures}
    again = {(None, None), (("norms",), None), (("norms", "mlp"), None), (None, 2.0), (None, 4.0)}
    assert ways == {(*way, kept) for way in again for kept in ((), ("optimizer",))}


EXPERTS = inputs(mixed(ffn_hidden=2048, shared={"ffn_hidden": 2048, "gated": True}), nodes=2)
LATENT = {"heads": 16, "query_rank": 512, "kv_rank": 256, "nope_dim": 64, "rope_dim": 32, "value_dim": 64}


def _latent() -> dict[str, object]:
    shape = model(gated=True)
    kind = {name: value for name, value in shape["layers"][0].items() if name != "attention"}
    return {**shape, "layers": [{**kind, "latent": LATENT}]}


def test_what_modules_of_experts_drop_by_count() -> None:
    """A layer at tp 2: 4096 tokens, two experts each, rows cut over tp; the shared expert's width too."""
    tokens, width, hidden, layers = 4096, 2048, 1024, 8
    shared, rows = 3 * 2 * width / 2 * tokens, 2 * tokens / 2
    drops = {
        "moe-activation": 2 * width * rows,
        "shared-experts": shared,
        "moe": 2 * (hidden + 3 * width) * rows + shared,
    }
    whole = line(ask(EXPERTS, tp=2, ep=8, etp=1, **NONE), "activations")
    for module, nbytes in drops.items():
        kept = line(ask(EXPERTS, tp=2, ep=8, etp=1, recompute_modules=[module]), "activations")
        assert whole - kept == pytest.approx(layers * nbytes), module


def test_what_latent_attention_drops_by_count() -> None:
    asked = inputs(_latent())
    whole = line(ask(asked, tp=2, **NONE), "activations")
    kept = line(ask(asked, tp=2, recompute_modules=["mla-up-projection"]), "activations")
    assert whole - kept == pytest.approx(8 * 2 * (16 / 2) * (2 * 96 + 64) * 4096)


@pytest.mark.parametrize("module", ["moe-activation", "shared-experts", "moe"])
def test_modules_of_experts_lie_between_none_and_full(module: str) -> None:
    none, some, full = (ask(EXPERTS, tp=2, ep=8, **plan) for plan in (NONE, {"recompute_modules": [module]}, FULL))
    for earlier, later in ((none, some), (some, full)):
        assert earlier.evaluation.costs.row()["step_time"] < later.evaluation.costs.row()["step_time"]
        assert line(earlier, "activations") > line(later, "activations")


def test_only_the_whole_layer_of_experts_sends_tokens_again() -> None:
    none, act, moe, full = (
        costs(EXPERTS, tp=2, ep=8, **plan)["ep_volume"]
        for plan in (NONE, {"recompute_modules": ["moe-activation"]}, {"recompute_modules": ["moe"]}, FULL)
    )
    assert act == none
    assert moe == full == pytest.approx(1.5 * none)


def test_recompute_of_an_only_expert_is_that_of_an_mlp() -> None:
    """One expert that every token goes to is an MLP: what is dropped and multiplied again is the same."""
    mlp = inputs(model(gated=True, ffn_hidden=2048))
    only = inputs(mixed(count=1, top_k=1, ffn_hidden=2048))
    for dense, routed in ((["mlp-activation"], ["moe-activation"]), (["mlp"], ["moe"])):
        one, other = (ask(mlp, recompute_modules=dense), ask(only, recompute_modules=routed))
        assert line(other, "activations") == pytest.approx(line(one, "activations"))
        work = [given.evaluation.costs.row() for given in (one, other)]
        assert work[1]["hfu"] / work[1]["mfu"] == pytest.approx(work[0]["hfu"] / work[0]["mfu"])


def test_work_done_again_by_count() -> None:
    """hfu over mfu says what is multiplied again, over all that is multiplied."""
    asked = inputs(_latent())
    found = costs(asked, recompute_modules=["mla-up-projection"], recompute="selective")
    again = 512 * 16 * 96 + 256 * 16 * 128
    down = 1024 * (512 + 256 + 32)
    core = 16 * (96 + 64) * (4096 + 1) / 2
    layer = down + again + 16 * 64 * 1024 + 3 * 4096 * 1024 + core
    whole = 3 * (8 * layer + 32768 * 1024)
    assert found["hfu"] / found["mfu"] == pytest.approx(1 + 8 * again / whole, rel=1e-3)


@pytest.mark.parametrize(
    ("named", "whole"),
    [
        (["moe", "moe-activation", "shared-experts"], ["moe"]),
        (["mlp", "mlp-activation"], ["mlp"]),
        (["norms", "moe-activation"], ["moe-activation", "norms"]),
    ],
)
def test_a_part_named_beside_its_whole_is_nothing_more(named: list[str], whole: list[str]) -> None:
    asked = inputs(mixed(shared={"ffn_hidden": 1024, "gated": True}))
    _same(costs(asked, recompute_modules=named), costs(asked, recompute_modules=whole))


def test_what_stops_early_neither_multiplies_nor_counts_the_last_matrix() -> None:
    """A layer of plain attention and MLP with 4 hidden: 12 h² forward, of which down is 4 h², and the core."""
    asked = inputs(model(layers=8), stack="fsdp2")
    whole = inputs(model(layers=8), stack=written_out("stack", "fsdp2", kernels={"full": "whole"}, name="whole"))
    found = [costs(each, zero=3, **FULL) for each in (asked, whole)]
    early, late = (each["hfu"] * each["step_time"] for each in found)
    assert found[0]["matmul"] < found[1]["matmul"]
    hidden, tokens = 1024, asked.global_batch * asked.sequence
    assert late - early == pytest.approx(
        8 * 2 * tokens * 4 * hidden**2 / asked.rates.mfu_peak / float(asked.ranks), rel=1e-9
    )


def test_experts_leave_nothing_out_and_the_exchange_of_attention_is_made_again() -> None:
    """Outputs of experts are weighed behind them, so that backward reads the last matrix of the layer too."""
    asked = inputs(mixed(layers=8), stack="fsdp2")
    whole = inputs(mixed(layers=8), stack=written_out("stack", "fsdp2", kernels={"full": "whole"}, name="whole"))
    _same(*(costs(each, tp=2, zero=3, **FULL) for each in (asked, whole)))


def test_an_adapter_beside_the_last_matrix_reads_on() -> None:
    """Its thin input is kept behind that matrix, which runs again on the way; without it the matrix is left out."""
    stacks = ("fsdp2", written_out("stack", "fsdp2", kernels={"full": "whole"}, name="whole"))
    for modules, alike in ((["down"], True), (["q"], False)):
        tuning = {"method": "lora", "rank": 8, "modules": modules}
        times = [
            costs(inputs(model(), stack=each, workload={"tuning": tuning}), zero=3, **FULL)["matmul"] for each in stacks
        ]
        assert (times[0] == pytest.approx(times[1])) == alike


@pytest.mark.parametrize("kind", ["p2p", "all-gather", "a2a"])
def test_attention_that_runs_again_is_exchanged_again(kind: str) -> None:
    """By name as under full recompute: the core needs the other ranks' keys, or all tokens of its heads."""
    plans = [NONE, {"recompute_modules": ["attention"]}, {"recompute_modules": ["norms"]}, FULL]
    plain, core, norms, full = (costs(SMALL, cp=2, cp_type=kind, **plan)["cp_volume"] for plan in plans)
    assert plain == norms < core == full


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_an_output_projection_that_runs_again_is_exchanged_again(sequence_parallel: bool) -> None:
    """A sum over tp more, in the room of one half; with the MLP, which MaxText does not sum again, in that of both."""
    asked = inputs("llama-3-8b", stack="maxtext")
    shown = {
        modules: costs(
            asked,
            tp=8,
            zero=3,
            recompute="selective",
            recompute_modules=list(modules),
            sequence_parallel=sequence_parallel,
        )["tp_exposed"]
        for modules in (("norms",), ("attention-output",), ("mlp",), ("attention-output", "mlp"))
    }
    alone, beside = (shown[modules] for modules in (("attention-output",), ("attention-output", "mlp")))
    assert min(alone, beside) > shown["norms",]
    assert (shown["norms",] < shown["mlp",]) is sequence_parallel, "whose inputs are gathered again"
    assert beside <= alone + shown["mlp",] - shown["norms",] + 1e-9, "there is more to hide behind"
