"""The sections of the report, one module each: a function from a study to a section."""
