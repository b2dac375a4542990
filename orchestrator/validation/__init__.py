"""From YAML text to checked, frozen objects; each mistake is reported in one line."""
