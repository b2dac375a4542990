"""Work on a finished or running run without Ray: replay, score, the search for k."""
