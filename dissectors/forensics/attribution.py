"""Who broke the bytes? Evidence first, then the one rule that it decides.

    what carried the bytes                               where          why
    a TLS record whose tag verifies                      before_tcp     broken before they were encrypted
    a copy with other bytes that fit the checksum        after_tcp      if the bad copy's TCP sum is wrong
                                                         before_tcp     if it is right
    a TCP sum that is wrong                              after_tcp      certain where the correction makes it right
    TCP sums that are right                              before_tcp     unless the correction would leave them right
    sums left to the network card, or not to be checked  undecided      then other sightings of the batch may decide
      … right when produced, wrong when consumed         broker
      … wrong when produced, and stored just so          producer, also where the sums are right when consumed
      … wrong here, right at the next hop                after_tcp
      … wrong here, yet the broker, which checks, took it  after_tcp

`before_tcp`: in the sending host, or in a box on the way that computes the TCP sum anew. `after_tcp`: on the wire or in
the capture. What does not decide is a reason all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dissectors.forensics.packet_checksums import OFFLOADED, RIGHT, WRONG, ZERO
from dissectors.forensics.packets import Carriers, Segment
from dissectors.forensics.reference_bytes import Copy
from dissectors.session.protocols import named

BEFORE, AFTER, PRODUCER, BROKER, UNDECIDED = "before_tcp", "after_tcp", "producer", "broker", "undecided"
CERTAIN, LIKELY = "certain", "likely"


@dataclass(slots=True)
class Evidence:
    """What is known about one bad checksum."""

    encrypted: bool
    located: bool  # the broken bytes are known for certain
    carried: Sequence[Segment]  # the packets of the broken bytes; of all bytes where these are not known
    mended: Mapping[int, str]  # packet reference -> TCP verdict of the packet with the corrected bytes
    carriers: Carriers
    copies: Sequence[Copy]
    protocol: str | None
    role: str | None
    outcome: str | None  # of a produced batch
    sightings: Sequence[Mapping[str, Any]]  # rows of `related`
    reactions: Sequence[Mapping[str, Any]]
    names: Mapping[int, str]  # packet reference -> "packet 12"
    inner: Sequence[str] = ()  # what the codec's own checksums say


@dataclass(slots=True)
class Attribution:
    """A verdict and its reasons, as in the JSON."""

    where: str = UNDECIDED
    certainty: str = UNDECIDED
    because: list[str] = field(default_factory=list)

    def settle(self, where: str, certainty: str, because: str) -> Attribution:
        self.where, self.certainty = where, certainty
        self.because.append(because)
        return self

    def lean(self, where: str, because: str) -> None:
        """Likely so, where nothing stronger has decided; otherwise one more reason."""
        if self.where == UNDECIDED:
            self.settle(where, LIKELY, because)
        else:
            self.because.append(because)


def attribute(evidence: Evidence) -> Attribution:
    """Apply the rules of the table above."""
    verdict = Attribution()
    for rule in (_encrypted, _copies, _sums, _hops):
        rule(evidence, verdict)
        if rule is _encrypted and verdict.where != UNDECIDED:
            break
    _accepted(evidence, verdict)
    _reactions(evidence, verdict)
    verdict.because.extend(evidence.inner)
    if not verdict.because:
        verdict.because.append("No packet that carried the bytes could be checked")
    return verdict


def _encrypted(evidence: Evidence, verdict: Attribution) -> None:
    if evidence.encrypted:
        verdict.settle(
            BEFORE, CERTAIN, "The bytes came out of TLS records whose tags verify: they were broken before encryption"
        )


def _copies(evidence: Evidence, verdict: Attribution) -> None:
    for copy in evidence.copies:
        name = evidence.names[copy.segment.packet_ref]
        if not copy.fits:
            verdict.because.append(f"Copy {name} carries other bytes, which do not fit the checksum either")
            continue
        states = {segment.sums.tcp for segment in evidence.carried}
        because = f"Copy {name} carries other bytes, and with these the checksum is right"
        if WRONG in states:
            verdict.settle(AFTER, CERTAIN, f"{because}; the TCP checksum of the bad copy is wrong")
        elif states == {RIGHT}:
            verdict.settle(BEFORE, LIKELY, f"{because}; but the TCP checksum of the bad copy is right as well")
        else:
            verdict.because.append(f"{because}; no TCP checksum shows where the bad copy broke")
        return


def _sums(evidence: Evidence, verdict: Attribution) -> None:
    if verdict.where != UNDECIDED or not evidence.carried:
        return
    headers = [evidence.names[segment.packet_ref] for segment in evidence.carried if segment.sums.ip == WRONG]
    if headers:
        verdict.because.append(f"The IPv4 header checksum of {_list(headers)} is wrong as well")
    by_state: dict[str, list[str]] = {}
    for segment in evidence.carried:
        by_state.setdefault(segment.sums.tcp, []).append(evidence.names[segment.packet_ref])
    if WRONG in by_state:
        _wrong_sums(evidence, verdict, by_state[WRONG])
    elif set(by_state) == {RIGHT}:
        _right_sums(evidence, verdict, by_state[RIGHT])
    elif set(by_state) & set(OFFLOADED):
        how = "zero" if ZERO in by_state else "the pseudo-header's only"
        names = _list(by_state.get(ZERO, []) + by_state.get("partial", []))
        verdict.because.append(
            f"The TCP checksum of {names} is {how}: it was left to the network card, and proves nothing"
        )
    else:
        verdict.because.append(f"The TCP checksum of {_list(by_state[next(iter(by_state))])} cannot be verified")


def _wrong_sums(evidence: Evidence, verdict: Attribution, names: list[str]) -> None:
    others = evidence.carriers.others
    mended = [
        name for packet_ref, state in evidence.mended.items() if state == RIGHT and (name := evidence.names[packet_ref])
    ]
    subject = f"The TCP checksum of {_list(names)} is wrong"
    if mended:
        verdict.settle(
            AFTER, CERTAIN, f"{subject}, and right with the corrected bytes: the sender's TCP had them right"
        )
    elif others[WRONG] > others[RIGHT]:
        verdict.because.append(f"{subject}, but so are {others[WRONG]} of {others.total()} others: they prove nothing")
    else:
        healthy = f", while {others[RIGHT]} of {others.total()} other packets have a right one" if others else ""
        verdict.settle(AFTER, LIKELY, f"{subject}{healthy}")


def _right_sums(evidence: Evidence, verdict: Attribution, names: list[str]) -> None:
    if evidence.mended and all(state == RIGHT for state in evidence.mended.values()):
        verdict.because.append(
            f"The TCP checksum of {_list(names)} is right with the broken bytes and with the corrected ones: "
            "it cannot see this error"
        )
        return
    verdict.settle(
        BEFORE,
        CERTAIN if evidence.located else LIKELY,
        f"The TCP checksum of {_list(names)} agrees with the broken bytes: "
        "they were broken in the sender, or in a box that computes the sum anew",
    )


def _hops(evidence: Evidence, verdict: Attribution) -> None:
    """What other sightings of the batch say: at another capture point, or produced and consumed."""
    produced = [s for s in evidence.sightings if s["role"] == "produce"]
    consumed = [s for s in evidence.sightings if s["role"] in ("consume", "replicate")]
    for other in evidence.sightings:
        if other["why"] == "same connection, other capture point" and other["verdict"] == "ok":
            because = f"At the other capture point ({_at(other)}) the same bytes are right"
            verdict.lean(AFTER, because)
            return
    if evidence.role == "produce":
        broken = [s for s in consumed if s["verdict"] == "bad"]
        intact = [s for s in consumed if s["verdict"] == "ok"]
        if broken:
            because = f"The batch was stored and handed out just as broken ({_at(broken[0])})"
            verdict.lean(PRODUCER, because)
        elif intact:
            because = f"The broker handed the batch out intact ({_at(intact[0])})"
            _received(verdict, because)
    elif produced:
        intact = [s for s in produced if s["verdict"] == "ok"]
        broken = [s for s in produced if s["verdict"] == "bad"]
        if broken:
            because = f"It was wrong already when it was produced ({_at(broken[0])})"
            if verdict.where == BEFORE and any(s["same_bytes"] for s in broken):
                verdict.settle(
                    PRODUCER, LIKELY, f"{because}, and just so: the broker stored and sent what it was given"
                )
            else:
                verdict.lean(PRODUCER, because)
        elif intact:
            because = f"It was right when it was produced ({_at(intact[0])})"
            if verdict.where == UNDECIDED:
                verdict.settle(BROKER, LIKELY, f"{because}: it broke in the broker, or on the way out of it")
            elif verdict.where == BEFORE:
                verdict.because.append(f"{because}: it broke in the broker, between receiving and sending it")
            else:
                verdict.because.append(because)


def _accepted(evidence: Evidence, verdict: Attribution) -> None:
    """Kafka's and Pulsar's brokers verify the checksum of what is produced before they answer that it is stored."""
    if evidence.role != "produce" or evidence.outcome != "ok" or not _verified_by_broker(evidence.protocol):
        return
    _received(verdict, "The broker, which checks what it is given, answered that it stored the batch")


def _received(verdict: Attribution, because: str) -> None:
    """The broker seems to have received the right bytes."""
    if verdict.where in (BEFORE, PRODUCER):
        verdict.certainty = LIKELY
        verdict.because.append(f"{because}: against this verdict, it seems to have received the right bytes")
    else:
        verdict.lean(AFTER, f"{because}: it received the right bytes")


def _reactions(evidence: Evidence, verdict: Attribution) -> None:
    for reaction in evidence.reactions:
        verdict.because.append(f"The answer was {reaction['name']} ({_at(reaction)}): the receiver saw wrong bytes too")


def _at(row: Mapping[str, Any]) -> str:
    return f"{row['file']}, packet {row['packet']}"


def _list(names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(names))
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")


def _verified_by_broker(protocol: str | None) -> bool:
    """Whether brokers of the protocol refuse a batch with a wrong checksum."""
    known = named(protocol)
    return known is not None and known.brokers_verify_batches
