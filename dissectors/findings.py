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
    "checksum_mismatch": FindingKind(
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
    "wrong_length": FindingKind(
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
    "damaged_message": FindingKind(
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
    "tls_on_one_side": FindingKind(
        WARNING,
        "One side of a connection speaks TLS and the other does not: nothing works on it.",
        "Compare security.protocol, or the scheme of the service URL, with the listener that the client connects to.",
    ),
    "other_protocol": FindingKind(
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
        "Captures are gone. Of a store that was decoded anew, their rows stay as they were; of a stream, the message "
        "says whether they went unread, or a late one was decoded without those behind it.",
        "Nothing, if they were removed on purpose; given again, they are decoded, too. Where a stream did not come to "
        "read them, keep captures longer, or have it look more often.",
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
    "payload_schema_mismatch": FindingKind(
        WARNING,
        "A key or value is not what its schema allows; looked for where payloads are read (`--payloads`).",
        "Ask whoever wrote it which schema was used; consumers that read by this one fail at the message, or "
        "read it wrongly.",
    ),
    # --- Kafka clients ---
    "unserved_version": FindingKind(
        WARNING,
        "A request has a version that the broker does not serve, by its own answer to ApiVersions, and no answer.",
        "Look at which version the client is set to use; brokers close the connection on others.",
    ),
    # --- Pulsar clients ---
    "proxy": FindingKind(INFO, "The connection goes through a Pulsar proxy.", "Nothing."),
    # --- Iggy ---
    "dialect": FindingKind(INFO, "Which release of the protocol the connection uses.", "Nothing."),
    "dialect_uncertain": FindingKind(
        INFO,
        "Several releases of the protocol fit the bytes; the likeliest is used.",
        "Name it with `--dialect iggy=NAME`, if bodies look wrong.",
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
