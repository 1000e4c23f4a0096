"""What a command takes, whole, over importing typer and rich: `python tests/speed/start.py [runs]`.

Processor time, since a busy machine distorts that least. A command and the import take turns, and the median of the
ratios of these pairs is shown: with bytecode that is kept, as an installed command has it, and in the last lines
without any, that of Python's own library included, which a wheel without bytecode is better than.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile

BASE = ["-c", "import typer, rich.console, rich.table"]
COMMANDS = {
    "costmodel --help": ["-m", "costmodel", "--help"],
    "costmodel estimate": ["-m", "costmodel", "estimate", "llama-3-70b-512"],
    "… of flags": ["-m", "costmodel", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "16"],
    "… of serving": ["-m", "costmodel", "estimate", "serve-llama-3.1-70b"],
    "costmodel memory": ["-m", "costmodel", "memory", "llama-3-70b-512"],
    "costmodel explain": ["-m", "costmodel", "explain", "llama-3-70b-512", "mfu"],
    "costmodel search": ["-m", "costmodel", "search", "llama-3-70b-512"],
    "… of flags, search": ["-m", "costmodel", "search", "--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "16"],
}
FIRST = ("costmodel --help", "costmodel estimate")  # shown without bytecode too


def seconds(arguments: list[str], *, bytecode: bool = True) -> float:
    """Of the processor, for one whole process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as empty:
        if not bytecode:
            environment |= {"PYTHONPYCACHEPREFIX": empty, "PYTHONDONTWRITEBYTECODE": "1"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def line(name: str, arguments: list[str], runs: int, *, bytecode: bool = True) -> None:
    """Print the median of so many pairs, after one that is not counted."""
    pairs = [(seconds(arguments, bytecode=bytecode), seconds(BASE)) for _ in range(runs + 1)][1:]
    least, ratio = min(pairs)[0], statistics.median(taken / base for taken, base in pairs)
    print(f"{name:38} {least * 1e3:6.0f} ms {ratio:6.2f} ×", flush=True)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    for name, arguments in COMMANDS.items():
        line(name, arguments, runs)
    for name in FIRST:
        line(f"{name}, no bytecode", COMMANDS[name], runs, bytecode=False)


if __name__ == "__main__":
    main()
