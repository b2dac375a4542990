"""The source `python`: a class of the user's own."""
