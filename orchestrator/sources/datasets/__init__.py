"""Public click logs: fetched or found, and converted to one Parquet file in time order."""
