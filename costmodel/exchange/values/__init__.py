"""Values in foreign texts: numbers with their place, integer expressions, lists of layers."""
