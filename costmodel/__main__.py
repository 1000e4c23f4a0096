"""`python -m costmodel` is the installed command."""

from costmodel.commands.start import main

if __name__ == "__main__":
    main()
