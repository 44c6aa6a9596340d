"""Every record table, defined once: its columns, their types, units and meaning.

A table is declared as a NamedTuple. Its fields are what decoders write, as plain Python values; `dissectors.rows` says
how rows are kept until they are Arrow's. Three kinds of field stand for more than one column, or for another unit:

    Conn   the connection; expands to the columns of CONNECTION_COLUMNS
    PacketRef  a packet as one int, `file index << PACKET_SHIFT | packet number`; becomes a `file` and a `packet` column
           (the field `request_packet_ref` becomes `request_file` and `request_packet`)
    Time   int, nanoseconds since the epoch; becomes timestamp[us, UTC]

Durations are int64 nanoseconds from the capture's own clock; sizes are bytes. Packet numbers count from 1 within
their file, as in Wireshark. A column is null where the value is not known.
"""

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple

import pyarrow as pa

from dissectors.annotated import Annotated

PACKET_SHIFT = 40  # a file holds fewer than 2**40 packets
PACKET_MASK = (1 << PACKET_SHIFT) - 1


class Conn:
    """What every row of a connection shares; one object a connection and incarnation."""

    __slots__ = (
        "client_ip",
        "client_port",
        "_id",
        "connection",
        "incarnation",
        "protocol",
        "server_ip",
        "server_port",
        "site",
    )

    def __init__(
        self,
        site: str,
        client_ip: str,
        client_port: int,
        server_ip: str,
        server_port: int,
        incarnation: int = 0,
        protocol: str | None = None,
    ) -> None:
        self.site = site
        self.protocol = protocol
        self.connection = f"{endpoint(client_ip, client_port)}>{endpoint(server_ip, server_port)}"
        self.incarnation = incarnation
        self.client_ip = client_ip
        self.client_port = client_port
        self.server_ip = server_ip
        self.server_port = server_port
        self._id: str | None = None

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits that name the connection, the same at every capture point."""
        if self._id is None:
            self._id = blake2b(f"{self.connection} {self.incarnation}".encode(), digest_size=8).hexdigest()
        return self._id


def endpoint(ip: str, port: int) -> str:
    """`10.0.0.1:9092`, `[::1]:9092`."""
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


# --- what a field's annotation may say -------------------------------------------------------------------------------


class Arrow(NamedTuple):
    """The column's Arrow type. `kind` separates fields that are more than a value from those that are one."""

    type: pa.DataType
    kind: str = ""  # "", "packet_ref", "time" or one of LOOSE_KINDS


class Unit(NamedTuple):
    """What the number counts."""

    name: str


class Only(NamedTuple):
    """The column exists only where this option is set: "full" or "payloads"."""

    option: str


Text = Annotated[str | None, Arrow(pa.string())]
Texts = Annotated[Sequence[str] | None, Arrow(pa.list_(pa.string()))]
Int32 = Annotated[int | None, Arrow(pa.int32())]
Int64 = Annotated[int | None, Arrow(pa.int64())]
Bool = Annotated[bool | None, Arrow(pa.bool_())]
Time = Annotated[int | None, Arrow(pa.timestamp("us", "UTC"), "time")]
PacketRef = Annotated[int | None, Arrow(pa.string(), "packet_ref")]
Loose = Annotated[str | None, Arrow(pa.string(), "decimal")]
LooseBinary = Annotated[bytes | None, Arrow(pa.binary(), "decimal")]
Checksum = Annotated[str | None, Arrow(pa.string(), "checksum")]
ExchangeId = Annotated[str | None, Arrow(pa.string(), "exchange_id")]

LOOSE_KINDS = ("decimal", "checksum", "exchange_id")
"""Kinds of texts that hardly come again. A row may hold a number from 0 on instead: a decimal number below PAIR or two
that `pair` made, a checksum of 32 bits, or `stream offset << 1 | 1 if the server sent it` of the frame that begins an
exchange.
"""
PAIR, HALF_BITS, HALF = 1 << 62, 31, (1 << 31) - 1
"""From PAIR on a decimal number stands for two, of HALF_BITS bits each, which are shown with a colon between them."""

# --- the tables ------------------------------------------------------------------------------------------------------


