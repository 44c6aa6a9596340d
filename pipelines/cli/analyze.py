"""`brokerscope analyze`."""


def analyze() -> None:
    """x"""
