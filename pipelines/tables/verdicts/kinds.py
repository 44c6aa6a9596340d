"""Every kind of verdict: how severe it is, what it means, and what to do. docs/verdicts.md is written from here.

critical: data is wrong or lost, or nothing works; warning: somebody waits, retries or fails; note: worth knowing, and
nothing to do now. A check may give a verdict of its kind another severity: what healed by itself is a note.
"""

from __future__ import annotations

from typing import NamedTuple

CRITICAL, WARNING, NOTE = "critical", "warning", "note"
SEVERITIES = (CRITICAL, WARNING, NOTE)  # the worst first


class VerdictKind(NamedTuple):
    """One kind of verdict."""

    severity: str
    meaning: str  # one sentence: what was seen
    advice: str  # one sentence: what to do


KINDS: dict[str, VerdictKind] = {
    # --- data ---
    "bad_checksum": VerdictKind(
        CRITICAL,
        "A checksum on the wire is not that of the bytes that it covers.",
        "Run `brokerscope forensics`: it says which bytes broke, and on which side of the capture point.",
    ),
    "refused_as_corrupt": VerdictKind(
        CRITICAL,
        "A receiver called data corrupt.",
        "Where the checksum holds here, bytes broke between the capture point and the receiver; else see bad_checksum.",
    ),
    # --- answers ---
    "errors": VerdictKind(
        WARNING,
        "Answers carry an error that no later request of the same client got past.",
        "Look at what the client does after such an answer, and at the broker's log at that time.",
    ),
    "auth_refused": VerdictKind(
        WARNING,
        "A broker refused a login.",
        "Check the credentials, the mechanism and the listener that this client is configured with.",
    ),
    "not_authorized": VerdictKind(
        WARNING,
        "A client asked for what it has no right to.",
        "Grant the right to its principal, or take the request out of the client.",
    ),
    "producer_fenced": VerdictKind(
        WARNING,
        "A producer was turned down because another with the same id took its place.",
        "Let each transactional id have one producer at a time; a paused process that comes back is fenced on purpose.",
    ),
    "throttled": VerdictKind(
        WARNING,
        "The broker held clients back by a quota.",
        "Raise the quota of this client or user, or spread its load over more time.",
    ),
    # --- brokers ---
    "broker_lost": VerdictKind(
        CRITICAL,
        "The connections of a broker ended, or fell silent, and it refused new ones or did not answer them.",
        "Look at the broker's process and host at that time. A broker that is stopped in order hands its partitions "
        "over first; after a crash the cluster waits for its session to time out.",
    ),
    # --- the capture ---
    "capture_loss": VerdictKind(
        WARNING,
        "Bytes were sent that the capture does not hold: what was in them is in no table.",
        "Capture with a larger buffer (`tcpdump -B 65536`) and without a snap length (`-s 0`).",
    ),
}
