"""`python -m costmodel` is the installed command."""

from costmodel.commands.start import program

if __name__ == "__main__":
    program()
