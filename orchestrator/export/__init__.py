"""Export models for other systems: plain Parquet, and documents for Vespa."""