class Exchange(NamedTuple):
    """One request and its response, or half of one."""

    conn: Annotated[Conn, "the connection"]
    dialect: Annotated[Text, "the wire dialect: pulsar-v21, iggy-0.4 …; null for kafka"] = None
    kind: Annotated[
        Text,
        "call, unanswered, oneway (no answer by protocol), push (by the server), orphan (its request was not captured)",
    ] = None
    api: Annotated[Text, "the protocol's own name: Produce, SEND, POLL_MESSAGES"] = None
    api_code: Annotated[Int32, "its number on the wire"] = None
    version: Annotated[Int32, "version of the api, where the protocol has one"] = None
    correlation_id: Annotated[
        Int64, "what ties request and response: Kafka correlation id, Pulsar request or sequence id, Iggy request id"
    ] = None
    client_id: Annotated[Text, "what the client calls itself"] = None
    time: Annotated[Time, "first byte of the request; of the frame where there is no request"] = None
    request_ns: Annotated[Int64, "first byte of the request to when all of it had come", Unit("ns")] = None
    wait_ns: Annotated[Int64, "whole request to first byte of the response", Unit("ns")] = None
    response_ns: Annotated[Int64, "first byte of the response to when all of it had come", Unit("ns")] = None
    total_ns: Annotated[Int64, "first byte of the request to when all of the response had come", Unit("ns")] = None
    request_bytes: Annotated[Int64, "the whole frame", Unit("bytes")] = None
    response_bytes: Annotated[Int64, "the whole frame", Unit("bytes")] = None
    status: Annotated[Text, "ok, error or unknown"] = None
    error_code: Annotated[Int32, "the first error in the answer"] = None
    error_name: Annotated[Text, "its name"] = None
    error_count: Annotated[Int32, "how many errors the answer holds"] = None
    topics: Annotated[Texts, "the topics named in it, in order of appearance"] = None
    partitions: Annotated[Int32, "how many partitions it names"] = None
    records: Annotated[Int64, "messages carried, as the application counts them"] = None
    payload_bytes: Annotated[Int64, "bytes of message data carried, as on the wire", Unit("bytes")] = None
    long_poll: Annotated[Bool, "the answer was empty or late because the request allowed the broker to wait"] = None
    throttle_ms: Annotated[Int64, "throttle time in the answer", Unit("ms")] = None
    retransmitted: Annotated[
        Bool, "a byte of the request or the answer was sent more than once before the answer was whole"
    ] = None
    complete: Annotated[Bool, "every byte of both frames was there"] = None
    request_packet_ref: Annotated[PacketRef, "where the request's first byte is"] = None
    response_packet_ref: Annotated[PacketRef, "where the response's first byte is"] = None
    request: Annotated[Loose, "decoded request, as JSON", Only("full")] = None
    response: Annotated[Loose, "decoded response, push or orphan, as JSON", Only("full")] = None
    group: Annotated[Text, "consumer or share group (kafka), subscription (pulsar), consumer group (iggy)"] = None
    exchange_id: Annotated[
        ExchangeId,
        "the same however the capture is cut, and at every capture point; batches, errors and messages carry it",
    ] = None
    queued_ns: Annotated[
        Int64,
        "how long the whole request waited for the answers before it on its connection; 0 for pulsar, where the "
        "requests of one connection are served side by side",
        Unit("ns"),
    ] = None
    initiator: Annotated[
        Text, "client or server: who asked, or sent what needs no answer; a PING of a broker is the server's"
    ] = None
    permits: Annotated[Int64, "messages that a FLOW lets the broker send to the consumer (pulsar)"] = None
    permits_left: Annotated[
        Int64,
        "messages that the broker may still send to the consumer after this FLOW or MESSAGE (pulsar); below 0 it has "
        "sent more; null where permits were granted before the capture or in a gap",
    ] = None
    answer: Annotated[
        Text,
        "whole; cut: it began and never ended, for a peer closed or reset the connection; late: its receiver had "
        "closed before all of it came, and never acknowledged it, or had reset the connection; none: a peer closed the "
        "connection before it came; null for what has no answer, and where holes or the end of the capture leave it "
        "open",
    ] = None
    allowed_ns: Annotated[
        Int64,
        "how long the request let the broker wait for data: the maximum wait of a Fetch or ShareFetch (kafka)",
        Unit("ns"),
    ] = None
    acks: Annotated[
        Int32, "of a Produce: who must have the records before it is answered: 0 nobody, 1 the leader, -1 all in sync"
    ] = None


