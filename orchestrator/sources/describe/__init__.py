"""Looking at a stream before a run: a summary, as tables, JSON and a picture."""
