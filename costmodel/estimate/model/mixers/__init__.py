"""The mixing halves of layers, one module for each kind: how a rank holds it, its work, its bytes and its cache."""
