"""What YAML may say: frozen documents, no arithmetic."""
