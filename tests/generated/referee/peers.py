"""Asks one program of the field about described runs: `python peers.py PROGRAM [CHECKOUT] < runs.json > answers.jsonl`.

It runs in that program's own interpreter, so that it imports nothing of costmodel. Each program gets the best
description of a run that it accepts, and its defaults for everything else. What it cannot describe is refused with the
reason. Seconds are of the processor, for one answer; memory is the most of the process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Run = dict[str, Any]
Answer = tuple[float, str]  # seconds of a step, or tokens a second; and a remark


class Refused(Exception):
    """The program cannot describe a run."""


def training_of(run: Run, parts: Mapping[str, str], stages: tuple[int, ...], *, rings: bool = False) -> str:
    """The program's own name of the accelerator, once what it does not describe is refused."""
    if run["kind"] != "training":
        raise Refused("no serving")
    if run["accelerator"] not in parts:
        raise Refused(f"no description of {run['accelerator']}")
    plan = run["plan"]
    if plan["cp"] > 1 and not rings:
        raise Refused("no context parallelism")
    if plan["zero"] not in stages:
        raise Refused(f"no ZeRO stage {plan['zero']}")
    if plan["offload"]:
        raise Refused("no offload as in this run")
    return parts[run["accelerator"]]


def only_layer(run: Run, *, experts: bool) -> Run:
    """The single kind of layer of a model, with plain attention."""
    kinds = run["model"]["layers"]
    if any(kind["latent"] for kind in kinds):
        raise Refused("no latent attention")
    if any(kind["experts"] for kind in kinds) and not experts:
        raise Refused("no mixture of experts")
    if len(kinds) > 1 or not kinds[0]["attention"]:
        raise Refused("layers of several kinds")
    layer: Run = kinds[0]
    return layer


def calculon(checkout: Path) -> Callable[[Run], Answer]:
    """Three matrices of a gated MLP as two of 1.5 times the inner width; keys and values of every head."""
    sys.path.insert(0, str(checkout))
    llm, io_ = importlib.import_module("calculon.llm"), importlib.import_module("calculon.io")
    parts = {"a100-sxm-40": "a100_80g", "a100-sxm-80": "a100_80g", "h100-sxm": "h100_80g_nvl8"}
    parts["h100-sxm-96"] = "h100_80g_nvl8"
    recompute = {"none": "none", "selective": "attn_only", "full": "full"}

    def ask(run: Run) -> Answer:
        name = training_of(run, parts, (0, 1))
        layer, plan, hidden = only_layer(run, experts=False), run["plan"], run["model"]["hidden"]
        narrow = run["precision"].startswith("fp8")
        if narrow and name == "a100_80g":
            raise Refused("no fp8")
        attention, mlp = layer["attention"], layer["mlp"]
        app = {"hidden": hidden, "feedforward": round(mlp["ffn_hidden"] * (1.5 if mlp["gated"] else 1))}
        app |= {"seq_size": run["sequence"], "attn_heads": attention["heads"], "attn_size": attention["head_dim"]}
        tp, pp, dp, node = plan["tp"], plan["pp"], plan["dp"], 8
        sequence_parallel = plan["sequence_parallel"] and tp > 1
        kept = recompute[plan["recompute"]]
        execution = {
            "num_procs": tp * pp * dp,
            "tensor_par": tp,
            "pipeline_par": pp,
            "data_par": dp,
            "tensor_par_net": int(tp > node),
            "data_par_net": int(tp * dp > node),
            "pipeline_par_net": int(tp * dp * pp > node),
            "batch_size": run["global_batch"],
            "microbatch_size": plan["micro_batch"],
            "datatype": "float8" if narrow else "float16",
            "fused_activation": run["fused_attention"],
            "attention_type": "multiquery" if attention["kv_heads"] == 1 else "multihead",
            "activation_recompute": kept,
            "pipeline_interleaving": plan["vpp"],
            "optimizer_sharding": plan["zero"] == 1 and dp > 1,
            "tensor_par_comm_type": "rs_ag" if sequence_parallel else "ar",
            "tensor_par_overlap": "none",
            "seq_par_ag_redo": sequence_parallel and kept != "full",
            "data_par_overlap": False,
            "weight_offload": False,
            "activations_offload": False,
            "optimizer_offload": False,
            "training": True,
        }
        described = io_.read_json_file(str(checkout / "systems" / f"{name}.json"))
        app["num_blocks"] = layer["count"]

        def seconds() -> float:
            model = llm.Llm(llm.Llm.Application(app), logging.getLogger("calculon"))
            try:
                model.compile(llm.System(described), llm.Llm.Execution.from_json(execution))
                model.run(llm.System(described))
            except llm.Llm.Error as error:
                raise Refused(str(error)) from error
            return float(model.get_total_time())

        try:
            return seconds(), ""
        except Refused as refused:
            if "capacity" not in str(refused) and "Mem" not in str(refused):
                raise
            described["mem1"]["GiB"] = 80_000
            return seconds(), "called too large for memory"

    return ask


