"""How predictable the clicks of public logs are."""

PUBLIC_LOGS = {"Taobao": 0.03, "Avazu": 0.18, "Criteo": 0.23}
"""How far the log-loss of a well-trained model lies below that of a constant CTR. From the BARS
benchmark (openbenchmark.github.io/BARS): Avazu 0.3717 at a CTR of 17.0%, Criteo 0.4380 at 25.6%,
Taobao 0.1945 at about 5% (2% to 4%: the CTR of its last day, on which models are tested, is not
given)."""


def public_logs() -> str:
    """The logs and their numbers, for a message."""
    return ", ".join(f"{name} {gain:.0%}" for name, gain in PUBLIC_LOGS.items())
