"""Documents in YAML: frozen schemas and their reader, without arithmetic."""
