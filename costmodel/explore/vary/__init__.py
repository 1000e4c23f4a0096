"""The same question at other values."""