class Batch(NamedTuple):
    """One checksummed unit of message data."""

    conn: Annotated[Conn, "the connection"]
    role: Annotated[Text, "produce, consume or replicate"] = None
    topic: Annotated[Text, "topic name; Pulsar's without -partition-N, Iggy's as stream/topic"] = None
    partition: Annotated[Int32, "partition number"] = None
    base_offset: Annotated[Int64, "first offset (kafka, iggy)"] = None
    last_offset: Annotated[Int64, "last offset (kafka, iggy)"] = None
    position: Annotated[Loose, "offset, or ledger:entry"] = None
    records: Annotated[Int64, "messages, as the application counts them"] = None
    codec: Annotated[Text, "none, gzip, snappy, lz4, zstd, zlib"] = None
    stored_bytes: Annotated[Int64, "size on the wire", Unit("bytes")] = None
    keyed: Annotated[
        Bool, "its first record has a key (kafka); null where it is compressed or of an old format, or not known"
    ] = None
    uncompressed_bytes: Annotated[
        Int64, "size of the records once decompressed; null where they were not decompressed", Unit("bytes")
    ] = None
    format: Annotated[Text, "magic 0, 1, 2 (kafka), entry (pulsar), the message layout (iggy)"] = None
    producer: Annotated[Text, "producer id (kafka) or producer name (pulsar)"] = None
    producer_epoch: Annotated[Int32, "producer epoch"] = None
    base_sequence: Annotated[Int64, "first sequence number"] = None
    transactional: Annotated[Bool, "part of a transaction"] = None
    control: Annotated[Bool, "a control batch or marker, not user data"] = None
    first_timestamp: Annotated[Time, "the first message's timestamp"] = None
    max_timestamp: Annotated[Time, "the latest timestamp"] = None
    checksum_kind: Annotated[Text, "crc32, crc32c, xxh3-64 or none"] = None
    checksum_stored: Annotated[Checksum, "as on the wire, hexadecimal"] = None
    checksum_computed: Annotated[Checksum, "over the bytes captured, hexadecimal"] = None
    verdict: Annotated[Text, "ok, bad, unverifiable (bytes are missing) or absent (none on the wire)"] = None
    outcome: Annotated[
        Text, "ok, error or unknown: what the answer said of a produced batch; ok for a consumed one"
    ] = None
    dialect: Annotated[Text, "the wire dialect"] = None
    client_id: Annotated[Text, "what the client calls itself"] = None
    correlation_id: Annotated[Int64, "of the exchange that carried it"] = None
    api: Annotated[Text, "of the exchange that carried it"] = None
    time: Annotated[Time, "first byte of the batch"] = None
    packet_ref: Annotated[PacketRef, "where its first byte is"] = None
    stream_offset: Annotated[Int64, "of its first byte, in its direction of the connection", Unit("bytes")] = None
    group: Annotated[Text, "consumer or share group (kafka), subscription (pulsar), consumer group (iggy)"] = None
    exchange_id: Annotated[ExchangeId, "of the exchange that carried it"] = None
    broker_timestamp: Annotated[Time, "when the broker received it, as the broker's metadata say (pulsar)"] = None
    broker_index: Annotated[
        Int64, "number of its last message in the partition, as the broker's metadata say (pulsar)"
    ] = None
    origin_timestamp: Annotated[
        Time, "when its client made its first message, as it is sent and polled alike (iggy, from 0.5 on)"
    ] = None
    deliver_at: Annotated[Time, "before which consumers that share a subscription do not get it (pulsar)"] = None


class Error(NamedTuple):
    """One error code in an answer."""

    conn: Annotated[Conn, "the connection"]
    api: Annotated[Text, "of the exchange"] = None
    version: Annotated[Int32, "version of the api"] = None
    scope: Annotated[Text, "what failed: request, topic, partition, group, member …"] = None
    topic: Annotated[Text, "the topic it is about; of Iggy the stream alone, where no topic was asked for"] = None
    partition: Annotated[Int32, "the partition it is about"] = None
    code: Annotated[Int32, "number on the wire"] = None
    name: Annotated[Text, "the protocol's name for it"] = None
    retriable: Annotated[Bool, "whether the protocol calls it retriable"] = None
    message: Annotated[Loose, "text that came with it"] = None
    client_id: Annotated[Text, "what the client calls itself"] = None
    correlation_id: Annotated[Int64, "of the exchange"] = None
    time: Annotated[Time, "first byte of the answer"] = None
    packet_ref: Annotated[PacketRef, "where the answer's first byte is"] = None
    expected: Annotated[Bool, "part of normal work: MEMBER_ID_REQUIRED at a first join"] = None
    exchange_id: Annotated[ExchangeId, "of the exchange"] = None


