"""`python -m costmodel` is the installed command."""

from costmodel.commands.app import main

if __name__ == "__main__":
    main()
