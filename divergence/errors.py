"""The one exception that means "the user can mend this"."""


class InputError(Exception):
    """Bad input: one line that names the file or field, the rule, the value and the remedy.

    Commands print it as it is and exit with 2. Anything else that escapes is a bug of ours.
    """


def one_line(error: BaseException) -> str:
    """An exception's message as one line, or its name where it has none."""
    return " ".join(str(error).split()) or type(error).__name__
