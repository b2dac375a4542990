"""Files as rows: CSV, JSON lines, Parquet."""
