"""The keys of documents: their paths, other names for them, their values, and how a command sets them."""
