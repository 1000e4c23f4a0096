"""How many accelerators a launcher starts, of torchrun, deepspeed, mpirun and Slurm, and its other options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from costmodel.exchange.given_size import counted_by_node
from costmodel.exchange.imported import Loss, Origin, OriginKind, OriginValue, StatedKey, Verdict
from costmodel.exchange.shell import Word
from costmodel.exchange.training.layer import Layer
from costmodel.exchange.values.foreign_values import printable
from costmodel.ground.errors import Fault

_PER_NODE = ("nproc_per_node", "nproc-per-node", "ntasks-per-node", "gpus-per-node", "num_gpus")
_NODES = ("nnodes", "nodes", "num_nodes", "N")
_TASKS = ("np", "ntasks", "n", "num_processes")
_MOST = 10**7  # accelerators
_INCLUDED = "include"  # of deepspeed: devices of each machine
_LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "deepspeed", "torchx")
_MOST_UNKNOWN = 12
_QUIET_OPTIONS = """
rdzv_id rdzv_backend rdzv_endpoint rdzv_conf master_addr master_port node_rank standalone max_restarts
monitor_interval log_dir log-dir tee redirects local_ranks_filter start_method role hostfile launcher launcher_args
module no_python no_local_rank bind_cores_to_rank bind_core_list save_pid enable_each_rank_log
autotuning elastic_training
ssh_port force_multi venv_script local_addr logs_specs run_path use_env numa-binding m rdzv-id rdzv-backend
rdzv-endpoint rdzv-conf master-addr master-port node-rank max-restarts monitor-interval local-addr
local-ranks-filter start-method run-path duplicate-stdout-filters duplicate-stderr-filters signals-to-handle
virtual-local-rank event-log-handler no-python u
"""
_QUIET = frozenset(_QUIET_OPTIONS.split())


def launched_accelerators(words: Sequence[Word]) -> dict[str, OriginValue]:
    """The numbers of accelerators, nodes and accelerators per node that launcher options state."""
    per_node = _number(words, _PER_NODE) or _of_gres(words)
    nodes = _number(words, _NODES)
    tasks = _number(words, _TASKS)
    if per_node is not None and _stands(words, _NODES) == (nodes is not None):
        return counted_by_node(per_node, nodes, "launcher")
    return {"accelerators": tasks} if tasks is not None else _included(words)


def _stands(words: Sequence[Word], names: tuple[str, ...]) -> bool:
    return any(_spelling(word)[0] in names for word in words)


def _spelling(word: Word) -> tuple[str, str]:
    name, _, value = word.text.partition("=")
    return (name.lstrip("-"), value) if name.startswith("-") else ("", "")


def _number(words: Sequence[Word], names: tuple[str, ...]) -> OriginValue | None:
    """The number after the last of several options of a launcher."""
    found = None
    for index, word in enumerate(words):
        name, value = _spelling(word)
        if name not in names:
            continue
        at = word if value else words[min(index + 1, len(words) - 1)]
        text = value or at.text
        if at.doubt is None and text.isascii() and text.isdigit() and 0 < int(text[:9]) <= _MOST and len(text) < 9:
            kind: OriginKind = "default" if at.usual else "file"
            found = OriginValue(int(text), Origin(kind, f"{name} of the launcher", word.place))
    return found


def _of_gres(words: Sequence[Word]) -> OriginValue | None:
    """The number of accelerators in Slurm's option gres=gpu:h100:8."""
    for word in words:
        match = re.fullmatch(r"--(?:gres|gpus-per-node)=(?:gpu:)?(?:[\w-]+:)?(\d{1,4})", word.text)
        if match and int(match.group(1)):
            return OriginValue(int(match.group(1)), Origin("file", "gres of Slurm", word.place))
    return None


def of_launcher(words: Sequence[Word]) -> Layer:
    """The verdict for each launcher option; an unknown option of torchrun or deepspeed may change the job."""
    known = any(PurePath(word.text).name in _LAUNCHERS for word in words)
    layer, unknown = Layer(""), list[StatedKey]()
    for word in words:
        name, _ = _spelling(word)
        if not name or name[0].isdigit():
            continue
        verdict: Verdict = "read" if name in (*_PER_NODE, *_NODES, *_TASKS, "gres", _INCLUDED) else "no effect"
        if verdict == "no effect" and known and name not in _QUIET:
            verdict = "not expressible"
        if name == _INCLUDED and "nodes" not in (counted := _included(words)):
            verdict = "approximated" if counted else "not expressible"
            layer.losses.append(Loss(verdict, "include: machines of which different numbers are used", word.place))
        layer.keys.append(StatedKey(printable(word.text.partition("=")[0]), verdict, word.place))
        unknown += layer.keys[-1:] if verdict == "not expressible" and name != _INCLUDED else []
    if unknown:
        names = ", ".join(key.name for key in unknown[:_MOST_UNKNOWN])
        sentence = f"options of the launcher that are not known: {names}"
        layer.warnings.append(Fault("X007", sentence, unknown[0].place, "they are left out"))
    return layer


def _included(words: Sequence[Word]) -> dict[str, OriginValue]:
    """The nodes and devices in deepspeed's option --include, such as localhost:0,1,2,3@other:0,1."""
    for index, word in enumerate(words):
        name, value = _spelling(word)
        text = value or words[min(index + 1, len(words) - 1)].text
        if name == _INCLUDED and re.fullmatch(r"[\w.@:,-]{1,2000}", text):
            counts = [len({*filter(None, part.partition(":")[2].split(","))}) for part in text.split("@") if part]
            each, nodes = (
                OriginValue(number, Origin("file", "include of the launcher", word.place))
                for number in (counts[0] if counts else 0, len(counts))
            )
            if counts and len(set(counts)) == 1:
                return counted_by_node(each, nodes, "launcher") if each.value else {"nodes": nodes}
            return {} if 0 in counts else {"accelerators": each._replace(value=sum(counts))}
    return {}
