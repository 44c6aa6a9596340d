"""Every kind of finding: how severe it is, what it means, and what to do about it.

A finding that is not in KINDS cannot be reported. docs/findings.md, the lists of findings that forensics looks into,
and the advice on the report page are derived from this table.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from dissectors.records import Conn, Finding

INFO, WARNING, ERROR = "info", "warning", "error"
UNREADABLE, TRUNCATED = "unreadable_file", "truncated_file"  # kinds: what is wrong with a file as a whole
UNREAD_LINK = "unread_link_type"  # kind: packets of a file of which nothing is known
CAPTURES_GONE = "captures_gone"


class FindingKind(NamedTuple):
    """One kind of finding."""

    severity: str
    meaning: str  # one sentence: what was seen
    advice: str  # one sentence: what to do
    suspicious: bool = False  # bytes may be broken, or were not looked at: forensics lists it


KINDS: dict[str, FindingKind] = {
    # --- checksums and bytes ---
    "bad_checksum": FindingKind(
        ERROR,
        "A stored checksum differs from the one that the captured bytes give.",
        "Run `brokerscope forensics`: it says which bytes broke, and on which side of the capture point.",
    ),
    "malformed_frame": FindingKind(
        ERROR,
        "Bytes are not what the protocol's length, header or schema says.",
        "Look at the packet with `brokerscope show FILE:PACKET`; if many follow each other, the client may be newer "
        "than this release.",
        suspicious=True,
    ),
    "framing_lost": FindingKind(
        ERROR,
        "A request is shorter or longer than it announces: the broker reads what follows it at the wrong place.",
        "Update the client, or report the packet to its authors.",
        suspicious=True,
    ),
    "decompress_failed": FindingKind(
        ERROR,
        "Compressed records could not be decompressed.",
        "If their checksum is right, the sender compressed them wrongly; else see the bad checksum of the same batch.",
        suspicious=True,
    ),
    "discarded": FindingKind(
        ERROR,
        "A consumer reports that it discarded a damaged message.",
        "Compare the checksum of the same message in `batches`: if it is ok here, bytes broke after the capture point.",
    ),
    "batch_mismatch": FindingKind(
        WARNING,
        "What a batch holds is not what its header says: counts, lengths, or bytes that are no message.",
        "Check the version of the client that wrote it.",
    ),
    "trailing_bytes": FindingKind(
        INFO,
        "Bytes follow the end of a body; brokers ignore them.",
        "Nothing, if the client is known to append them; else check its version.",
        suspicious=True,
    ),
    "oversized_frame": FindingKind(
        WARNING,
        "A frame is larger than the limit that the broker announced.",
        "The broker will close the connection: lower the client's batch size or raise the broker's limit.",
    ),
    "encrypted": FindingKind(
        INFO,
        "Payloads are encrypted by the client: sizes and checksums are all that can be read.",
        "Nothing.",
    ),
    # --- capture and TCP ---
    "gap": FindingKind(
        WARNING,
        "The capture lacks bytes that were sent.",
        "Capture with a larger buffer (`tcpdump -B`) and without a snap length (`-s 0`).",
    ),
    "resync": FindingKind(
        INFO,
        "After missing bytes, decoding went on at the next frame.",
        "Nothing: the bytes between are counted as skipped.",
    ),
    "limit": FindingKind(
        WARNING,
        "A limit of brokerscope was reached, and something was left out.",
        "Raise the limit that the message names with `--limit`, if there is memory.",
        suspicious=True,
    ),
    "search_abandoned": FindingKind(
        WARNING,
        "The search for a frame start gave up: the bytes look like frames at too many places.",
        "Nothing, if the stream is not a broker's; else name its protocol with `--decode-as`.",
        suspicious=True,
    ),
    "not_recognised": FindingKind(
        INFO,
        "A stream began like one of the protocols but held no frame of it: its protocol is reported as unknown.",
        "If it is one of them, name it with `--decode-as PORT=PROTOCOL`.",
    ),
    "tls_mismatch": FindingKind(
        WARNING,
        "One side of a connection speaks TLS and the other does not: nothing works on it.",
        "Compare security.protocol, or the scheme of the service URL, with the listener that the client connects to.",
    ),
    "foreign_peer": FindingKind(
        WARNING,
        "A peer speaks another protocol: HTTP to a broker, or a server that is no broker.",
        "Check the address and the port that the client was given.",
    ),
    "retransmission_conflict": FindingKind(
        WARNING,
        "Bytes were retransmitted with different values.",
        "Someone on the way changes segments, or the sender is faulty: compare both packets.",
        suspicious=True,
    ),
    "fragment_overlap": FindingKind(
        WARNING,
        "IP fragments overlap and disagree.",
        "Someone on the way changes fragments, or tries to evade inspection.",
        suspicious=True,
    ),
    "capture_drops": FindingKind(
        WARNING,
        "The capturing program says that it lost packets.",
        "Capture with a larger buffer (`tcpdump -B`), or on a machine that keeps up.",
        suspicious=True,
    ),
    "joined_files": FindingKind(
        INFO,
        "A file holds several captures, joined one behind the other: all are read, and packets are numbered through.",
        "Nothing, if they follow each other in time; else join them with `mergecap`, which sorts by time.",
    ),
    "no_time": FindingKind(
        INFO,
        "Packets are stored without a time (simple packets of pcapng): times and durations are unknown.",
        "Capture with a program that stores packet times.",
    ),
    UNREAD_LINK: FindingKind(
        WARNING,
        "Packets have a link type that is not read: what is in them is not known.",
        "Capture on another interface, or on Linux's `any`; see the list of link types that are read.",
        suspicious=True,
    ),
    TRUNCATED: FindingKind(
        WARNING,
        "A file ends inside a packet, or is damaged from some point on; what came before it was read.",
        "Copy the file again, or let the capture finish before it is read.",
        suspicious=True,
    ),
    UNREADABLE: FindingKind(
        ERROR,
        "A file could not be read at all.",
        "Check the path, its permissions, and that it is a capture.",
        suspicious=True,
    ),
    CAPTURES_GONE: FindingKind(
        INFO,
        "A store was decoded anew while some of its captures could not be read again: their rows stay as they were.",
        "Nothing, if they were removed on purpose; given again, they are decoded anew too.",
    ),
    "not_decrypted": FindingKind(
        INFO,
        "A TLS connection could not be decrypted with the key log.",
        "Give the key log of the same run (`--keylog FILE`), and capture from the handshake on.",
    ),
    # --- requests and answers ---
    "orphan": FindingKind(
        INFO,
        "An answer came whose request was not captured, and nothing says which request it was.",
        "Nothing, at the start of a capture; else look for gaps on the same connection.",
    ),
    "wrong_protocol_version": FindingKind(
        ERROR,
        "Client and server speak different versions of the protocol (iggy): nothing works on this connection.",
        "Bring them to releases that fit each other: upgrade the older side, or take the client library that came with "
        "the server's release.",
    ),
    "pairing_lost": FindingKind(
        WARNING,
        "Answers came that belong to no request.",
        "Expected after a refused SEND_MESSAGES on servers that do not read its body; else look for gaps.",
    ),
    "unknown_api": FindingKind(
        WARNING,
        "An API or version that brokerscope does not know: it is matched with its answer, not decoded.",
        "Update brokerscope; if it is up to date, report the client's version.",
    ),
    "unknown_error": FindingKind(
        INFO,
        "An answer carries an error code that brokerscope does not know.",
        "Update brokerscope.",
    ),
    "head_of_line": FindingKind(
        WARNING,
        "Requests waited behind an earlier request of their connection that the broker held.",
        "Use a connection of its own for fetching, so that other requests do not wait behind long polls.",
    ),
    "fetch_overdue": FindingKind(
        INFO,
        "A fetch was answered later than it allowed the broker to wait.",
        "Look at the broker: a pause, a slow disk, or more requests than its threads can serve.",
    ),
    "out_of_order_answers": FindingKind(
        WARNING,
        "Requests were answered after later ones of their connection; a broker answers in the order of requests.",
        "Look for a proxy that answers in place of the broker, or a client that sends a correlation id twice.",
    ),
    # --- Kafka clients ---
    "removed_in_4_0": FindingKind(
        WARNING,
        "A client uses an API version that brokers refuse since Kafka 4.0.",
        "Update the client before the brokers.",
    ),
    "old_message_format": FindingKind(
        WARNING,
        "Messages have format 0 or 1, which brokers must convert.",
        "Update the client, or set the topic's message format.",
    ),
    "not_idempotent": FindingKind(
        INFO,
        "Batches were produced without idempotence: a batch that is retried may be written twice.",
        "Set enable.idempotence=true.",
    ),
    "unbatched": FindingKind(
        INFO,
        "Nearly every batch holds one message.",
        "Raise linger.ms: fewer, larger batches cost less everywhere.",
    ),
    "useless_compression": FindingKind(
        INFO,
        "Compressed batches are as large as what is in them.",
        "Turn compression off for this topic, or batch more.",
    ),
    "duplicate_sequence": FindingKind(
        WARNING,
        "A batch was sent again with the sequence number of the one before, and no refusal was seen.",
        "Look at request timeouts: the client did not wait for the answer.",
    ),
    "partial_batches": FindingKind(
        INFO,
        "Answers to fetches end within a batch, because the fetch allowed no more bytes; the rest is fetched again.",
        "Nothing, if few; else let the consumer fetch more at once (max.partition.fetch.bytes).",
    ),
    "stuck_consumer": FindingKind(
        WARNING,
        "Fetches at one offset bring only the beginning of a batch, again and again: the consumer cannot go on.",
        "Let the consumer fetch more than its largest message (fetch.message.max.bytes, max.partition.fetch.bytes).",
    ),
    "unserved_version": FindingKind(
        WARNING,
        "A request has a version that the broker does not serve, by its own answer to ApiVersions, and no answer.",
        "Look at which version the client is set to use; brokers close the connection on others.",
    ),
    "rebalance_storm": FindingKind(
        WARNING,
        "The members of a group join again and again.",
        "Look at session.timeout.ms and max.poll.interval.ms, and at members that come and go.",
    ),
    "frequent_commits": FindingKind(
        INFO,
        "A group commits offsets many times a second.",
        "Commit less often: every few seconds, or after many records.",
    ),
    "transaction_aborted": FindingKind(
        INFO,
        "A producer aborted a transaction: consumers with isolation.level=read_committed skip its messages.",
        "Nothing, if the application aborts on purpose.",
    ),
    "not_accepted": FindingKind(
        INFO,
        "A consumer of a share group released messages for another delivery, or rejected them for good.",
        "Look at what the application does with these messages.",
    ),
    "member_epoch": FindingKind(
        INFO,
        "A member of a consumer, share or streams group was told a new epoch: the group has rebalanced.",
        "Nothing.",
    ),
    # --- Pulsar clients ---
    "consumption": FindingKind(
        INFO,
        "How many messages a consumer got, acknowledged and left unacknowledged.",
        "Nothing.",
    ),
    "slow_consumer": FindingKind(
        WARNING,
        "A consumer left the broker without permits for a second or more: it is slower than its topic.",
        "Add consumers, raise the receiver queue, or look at what the application does with a message.",
    ),
    "beyond_permits": FindingKind(
        INFO,
        "A broker sent messages to a consumer that had granted no permits for them.",
        "Nothing where they came in batches: a broker reads whole batches before it counts their messages "
        "(preciseDispatcherFlowControl). Else look at the broker: it does not count as the client does.",
    ),
    "keepalive_timeout": FindingKind(
        WARNING,
        "A PING had no answer, and the connection was closed.",
        "Look at the side that was silent, which may have paused, and at firewalls that forget idle connections.",
    ),
    "protocol_violation": FindingKind(
        WARNING,
        "A peer broke a rule of the protocol: it may be disconnected for it.",
        "Update the client, or report the sequence of commands to its authors.",
    ),
    "lookup_redirect": FindingKind(INFO, "A lookup was sent on to another broker.", "Nothing."),
    "deduplicated": FindingKind(
        INFO,
        "The broker dropped entries that it had already stored (deduplication).",
        "Nothing: deduplication works; look at timeouts if there are many.",
    ),
    "closed_by_broker": FindingKind(
        INFO,
        "The broker closed a producer or consumer.",
        "Expected when a topic is unloaded or moved.",
    ),
    "proxy": FindingKind(INFO, "The connection goes through a Pulsar proxy.", "Nothing."),
    # --- Iggy ---
    "dialect": FindingKind(INFO, "Which release of the protocol the connection uses.", "Nothing."),
    "dialect_uncertain": FindingKind(
        INFO,
        "Several releases of the protocol fit the bytes; the likeliest is used.",
        "Name it with `--dialect iggy=NAME`, if bodies look wrong.",
    ),
    "retries": FindingKind(
        INFO,
        "Requests were refused temporarily and sent again.",
        "Nothing, if few: the cluster could not commit for a moment.",
    ),
}

_JSON = json.JSONEncoder(default=str).encode

SUSPICIOUS = tuple(name for name, kind in KINDS.items() if kind.suspicious)
"""Kinds that speak of bytes which may be broken, or were not looked at."""


def finding(
    conn: Conn | None,
    kind: str,
    message: str,
    *,
    direction: str | None = None,
    time: int | None = None,
    packet_ref: int | None = None,
    offset: int | None = None,
    length: int | None = None,
    **evidence: Any,
) -> Finding:
    """A row of `findings`. Raises KeyError for a kind that is not in KINDS.

    message: one sentence; direction: "client" or "server"; time: ns; offset, length: bytes of the stream. Evidence must
    hold no payload and no secret.
    """
    return Finding(
        conn,
        kind,
        KINDS[kind].severity,
        direction,
        message,
        time,
        packet_ref,
        offset,
        length,
        _JSON(evidence) if evidence else None,
    )
