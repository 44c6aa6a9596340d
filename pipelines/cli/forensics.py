"""`brokerscope forensics`."""


def forensics() -> None:
    """x"""
