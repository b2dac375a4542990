"""The cycle loop on Ray: sources, search, actors, selection, journal and the command line."""
