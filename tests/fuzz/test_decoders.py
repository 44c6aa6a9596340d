"""Every decoder that takes bytes, given any: it answers, or refuses with the error that its docstring names."""

import itertools
import json
import random
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors import kafka as kafka_protocol
from dissectors.capture.reader import Reader
from dissectors.errors import InputError
from dissectors.forensics import packet_checksums
from dissectors.iggy import batches as iggy_batches
from dissectors.iggy import decode as iggy_decode
from dissectors.iggy import frames as iggy_frames
from dissectors.iggy import layouts, recognise, tables
from dissectors.iggy import verify as iggy_verify
from dissectors.iggy.era import Era
from dissectors.iggy.field_types import READERS, MalformedBodyError
from dissectors.kafka import batches, envelope, full, internal, messages, nested, schema
from dissectors.kafka.messages import KafkaRecord
from dissectors.kafka.plan import message_words
from dissectors.kafka.walk import walker
from dissectors.limits import Limits
from dissectors.pulsar import PROTOCOL as PULSAR
from dissectors.pulsar import api, bodies
from dissectors.pulsar import batches as pulsar_batches
from dissectors.pulsar import decode as pulsar_decode
from dissectors.session.frame import Frame
from dissectors.tls import KeyLog, hello
from dissectors.wire import codec_sums, codecs, protobuf, varint
from dissectors.wire.reader import VarintError
from tests.fuzz import cases
from tests.fuzz.seeds import frames, seeds
from tests.fuzz.values import disturb

LIMIT = 1 << 20
BODIES = [name for name in schema.messages() if schema.message(name).kind != "header"]


class Target(NamedTuple):
    """A decoder, and the errors that it may raise."""

    decode: Callable[[bytes], Any]
    refusals: tuple[type[Exception], ...] = ()
    feed: str = ""  # the protocol whose frames are good to begin with


def _frame(data: bytes) -> Frame:
    return Frame(0, data, 0, len(data), len(data), len(data), 0, 1, 0, 0, 1)


def _chosen(names: list[Any], data: bytes) -> Any:
    """One of many, by the bytes themselves, so that a failure is found again."""
    return names[sum(data[:3]) % len(names)]


def _kafka_body(decode: Callable[..., Any]) -> Callable[[bytes], Any]:
    def run(data: bytes) -> Any:
        name = _chosen([name for name in BODIES if name.endswith(("Request", "Response"))], data)
        version = _chosen(list(schema.message(name).versions.each()) or [0], data[1:])
        return decode(name, version, data, min(3, len(data)), len(data))

    return run


def _noted(name: str, version: int, data: bytes, start: int, end: int) -> None:
    notes = walker().note(message_words(name, version), data, start, end)
    for kind in ("topics", "names", "sets", "faults", "pairs", "forgotten", "values"):
        getattr(notes, kind)()
    for each in notes.sets():
        assert start <= each.start <= end
        assert each.size > 0


def _full(data: bytes) -> None:
    name = _chosen(BODIES, data)
    for version in list(schema.message(name).versions.each())[-2:]:
        body = full.full(name, version, data, min(3, len(data)), len(data)).body
        body.pop(nested.INNER, None)
        json.dumps(body, allow_nan=False, default=repr)


def _record_set(data: bytes) -> None:
    known, lenient = max(0, len(data) - sum(data[:3]) % 60), bool(sum(data[:4]) % 2)
    for unit in batches.units(data, 0, len(data), known, LIMIT, lenient=lenient):
        if unit.whole:
            with suppress(codecs.CodecError, messages.RecordError):
                list(messages.entries(unit, batches.records_of(data, unit, LIMIT)))


def _own_records(data: bytes) -> None:
    entries = [KafkaRecord(0, 0, 0, data[:cut], data[cut:], (), 0) for cut in (0, 4, 9)]
    for topic in (*internal.TOPICS, None):
        internal.decoded(topic, False, entries)
        internal.decoded(topic, True, entries)
    internal.topic_names(entries)


def _pulsar_entry(data: bytes) -> None:
    found = pulsar_batches.entry_of(_frame(data), 0, LIMIT)
    if found.has_meta:
        payload = pulsar_batches.unpacked(found.meta, data[found.payload :], LIMIT)
        list(pulsar_batches.singles(found.meta, payload))


def _pulsar_bodies(data: bytes) -> None:
    name = _chosen(sorted(api.DESCRIPTOR.message_types_by_name), data)
    json.dumps(bodies.to_dict(getattr(api, name).FromString(data), payloads=True), default=repr)


def _pulsar_command(data: bytes) -> None:
    if len(data) >= 10:
        pulsar_decode.command_of(_frame(data), LIMIT)


def _iggy_body(data: bytes) -> None:
    for side in (layouts.REQUEST, layouts.RESPONSE):
        found = iggy_decode.body(side, _chosen(list(tables.commands()), data), Era(), data, 0, len(data), len(data))
        json.dumps(found.values, allow_nan=False, default=repr)


def _iggy_fields(data: bytes) -> None:
    for read in READERS.values():
        with suppress(MalformedBodyError):
            value, after = read(data, 0, len(data))
            assert after <= len(data)
            json.dumps(value, allow_nan=False)