class Connection(NamedTuple):
    """One TCP connection, and what TCP did."""

    conn: Annotated[Conn, "the connection"]
    dialect: Annotated[Text, "the wire dialect"] = None
    client_software: Annotated[Text, "what the client says it is"] = None
    client_version: Annotated[Text, "and its version"] = None
    server_version: Annotated[Text, "what the server says it is"] = None
    tls: Annotated[Bool, "the stream is TLS"] = None
    tls_version: Annotated[Text, "TLS 1.2, TLS 1.3"] = None
    sni: Annotated[Text, "server name asked for"] = None
    via: Annotated[Text, "encapsulation: vlan, vxlan, gre …; null for none"] = None
    start_time: Annotated[Time, "first packet"] = None
    end_time: Annotated[Time, "last packet"] = None
    duration_ns: Annotated[Int64, "first to last packet", Unit("ns")] = None
    handshake: Annotated[Text, "full, partial or none: how much of the three-way handshake was captured"] = None
    rtt_ns: Annotated[Int64, "SYN to the ACK that completes the handshake", Unit("ns")] = None
    client_packets: Annotated[Int64, "packets from the client"] = None
    server_packets: Annotated[Int64, "packets from the server"] = None
    client_bytes: Annotated[Int64, "captured stream bytes from the client, each counted once", Unit("bytes")] = None
    server_bytes: Annotated[Int64, "captured stream bytes from the server, each counted once", Unit("bytes")] = None
    retransmissions: Annotated[Int64, "segments that repeat bytes sent before"] = None
    retransmitted_bytes: Annotated[Int64, "their bytes", Unit("bytes")] = None
    duplicates: Annotated[Int64, "packets captured twice (not retransmissions)"] = None
    out_of_order: Annotated[Int64, "segments that came later than bytes after them"] = None
    gaps: Annotated[Int64, "holes: bytes that were sent and in no packet of the capture"] = None
    gap_bytes: Annotated[Int64, "their bytes", Unit("bytes")] = None
    zero_windows: Annotated[Int64, "packets that announce a window of zero"] = None
    keep_alives: Annotated[Int64, "keep-alive and window probes"] = None
    closed: Annotated[Text, "fin (of both sides, whatever followed), reset or open"] = None
    frames: Annotated[Int64, "protocol frames"] = None
    framed_bytes: Annotated[Int64, "captured bytes in frames, and in what stands before them", Unit("bytes")] = None
    skipped_bytes: Annotated[Int64, "captured bytes that fit no frame", Unit("bytes")] = None
    pending_bytes: Annotated[Int64, "captured bytes of a frame that never ended", Unit("bytes")] = None
    packet_ref: Annotated[PacketRef, "the first packet"] = None
    client_seq: Annotated[
        Int64, "TCP sequence number of the client's first stream byte: with server_seq, known at any capture point"
    ] = None
    server_seq: Annotated[Int64, "TCP sequence number of the server's first stream byte"] = None
    cut_bytes: Annotated[
        Int64, "stream bytes that packets carried and the capture did not keep: cut by a snap length", Unit("bytes")
    ] = None
    closed_by: Annotated[
        Text, "who sent the first FIN or RST: client, server, or both where each sent one before it saw the other's"
    ] = None
    preamble: Annotated[
        Text, "what stands before the protocol on the connection: proxy-v1, proxy-v2, socks5, http-connect"
    ] = None
    origin: Annotated[
        Text, "the address that the preamble names: of the client before the proxy, or of the tunnel's target"
    ] = None
    foreign: Annotated[Text, "what a peer speaks that is none of the protocols: tls, tls-alert, http"] = None
    segment: Annotated[Text, "VLANs or VNIs of its packets, where the same addresses live in several"] = None
    tls_handshake_ns: Annotated[
        Int64,
        "first byte of the ClientHello to last byte of what ends the handshake: in TLS 1.3 the client's first "
        "encrypted record behind the hellos, in TLS 1.2 the later Finished; null where it did not end, a packet of it "
        "is missing, or the client sent early data",
        Unit("ns"),
    ] = None
    tls_resumed: Annotated[
        Bool,
        "the TLS handshake went on with an earlier session: the server accepted a pre-shared key (1.3) or left out its "
        "certificate (1.2); null where this was not captured",
    ] = None
    spurious: Annotated[
        Int64, "retransmissions that were needless, as D-SACK or timestamps of the other side prove"
    ] = None
    reset_by: Annotated[Text, "who sent a TCP reset: client, server or both"] = None
    tls_alert: Annotated[
        Text,
        "the first TLS alert in clear: who sent it, its level and description as RFC 8446 names them, such as `client: "
        "fatal certificate_expired`; null where there is none, or it is encrypted, as in TLS 1.3 behind the hellos",
    ] = None
    client_undelivered_bytes: Annotated[
        Int64,
        "stream bytes that the client sent and TCP's other side never acknowledged, though they were sent again, the "
        "connection was reset, or half a second passed; null where the other direction was not captured",
        Unit("bytes"),
    ] = None
    server_undelivered_bytes: Annotated[Int64, "likewise, of the server", Unit("bytes")] = None


