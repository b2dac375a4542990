"""What a run is told: the schema of its config, read from YAML and checked."""
