"""The commands, one module each; the command line puts them together."""
