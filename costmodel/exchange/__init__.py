"""Other people's formats, with their versions: their text to our documents.

Nothing that is read is ever run, and nothing is fetched. What a text says becomes keys of our documents, each with its
origin; what cannot be said in them is listed, or refused where it would make a count wrong.
"""