class Finding(NamedTuple):
    """What a person should look at."""

    conn: Annotated[Conn | None, "the connection; null for a finding about a file"]
    kind: Annotated[
        Text, "checksum_mismatch, malformed_frame, unknown_api, gap, resync, truncated_file, decompress_failed …"
    ] = None
    severity: Annotated[Text, "info, warning or error"] = None
    direction: Annotated[Text, "client or server: who sent the bytes"] = None
    message: Annotated[Loose, "one sentence"] = None
    time: Annotated[Time, "of the first byte concerned"] = None
    packet_ref: Annotated[PacketRef, "where it is"] = None
    stream_offset: Annotated[Int64, "of the first byte concerned", Unit("bytes")] = None
    length: Annotated[Int64, "bytes concerned", Unit("bytes")] = None
    evidence: Annotated[Loose, "details, as JSON"] = None


class Message(NamedTuple):
    """One message, as the application sees it."""

    conn: Annotated[Conn, "the connection"]
    role: Annotated[Text, "produce, consume or replicate"] = None
    topic: Annotated[Text, "topic name"] = None
    partition: Annotated[Int32, "partition number"] = None
    offset: Annotated[Int64, "offset (kafka, iggy)"] = None
    position: Annotated[Loose, "offset, or ledger:entry[:batch index]"] = None
    timestamp: Annotated[Time, "create or publish time"] = None
    event_time: Annotated[Time, "event time (pulsar), origin time (iggy), log-append time (kafka)"] = None
    sequence: Annotated[Int64, "producer sequence number"] = None
    producer: Annotated[Text, "producer id (kafka) or producer name (pulsar)"] = None
    message_id: Annotated[Loose, "message id (iggy), decimal text"] = None
    key_bytes: Annotated[
        Int64, "size of the key, null for no key; of iggy the key by which a send places its messages", Unit("bytes")
    ] = None
    value_bytes: Annotated[Int64, "size of the value; null for a null value", Unit("bytes")] = None
    header_count: Annotated[Int32, "headers or properties"] = None
    header_bytes: Annotated[Int64, "their size on the wire", Unit("bytes")] = None
    key: Annotated[LooseBinary, "the key", Only("payloads")] = None
    value: Annotated[LooseBinary, "the value", Only("payloads")] = None
    headers: Annotated[Loose, "headers or properties, as JSON", Only("payloads")] = None
    correlation_id: Annotated[Int64, "of the exchange that carried it"] = None
    api: Annotated[Text, "of the exchange that carried it"] = None
    time: Annotated[Time, "first byte of its batch in the capture"] = None
    packet_ref: Annotated[PacketRef, "where its batch's first byte is"] = None
    stream_offset: Annotated[Int64, "of its batch's first byte", Unit("bytes")] = None
    group: Annotated[Text, "consumer or share group (kafka), subscription (pulsar), consumer group (iggy)"] = None
    exchange_id: Annotated[ExchangeId, "of the exchange that carried it"] = None
    ordering_key: Annotated[LooseBinary, "the ordering key (pulsar)", Only("payloads")] = None
    broker_timestamp: Annotated[Time, "when the broker received it, as the broker's metadata say (pulsar)"] = None
    broker_index: Annotated[Int64, "its number in the partition, as the broker's metadata say (pulsar)"] = None
    state: Annotated[
        Text, "available, unavailable, poisoned or marked_for_deletion, in an answer to a poll (iggy to 0.4)"
    ] = None
    schema_version: Annotated[Int64, "version of its topic's schema that it was written by (pulsar)"] = None
    trace_id: Annotated[Text, "the trace in its header or property `traceparent`, 32 hexadecimal digits"] = None


