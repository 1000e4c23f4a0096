"""Import of other formats and their versions: turns their text into costmodel documents.

Nothing that is read is ever run, and nothing is fetched. What a text states becomes keys of costmodel documents, each
with its origin. Options that are not expressible there are listed, or refused where a count would be wrong.
"""
