"""Commands of a shell script, read and never run: variables, lists, quotes, conditions on the text's own values."""

from costmodel.exchange.shell.script import Doubt, Script, ShellCommand, Word, read_script

__all__ = ["Doubt", "Script", "ShellCommand", "Word", "read_script"]
