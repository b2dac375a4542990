"""Events from files: Parquet, CSV and JSON lines, local or on object storage."""
