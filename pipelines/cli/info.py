"""`brokerscope info`."""


def info() -> None:
    """x"""
