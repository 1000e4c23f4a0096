"""Imports files and logs of other tools, and exports plans to them; the formats are in `costmodel.exchange`."""
