"""Work on a run without Ray: replay instances, score files, search for k."""
