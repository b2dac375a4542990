"""A report that stays current while its run goes on, as a page on this machine alone."""
