"""From a foreign text to a document: one room or module per format."""
