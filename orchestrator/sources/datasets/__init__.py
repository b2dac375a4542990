"""Public click logs, downloaded or given, each converted to one Parquet file in time order."""
