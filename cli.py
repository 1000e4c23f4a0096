"""The front door of a checkout: `python cli.py` is the installed command `costmodel`."""

from costmodel.commands.app import main

if __name__ == "__main__":
    main()