class Position(NamedTuple):
    """Where a partition, a consumer group or a consumer stands, as one request or answer says it.

    `what` says what `value` counts:

        high_watermark  offset after the last message that consumers may read; pulsar: entry of the last message
        last_stable     offset before which no transaction is open (kafka), for readers of committed messages; of
                        fetches where one is open: else it is the high watermark
        log_start       offset of the first message that is kept (kafka); of fetches and produces where it is not 0
        fetch           offset from which a consumer or a replica fetches; first offset that a share group acquired
        committed       offset of the message that the group reads next; pulsar: entry that was acknowledged
        pending         likewise, in a transaction that has not ended (kafka)
        transaction     a transaction ended: 1 where it was committed, 0 where it was aborted (kafka)
        leader          who leads the partition, as the column `leader` says it
        permits         messages that a consumer allows the broker to send, beyond those before (pulsar)
        backlog         messages that the subscription has not acknowledged (pulsar)
    """

    conn: Annotated[Conn, "the connection"]
    topic: Annotated[Text, "topic name; null for a transaction, and for the metadata of a cluster (iggy)"] = None
    partition: Annotated[Int32, "partition number"] = None
    what: Annotated[
        Text,
        "what `value` says: high_watermark, last_stable, log_start, fetch, committed, pending, transaction, leader, "
        "permits or backlog",
    ] = None
    value: Annotated[
        Int64,
        "an offset: of high_watermark the one after the last message, of committed the one that is read next; pulsar: "
        "an entry of `ledger`; of permits and backlog, messages; of a transaction 1 if it was committed, else 0",
    ] = None
    ledger: Annotated[Int64, "ledger that the entry lies in (pulsar)"] = None
    leader: Annotated[
        Text, "who leads: broker id (kafka), URL of the broker (pulsar), number of the replica or address (iggy)"
    ] = None
    leader_epoch: Annotated[
        Int32, "epoch of the leader, view of the primary (iggy); of an offset, the epoch in which it was written"
    ] = None
    isr: Annotated[Texts, "replicas that are in sync with the leader (kafka)"] = None
    replica: Annotated[Int32, "broker that fetches as a replica (kafka)"] = None
    transaction: Annotated[Text, "transactional id of what is committed in a transaction (kafka)"] = None
    group: Annotated[Text, "consumer or share group (kafka), subscription (pulsar), consumer group (iggy)"] = None
    client_id: Annotated[Text, "what the client calls itself"] = None
    correlation_id: Annotated[Int64, "of the exchange"] = None
    api: Annotated[Text, "of the exchange"] = None
    time: Annotated[Time, "first byte of the request or answer that says it"] = None
    packet_ref: Annotated[PacketRef, "where its first byte is"] = None
    exchange_id: Annotated[ExchangeId, "of the exchange"] = None
    consumer: Annotated[Text, "name or number of a consumer that is in no group (iggy)"] = None
    replicas: Annotated[Texts, "brokers that hold the partition, in sync or not (kafka)"] = None


class Event(NamedTuple):
    """What one frame, or a request with its answer, says that no column of another table holds.

    `kind` says what happened, and what `subject`, `number` and `text` are:

        joined           a member is in its group; subject: member or consumer, text: type of the subscription (pulsar)
        active, standby  a consumer gets the messages of a failover subscription from now on, or another one (pulsar)
        named            a group has a number by which clients ask for it (iggy); number: the number
        left             it leaves; subject: member or consumer, text: its reason, where it gives one
        epoch            a member was told another epoch (kafka); subject: member, number: epoch, text: first, where it
                         is the first one on its connection
        status           a group does not work for a reason that is no error (kafka); text: its name and detail, null
                         where it works again
        delivered_again  messages of a share group that its member got, and that were delivered before (kafka);
                         number: messages
        released         messages of a share group that its member gave back (kafka); number: messages
        rejected         likewise, that it refused for good; number: messages
        transaction_began    a producer begins with a transactional id (kafka) or a transaction (pulsar); subject: its
                         id, number: ms after which the broker aborts what is open, text: producer id (kafka)
        transaction_joined   a topic or group becomes part of a transaction, of pulsar with each message; subject: its
                         id, number: producer id (kafka)
        transaction_ended    a producer ends one; subject: its id, number: producer id (kafka), text: commit or abort
        transaction_aborted  its producer gave it up; subject: id, number: producer id (kafka)
        created          a thing was made: `thing` says what (a topic, acl, user …), topic (of a stream too), partition,
                         group or subject which; number: error code, 0 where it was done; text: settings, key=value,
                         without secrets
        deleted          likewise, it was removed
        altered          likewise, it was changed; text: one setting as key=value (<default>: back to its default), or
                         in words what was done
        subscribed       a durable subscription is used; it is made where it was not there (pulsar); text: its type
        registered       a schema is used; it is made where it was not there (pulsar); number: as of `created`; text:
                         type and version
        described        what settings a thing has, as a broker said it (kafka); text: key=value, key=value …
        authenticated    who logged in on the connection; subject: name, where the login says one, of a certificate of
                         TLS its subject; number: error code, 0 where the broker took it, null of a certificate, which
                         no answer takes; text: mechanism, method or `TLS certificate`
        compacted        a topic keeps the last message of each key only, or a subscription reads it so; text: policy
        advertised       an address that a broker tells its clients; subject: host:port or URL, number: id of the broker
        redirected       a lookup is sent on (pulsar); text: URL of the broker to ask
        migrated         a topic is now served by another cluster (pulsar); text: URL of its broker
        closed_by_broker a broker closed a producer or consumer (pulsar); subject: its name, text: URL of the next
                         broker, where it names one
        proxied          a connection goes through a proxy (pulsar); subject: who opened it, client or proxy, text: URL
                         of the broker, or version of the proxy
        rule_broken      a peer broke a rule of the protocol (pulsar); subject: rule, text: how
        other_version    a server does not read what the client speaks (iggy); subject: what the client speaks, text:
                         what the server does
        overtaken        an answer came after that to a later request of its connection (kafka)
        misframed        a request is not as long as it announces (kafka); number: bytes that it has
        deduplicated     a broker dropped a message that it had already (pulsar); subject: name of the producer
        new_leader       an answer names the leader that a client should go to (kafka); subject: host:port, number: id
                         of the broker
        preferred_replica  an answer sends a consumer to another replica (kafka); number: id of its broker
        misfit           a message is not what its schema allows, where payloads are read; subject: the schema, number:
                         offset (kafka, iggy), text: where in it, and why
    """

    conn: Annotated[Conn, "the connection"]
    kind: Annotated[
        Text,
        "what happened: joined, left, epoch, created, deleted, altered, advertised, migrated …; each says what "
        "`subject`, `number` and `text` are",
    ] = None
    topic: Annotated[Text, "topic name"] = None
    partition: Annotated[Int32, "partition number"] = None
    group: Annotated[Text, "consumer or share group (kafka), subscription (pulsar), consumer group (iggy)"] = None
    subject: Annotated[Text, "what it is about beside these: a member, a transactional id, an address …"] = None
    number: Annotated[Int64, "the number that goes with it: an epoch, an error code, a count of messages …"] = None
    text: Annotated[Text, "the text that goes with it: a reason, a state, an address …"] = None
    thing: Annotated[Text, "what was created, deleted, altered or described: topic, acl, quota, user, offsets …"] = None
    client_id: Annotated[Text, "what the client calls itself"] = None
    direction: Annotated[Text, "client or server: who sent the frame that says it"] = None
    correlation_id: Annotated[Int64, "of the exchange"] = None
    api: Annotated[Text, "of the exchange"] = None
    time: Annotated[Time, "first byte of the frame that says it"] = None
    packet_ref: Annotated[PacketRef, "where its first byte is"] = None
    exchange_id: Annotated[ExchangeId, "of the exchange"] = None


