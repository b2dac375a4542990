"""What tests share: builders of configs, records and runs, and stand-ins for the world outside."""
