"""The front door of a checkout: `python cli.py` is the installed command `costmodel`."""

from costmodel.commands.start import program

if __name__ == "__main__":
    program()