def llm_analysis(checkout: Path) -> Callable[[Run], Answer]:
    """Efficiencies of its own examples of training: 0.5 of the peak and 0.9 of the memory's bandwidth."""
    sys.path.insert(0, str(checkout))
    analysis, config = (importlib.import_module(f"llm_analysis.{name}") for name in ("analysis", "config"))
    analysis.logger.setLevel(logging.CRITICAL)
    parts = {"a100-sxm-40": "a100-sxm-40gb", "a100-sxm-80": "a100-sxm-80gb", "h100-sxm": "h100-sxm-80gb"}
    parts["h100-sxm-96"] = "h100-sxm-80gb"
    recompute = {"none": 0, "selective": 1, "full": 4}

    def ask(run: Run) -> Answer:
        name = training_of(run, parts, (0, 1, 2, 3))
        if run["precision"] not in ("bf16", "fp16"):
            raise Refused(f"no training in {run['precision']}")
        layer, plan, model = only_layer(run, experts=True), run["plan"], run["model"]
        experts, attention = layer["experts"], layer["attention"]
        if experts and experts["shared"]:
            raise Refused("no shared experts")
        half = experts or layer["mlp"]
        described = config.ModelConfig(
            name=model["name"],
            num_layers=layer["count"],
            n_head=attention["heads"],
            hidden_dim=model["hidden"],
            vocab_size=model["vocab"],
            max_seq_len=run["sequence"],
            num_key_value_heads=attention["kv_heads"],
            ffn_embed_dim=half["ffn_hidden"],
            moe_num_experts=experts["count"] if experts else 1,
            moe_top_k=experts["top_k"] if experts else 1,
            mlp_gated_linear_units=half["gated"],
        )
        parallel = config.ParallelismConfig(
            tp_size=plan["tp"],
            pp_size=plan["pp"],
            dp_size=plan["dp"] // plan["dp_replicate"],
            rdp_size=plan["dp_replicate"],
            ep_size=plan["ep"],
            sp_size=plan["tp"] if plan["sequence_parallel"] else 1,
        )
        asked = analysis.LLMAnalysis(
            described,
            config.get_gpu_config_by_name(name),
            config.get_dtype_config_by_name("w16a16e16"),
            parallel,
            flops_efficiency=0.5,
            hbm_memory_efficiency=0.9,
        )
        found = asked.training(
            batch_size_per_gpu=plan["micro_batch"],
            global_batch_size=run["global_batch"],
            seq_len=run["sequence"],
            activation_recomputation=analysis.ActivationRecomputation(recompute[plan["recompute"]]),
            ds_zero=analysis.DSZeRO(plan["zero"]),
            flash_attn=run["fused_attention"],
        )
        return float(found["latency_per_iter"]), ""

    return ask


