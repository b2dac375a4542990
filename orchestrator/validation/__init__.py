"""From YAML to validated, frozen config objects. Every mistake is one line."""