def _iggy_run(data: bytes) -> None:
    announced = -1, 1, sum(data[:4]) << 22  # messages; -1: it is not said how many
    for form, count in itertools.product(iggy_batches.FORMATS, announced):
        run = iggy_batches.read(form, data, 0, len(data), len(data), count)
        assert len(run.messages) <= len(data)
        assert not run.misfit.found or run.misfit.text()
        for unit in run.units:
            iggy_verify.verify(run, unit, data, len(data))


def _iggy_frames(data: bytes) -> None:
    for direction in (0, 1):
        iggy_frames.detect(direction, data, 0, len(data), LIMIT)
        iggy_frames.measure_legacy(direction, data, 0, len(data), LIMIT)
        iggy_frames.measure_vsr(data, 0, len(data), LIMIT)


def _protobuf_fields(data: bytes) -> None:
    for field in protobuf.fields(data, 0, len(data)):
        assert field.end <= len(data)


def _envelope(data: bytes) -> None:
    body: dict[str, Any] = {nested.REQUEST: {}, nested.RESPONSE: {}, nested.INNER: data}
    opened = envelope.open_request(body)
    body[nested.INNER] = data
    envelope.open_response(body, opened or {})


def _capture(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "capture")
        path.write_bytes(data)
        for _ in Reader(str(path), 0, Limits()).blocks():
            pass


def _decompressed(codec: str, data: bytes) -> bytes:
    return codecs.decompress(codec, data, limit=LIMIT, size=999 if codec == "lz4-block" else None)


def _hellos(data: bytes) -> None:
    for read in (hello.client_hello, hello.server_hello, hello.encrypted_extensions, hello.session_ticket):
        with suppress(ValueError):
            read(data)


def _packet_sums(data: bytes) -> None:
    where = packet_checksums.layout(data, min(54, len(data)), max(0, len(data) - 54), 40000, 9092)
    packet_checksums.judge(data, where)


TARGETS: dict[str, Target] = {
    "kafka bodies in full": Target(_full, feed="kafka"),
    "kafka bodies noted": Target(_kafka_body(_noted), feed="kafka"),
    "kafka bodies checked": Target(
        _kafka_body(lambda name, version, *at: walker().makes_sense(message_words(name, version), *at)), feed="kafka"
    ),
    "kafka record sets": Target(_record_set, (batches.BatchError,), "kafka"),
    "kafka's own records": Target(_own_records, feed="kafka"),
    "kafka envelopes": Target(_envelope, feed="kafka"),
    "kafka recognised": Target(lambda data: kafka_protocol.PROTOCOL.recognise(data, data[9:]), feed="kafka"),
    "pulsar commands": Target(_pulsar_command, feed="pulsar"),
    "pulsar bodies": Target(_pulsar_bodies, (DecodeError,), "pulsar"),
    "pulsar entries": Target(_pulsar_entry, (pulsar_batches.MalformedEntryError, codecs.CodecError), "pulsar"),
    "pulsar recognised": Target(lambda data: PULSAR.recognise(data, data[9:]), feed="pulsar"),
    "iggy bodies": Target(_iggy_body, feed="iggy"),
    "iggy fields": Target(_iggy_fields, feed="iggy"),
    "iggy messages": Target(_iggy_run, feed="iggy"),
    "iggy frames": Target(_iggy_frames, feed="iggy"),
    "iggy recognised": Target(lambda data: recognise.recognise(data, data[9:]), feed="iggy"),
    "protobuf fields": Target(_protobuf_fields, feed="pulsar"),
    "varints": Target(lambda data: (varint.unsigned(data, 0), varint.zigzag(data, 0)), (IndexError, VarintError)),
    "captures": Target(_capture, (InputError,), "capture"),
    "tls hellos": Target(_hellos, feed="tls"),
    "key logs": Target(KeyLog.load),
    "packet checksums": Target(_packet_sums, feed="packet"),
    **{
        f"{codec} decompressed": Target(partial(_decompressed, codec), (codecs.CodecError,))
        for codec in ("gzip", "zlib", "snappy", "lz4", "lz4-block", "zstd")
    },
    **{
        f"sums of {codec}": Target(partial(codec_sums.sums, codec, limit=LIMIT))
        for codec in ("gzip", "snappy", "lz4", "zstd")
    },
}


@cache
def good(feed: str) -> tuple[bytes, ...]:
    """Bytes that a decoder knows, to be disturbed."""
    if feed == "capture":
        return tuple(cases.make(1, number).data[:4000] for number in range(20))
    if feed == "packet":
        return tuple(packet.data for seed in seeds() for packet in seed.packets[:9])
    if feed == "tls":
        return tuple(
            frame.data[9:] for seed in seeds() if "tls" in seed.path.name for frame in frames(seed.path, "tls")[:40]
        )
    found = [seed for seed in seeds() if seed.protocol == feed and "tls" not in seed.path.name][:6]
    cut = {"kafka": 4, "pulsar": 0, "iggy": 8}.get(feed, 0)
    return tuple(frame.data[cut:3000] for seed in found for frame in frames(seed.path, feed)[:60])


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=80)
@given(data=st.data())
def test_any_bytes_are_decoded_or_refused(name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    known = good(target.feed) if target.feed else ()
    if data.draw(st.booleans()) and known:
        given_bytes = known[data.draw(st.integers(0, len(known) - 1))]
        given_bytes = disturb(random.Random(data.draw(st.integers(0, 1 << 32))), given_bytes)
    else:
        given_bytes = data.draw(st.binary(max_size=200))
    with suppress(*target.refusals):
        target.decode(given_bytes)