class Stall(NamedTuple):
    """A time in which one side of a connection sent nothing new although more was to come, and why.

    Only what the packets of the capture point show: at the sender's, bytes that are lost are seen twice, at the
    receiver's, later ones come before them. Stalls of one direction do not overlap, but for `undelivered`, which holds
    the others that its bytes caused; those below 1 ms are left out.
    """

    conn: Annotated[Conn, "the connection"]
    kind: Annotated[
        Text,
        "resend_timeout: bytes were lost and sent again by a timer; fast_retransmit: sent again sooner, after three "
        "duplicate acknowledgements or by a loss probe; zero_window: the receiver's window was closed; delayed_ack: a "
        "piece waited for an acknowledgement that its receiver delayed (Nagle); undelivered: bytes were sent again and "
        "never acknowledged, from when they were sent first to the end of the connection or the capture",
    ] = None
    direction: Annotated[Text, "client or server: whose bytes were held back"] = None
    time: Annotated[
        Time, "when it begins: last new bytes before it, first bytes behind missing ones, or closing of the window"
    ] = None
    duration_ns: Annotated[Int64, "until the bytes came that were waited for", Unit("ns")] = None
    stream_offset: Annotated[Int64, "of these bytes, in their direction of the connection", Unit("bytes")] = None
    packet_ref: Annotated[PacketRef, "where these bytes are; of undelivered ones, where they were sent again first"] = (
        None
    )
    segment_bytes: Annotated[
        Int64, "payload of the segment that was waited for and sent again; null where none was", Unit("bytes")
    ] = None
    delivered_segment_bytes: Annotated[
        Int64,
        "largest payload of a segment of this direction that was acknowledged by then; smaller than segment_bytes "
        "where only large segments vanish (a capture at a sender with offload shows segments that are cut later)",
        Unit("bytes"),
    ] = None
    idle_ns: Annotated[
        Int64, "silence of both sides before the bytes were sent that were then in flight", Unit("ns")
    ] = None
    spurious: Annotated[
        Bool, "whether the bytes were sent again needlessly, as D-SACK or timestamps of the other side prove"
    ] = None


