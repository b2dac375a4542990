"""The exception that means "the user can fix this"."""


class InputError(Exception):
    """Bad input: one line that names the file or field, the rule, the value and the remedy.

    Commands print the line and exit with 2. Any other exception that reaches the user is a bug.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback, which would hide the line."""
        return [f"{type(self).__name__}: {self}"]


def one_line(error: BaseException) -> str:
    """An exception's message as one line, or its name where it has none."""
    return " ".join(str(error).split()) or type(error).__name__
