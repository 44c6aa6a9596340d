"""How long to wait for a server of Spark Connect: not as long as its client does, which is ten minutes for each call.

A server that has answered once is waited for as the client does, so a run survives a short break. One that has not is
no server, and a process that ends waits for none.
"""

from __future__ import annotations

import atexit
import re
import warnings
from typing import TYPE_CHECKING, Any

from dissectors.errors import BrokerscopeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_RETRIES = 4  # of the first call, after 50 ms and then four times as long each: some seconds
_clients: list[Any] = []  # of the sessions of this process


def check(session: SparkSession, remote: str) -> None:
    """Raise BrokerscopeError where no server answers. remote: sc://…, which the session is connected to."""
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client: Any = session.client
    if client in _clients:
        return
    _clients.append(client)
    atexit.register(give_up)  # runs before what the client does at exit, which are calls
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")  # the error says it
    usual = client.get_retry_policies()
    client.set_retry_policies([DefaultPolicy(max_retries=FIRST_RETRIES)])
    try:
        session.conf.get("spark.app.name", None)
    except PySparkException as error:
        raise BrokerscopeError(f"{remote}: no Spark Connect server answers ({_reason(error)})") from error
    client.set_retry_policies(usual)


def give_up() -> None:
    """From now on a call that fails is not repeated."""
    for client in _clients:
        client.set_retry_policies([])


def _reason(error: Exception) -> str:
    """What the client says of a server, in a line."""
    details = re.search(r'details = "(.*?)"', str(error))
    return details[1] if details else " ".join(str(error).split())
