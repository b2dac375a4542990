"""The config of a run: its schema, its checks, and reading it from YAML."""
