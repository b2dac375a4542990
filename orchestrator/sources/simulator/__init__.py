"""A native-ad marketplace that never stands still, with known truth."""
