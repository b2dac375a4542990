"""Models in forms that other systems read: plain Parquet, and documents for Vespa."""
