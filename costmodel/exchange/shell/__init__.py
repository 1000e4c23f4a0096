"""Commands of a shell script, read and never run: variables, lists, quotes, conditions on what the text itself says."""

from costmodel.exchange.shell.script import Command, Script, Word, read_script
from costmodel.exchange.shell.values import Doubt

__all__ = ["Command", "Doubt", "Script", "Word", "read_script"]
