"""From YAML text to checked, frozen objects; every mistake is one line."""
