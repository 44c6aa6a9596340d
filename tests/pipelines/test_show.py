"""`show`: what lies in the batches of an exchange, and where."""

import pytest

from tests.commands import SAMPLES, run


def show(*arguments: str) -> str:
    return run("show", *arguments)


def test_a_batch_is_shown_with_its_format_codec_stored_checksum_and_place() -> None:
    text = show(f"{SAMPLES}/kafka-transactions.pcap:95")
    assert "pay-tx[1] 0: crc32c ok, 7 records, 212 B" in text
    assert "magic 2; codec none, 151 B unpacked; checksum stored 0x24abcba8; begins in packet 95 at byte 273" in text
    assert "15 messages" not in text


def test_messages_are_shown_on_request_and_their_values_only_when_asked_for() -> None:
    text = show(f"{SAMPLES}/kafka-transactions.pcap:95", "--messages")
    assert "15 messages" in text
    assert "pay-tx[1] 0: 2026-11-21 01:09:47.794000 UTC, key 4 B, value 10 B" in text
    assert "commit 0 1" not in text
    assert "commit 0 1" in show(f"{SAMPLES}/kafka-transactions.pcap:95", "--payloads")


@pytest.mark.parametrize("place", ["pulsar-subscriptions.pcap:60", "iggy-messages.pcap:40"])
def test_every_protocol_shows_its_messages(place: str) -> None:
    assert "message" in show(f"{SAMPLES}/{place}", "--messages")
    assert "correlation id None" not in show(f"{SAMPLES}/{place}")