def simumax(checkout: Path) -> Callable[[Run], Answer]:
    """Its A100 file is of the PCIe card: clock and kernels are kept, memory and links are those of a DGX A100."""
    sys.path.insert(0, str(checkout))
    config, perf = (importlib.import_module(f"simumax.core.{name}") for name in ("config", "perf_llm"))
    parts = {"a100-sxm-80": "a100_pcie", "a100-sxm-40": "a100_pcie", "b200-sxm": "b200_bf16_ceperm"}
    systems = {
        name: json.loads((checkout / "configs" / "system" / f"{name}.json").read_text()) for name in parts.values()
    }
    _give_nvlink(systems["a100_pcie"], systems["b200_bf16_ceperm"])
    own = checkout / "configs" / "strategy" / "tp8_pp1_dp1_mbs1.json"

    def ask(run: Run) -> Answer:
        name = training_of(run, parts, (0, 1), rings=True)
        if run["precision"] not in ("bf16", "fp16"):
            raise Refused(f"no efficiency for {run['precision']} on this accelerator")
        plan, layers = run["plan"], sum(kind["count"] for kind in run["model"]["layers"])
        system = config.SystemConfig.init_from_dict(json.loads(json.dumps(systems[name])))
        strategy = config.StrategyConfig.init_from_config_file(str(own))
        changes = {"seq_len": run["sequence"], "world_size": run["accelerators"], "interleaving_size": plan["vpp"]}
        changes |= {f"{key}_size": plan[key] for key in ("tp", "pp", "ep", "etp", "cp")}
        changes |= {"micro_batch_size": plan["micro_batch"], "zero_state": plan["zero"]}
        changes["micro_batch_num"] = run["global_batch"] // (plan["dp"] * plan["micro_batch"])
        changes["enable_sequence_parallel"] = plan["sequence_parallel"] and plan["tp"] > 1
        changes |= {"use_flash_sdp": run["fused_attention"], "use_math_sdp": not run["fused_attention"]}
        changes["pp_comm_async"] = plan["vpp"] == 1  # its error asks for that
        if layers % plan["pp"] and (layers + 2) % plan["pp"] == 0:
            ends = ("num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage")
            changes |= dict.fromkeys(ends, (layers + 2) // plan["pp"] - 1)
        changes["enable_recompute"] = plan["recompute"] != "none"
        if plan["recompute"] == "full":
            changes |= {"recompute_granularity": "full_block", "recompute_layer_num": layers // plan["pp"]}
        elif plan["recompute"] == "selective":
            changes |= {"recompute_granularity": "sdp_only", "recompute_layer_num": layers // plan["pp"]}
        for key, value in changes.items():
            setattr(strategy, key, value)
        asked = perf.PerfLLM()
        asked.configure(strategy_config=strategy, model_config=_simumax_model(config, run), system_config=system)
        asked.run_estimate()
        found = asked.analysis_cost().data
        return _first_milliseconds(found["duration_time_per_iter"]) / 1e3, ""

    return ask


def _first_milliseconds(text: Any) -> float:
    """The figure of `1234.5 ms`, or of seconds."""
    if isinstance(text, (int, float)):
        return float(text)
    value, unit = str(text).split()[:2]
    return float(value.replace(",", "")) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def _give_nvlink(system: Run, pattern: Run) -> None:
    """Links in the form of its B200 file, with the rates of a DGX A100: NVLink 300 GB/s, eight times HDR."""
    networks = json.loads(json.dumps(pattern["networks"]))
    for tier in ("low_intra_node", "high_intra_node"):
        networks[tier]["bandwidth"]["gbps"] = 300
    networks["inter_node"]["bandwidth"]["gbps"] = 200
    system["networks"] = networks
    system["FC8"] = pattern["FC8"]
    for memory in system["accelerator"]["bandwidth"].values():
        memory["gbps"] = 2039


def _simumax_model(config: Any, run: Run) -> Any:
    """The model by its own keys."""
    model, kinds = run["model"], run["model"]["layers"]
    last = kinds[-1]
    experts, attention, latent = last["experts"], last["attention"], last["latent"]
    dense = [kind for kind in kinds if kind["mlp"]]
    if len(kinds) > 1 + bool(experts and dense):
        raise Refused("layers of several kinds")
    half = dense[0]["mlp"] if dense else experts
    described = {
        "model_type": "moe" if experts else "dense",
        "model_name": model["name"],
        "hidden_size": model["hidden"],
        "layer_num": sum(kind["count"] for kind in kinds),
        "vocab_size": model["vocab"],
        "intermediate_size": half["ffn_hidden"],
        "use_swiglu": half["gated"],
    }
    if experts:
        described |= {"expert_num": experts["count"], "topk": experts["top_k"]}
        described |= {"moe_ffn_hidden_size": experts["ffn_hidden"], "dense_layers": sum(k["count"] for k in dense)}
        described["moe_shared_expert_intermediate_size"] = experts["shared"] or None
    if latent:
        described |= {"attention_type": "mla", "head_num": latent["heads"], "kv_head_num": latent["heads"]}
        described |= {"head_size": latent["nope_dim"], "qk_head_dim": latent["nope_dim"]}
        described |= {"qk_pos_emb_head_dim": latent["rope_dim"], "v_head_dim": latent["value_dim"]}
        described |= {"q_lora_rank": latent["query_rank"], "kv_lora_rank": latent["kv_rank"]}
    else:
        described |= {"head_num": attention["heads"], "kv_head_num": attention["kv_heads"]}
        described["head_size"] = attention["head_dim"]
    fields = {each.name for each in dataclasses.fields(config.ModelConfig)}
    return config.ModelConfig(**{name: value for name, value in described.items() if name in fields})


def aiconfigurator(_: Path) -> Callable[[Run], Answer]:
    """Tokens a second with the most requests in flight that it finds room for, to 4 %, and 2,048 at most."""
    api = importlib.import_module("aiconfigurator.cli.api")
    logging.disable(logging.CRITICAL)
    parts = {"h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm", "b200-sxm": "b200_sxm"}
    names = {"llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B", "llama-3.1-70b": "meta-llama/Meta-Llama-3.1-70B"}
    names["llama-3.1-405b"] = "meta-llama/Meta-Llama-3.1-405B"

    def ask(run: Run) -> Answer:
        if run["kind"] != "serving":
            raise Refused("no training")
        if run["accelerator"] not in parts or run["model"]["name"] not in names:
            raise Refused("no description of the model or the accelerator")

        def served(number: int) -> Any:
            try:
                found = api.cli_estimate(
                    names[run["model"]["name"]],
                    parts[run["accelerator"]],
                    backend_name="trtllm",
                    isl=run["prompt"],
                    osl=run["output"],
                    batch_size=number,
                    tp_size=run["tp"],
                    gemm_quant_mode=run["precision"],
                    kvcache_quant_mode="fp8",
                    free_gpu_memory_fraction=run["memory_share"],
                )
            except RuntimeError as error:
                if "OOM" in str(error):
                    return None
                raise Refused(str(error)) from error
            return found

        few, more = served(16), served(64)
        if few is None or more is None:
            raise Refused("does not fit")
        each = (more.memory - few.memory) / (64 - 16)
        number = round((run["memory_share"] * run["memory_bytes"] / 2**30 - few.memory) / each) + 16
        number = min(number, run["requests"], 2048)
        while (found := served(number)) is None:
            number = number * 24 // 25
        return float(found.tokens_per_second), f"{number} requests in flight"

    return ask


def half_of_peak(_: Path) -> Callable[[Run], Answer]:
    """A rule of thumb to compare with: 6 FLOP a parameter and token at half of the peak, and the pipeline's bubble."""

    def ask(run: Run) -> Answer:
        if run["kind"] != "training":
            raise Refused("no serving")
        plan, tokens = run["plan"], run["sequence"] * run["global_batch"]
        batches = run["global_batch"] / (plan["dp"] * plan["micro_batch"])
        bubble = (plan["pp"] - 1) / (plan["vpp"] * batches)
        ideal = 6 * run["model"]["active_parameters"] * tokens / (run["accelerators"] * 0.5 * run["peak"])
        return ideal * (1 + bubble), ""

    return ask


PROGRAMS: dict[str, Callable[[Path], Callable[[Run], Answer]]] = {
    "calculon": calculon,
    "simumax": simumax,
    "llm-analysis": llm_analysis,
    "aiconfigurator": aiconfigurator,
    "half-of-peak": half_of_peak,
}


def peak_bytes() -> int:
    """The most memory of this process; the resource usage would count that of the process which started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def answers(program: str, checkout: Path, runs: list[Run]) -> Iterator[Run]:
    """The answer, or the reason for none, of every run."""
    ask = PROGRAMS[program](checkout)
    for run in runs:
        began, answer = time.process_time(), {"id": run["id"]}
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                predicted, remark = ask(run)
            answer |= {"predicted": predicted, "note": remark}
        except Refused as refused:
            answer["refused"] = str(refused).split("\n")[0][:120]
        except Exception as error:  # of another's program: any of them is its answer
            answer["refused"] = f"fails: {type(error).__name__}: {error}".split("\n")[0][:120]
        answer["seconds"] = time.process_time() - began
        answer["peak_bytes"] = peak_bytes()
        yield answer


if __name__ == "__main__":
    named = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()
    for each in answers(sys.argv[1], named, json.load(sys.stdin)):
        print(json.dumps(each), flush=True)
