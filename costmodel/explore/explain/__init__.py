"""Explains figures by their equations, words by their pages, and rejected plans by what would fix them."""
