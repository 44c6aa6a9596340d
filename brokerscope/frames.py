"""`brokerscope.decode`: one frame from its bytes."""

from __future__ import annotations

from typing import Literal

from brokerscope.rows import AnswerRow
from pipelines.answers.single_frame import Side, decoded


def decode(
    raw: bytes,
    protocol: Literal["kafka", "pulsar", "iggy"] | str,
    *,
    side: Side | None = None,
    key: int | str | None = None,
    version: int | None = None,
) -> AnswerRow:
    """What one frame says: side, size, api, api_code, version, correlation_id …, body, problems.

    raw: one whole frame; of Kafka also without its four bytes of size. side: `request` or `response`; a request, unless
    key is given. key, version: the API, by number or name, that a response of Kafka (both) or Iggy (key) answers; these
    do not say it themselves.

        brokerscope.decode(raw, "kafka", key=0, version=13).body.throttleTimeMs

    Raises UsageError for bytes that are no such frame.
    """
    return AnswerRow(decoded(bytes(raw), protocol, side=side, api=key, version=version))