TABLES: dict[str, type[tuple[Any, ...]]] = {
    "exchanges": Exchange,
    "batches": Batch,
    "errors": Error,
    "connections": Connection,
    "findings": Finding,
    "messages": Message,
    "positions": Position,
    "stalls": Stall,
    "events": Event,
}
DEFAULT_TABLES = ("exchanges", "batches", "errors", "connections", "findings")
ORDER = {
    "exchanges": ("time", "request_packet_ref", "response_packet_ref", "correlation_id"),
    "batches": ("time", "packet_ref", "stream_offset", "base_offset"),
    "errors": ("time", "packet_ref", "correlation_id"),
    "connections": ("start_time", "packet_ref"),
    "findings": ("time", "packet_ref", "stream_offset"),
    "messages": ("time", "packet_ref", "stream_offset", "offset"),
    "positions": ("time", "packet_ref"),
    "stalls": ("time", "packet_ref", "stream_offset"),
    "events": ("time", "packet_ref"),
}
"""Fields that each table is ordered by. Rows that are equal in all of these stay as their connection reported them."""
JSON_COLUMNS = frozenset({"request", "response", "evidence", "headers"})  # their text is JSON


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: pa.DataType
    doc: str
    unit: str = ""
    only: str = ""
    repeats: bool = False  # whether its texts come again, so that a dictionary of them is smaller


class Field(NamedTuple):
    """One field of a table's NamedTuple, and the columns that it becomes."""

    name: str
    kind: str  # "", "conn", "packet_ref", "time" or one of LOOSE_KINDS
    only: str
    columns: tuple[Column, ...]
    is_flag: bool = False  # whether it holds truth values


NAMED_COLUMNS = ("topic", "topics", "dialect")
"""Columns whose texts may be names that are learned later: see `rows.late_names`."""
CODED = pa.dictionary(pa.int32(), pa.string())
CONNECTION_COLUMNS = (
    Column(
        "site", pa.string(), "the capture point: by default the folder of the file, less dates and hours", repeats=True
    ),
    Column("protocol", pa.string(), "kafka, pulsar or iggy; null where the stream is none of these", repeats=True),
    Column("connection", pa.string(), "`client ip:port>server ip:port`", repeats=True),
    Column("incarnation", pa.int32(), "0, 1 … when the same addresses and ports are used again"),
    Column("client_ip", pa.string(), "who opened the connection", repeats=True),
    Column("client_port", pa.int32(), "its TCP port"),
    Column("server_ip", pa.string(), "who accepted it", repeats=True),
    Column("server_port", pa.int32(), "its TCP port"),
)


def _field(name: str, hint: Any) -> Field:
    notes = hint.__metadata__
    doc = next(n for n in notes if isinstance(n, str))
    arrow = next((n for n in notes if isinstance(n, Arrow)), None)
    unit = next((n.name for n in notes if isinstance(n, Unit)), "")
    only = next((n.option for n in notes if isinstance(n, Only)), "")
    if arrow is None:
        return Field(name, "conn", only, CONNECTION_COLUMNS)
    if arrow.kind == "packet_ref":
        stem = name.removesuffix("packet_ref")
        file = Column(stem + "file", pa.string(), f"{doc}: file", repeats=True)
        packet = Column(stem + "packet", pa.int64(), f"{doc}: packet number in that file, from 1")
        return Field(name, "packet_ref", only, (file, packet))
    repeats = arrow.type == pa.string() and arrow.kind not in LOOSE_KINDS
    column = Column(name, arrow.type, doc, unit, only, repeats)
    return Field(name, arrow.kind, only, (column,), is_flag=arrow.type == pa.bool_())


@cache
def fields(table: str) -> tuple[Field, ...]:
    """The fields of a table, in order."""
    hints = TABLES[table].__annotations__
    return tuple(_field(name, hint) for name, hint in hints.items())


def columns(table: str, *, full: bool = False, payloads: bool = False) -> list[Column]:
    """The columns of a table, in order; `full` and `payloads` add theirs."""
    have = {"": True, "full": full, "payloads": payloads}
    return [column for field in fields(table) if have[field.only] for column in field.columns]


def ordered_by(table: str) -> tuple[str, ...]:
    """The columns that stand for the fields in ORDER; of a packet its number."""
    return tuple(name.replace("packet_ref", "packet") for name in ORDER[table])


@cache
def schema(table: str, *, full: bool = False, payloads: bool = False, coded: bool = False) -> pa.Schema:
    """The Arrow schema of a table. coded: see `Options.coded`."""
    known = columns(table, full=full, payloads=payloads)
    return pa.schema([(column.name, CODED if coded and column.repeats else column.type) for column in known])
