"""The sections of the report, a module each: a function from a study to a section."""
