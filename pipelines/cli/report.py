"""`brokerscope report`."""


def report() -> None:
    """x"""
