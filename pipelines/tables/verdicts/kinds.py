"""Every kind of verdict: how severe it is, what it means, and what to do. docs/verdicts.md is written from here.

critical: data is wrong or lost, or nothing works; warning: somebody waits, retries or fails; note: worth knowing, and
nothing to do now. A check may give a verdict of its kind another severity: what healed by itself is a note.
"""

from __future__ import annotations

from typing import NamedTuple

CRITICAL, WARNING, NOTE = "critical", "warning", "note"
SEVERITIES = (CRITICAL, WARNING, NOTE)  # the worst first

LOST, REFUSED, SKIPPED, DOUBLED, STOPPED = "lost", "refused", "skipped", "doubled", "stopped"
UNREACHABLE, BEHIND, LATE = "unreachable", "behind", "late"
HARMS = {
    LOST: "messages were taken by a broker, and are gone or were never delivered, or their bytes broke",
    REFUSED: "work was asked for and not done: a batch, a commit, a login, a transaction",
    SKIPPED: "a group passed over messages that it never got",
    DOUBLED: "messages stand twice in a log, or were delivered again",
    STOPPED: "somebody waited and nothing came: a producer, a consumer, a group",
    UNREACHABLE: "an address that a client was told, or is set to use, serves it nothing",
    BEHIND: "a group reads more slowly than its topic grows",
    LATE: "work was done, later than usual",
}
"""What became of work, the worst first: values of `what` in the table `impacts`, and what each means."""


class VerdictKind(NamedTuple):
    """One kind of verdict."""

    severity: str
    meaning: str  # one sentence: what was seen
    advice: str  # one sentence: what to do
    harm: str | None = None
    """What it did to somebody's work, one of HARMS; None for a risk, a habit, or what a capture cannot show."""


KINDS: dict[str, VerdictKind] = {
    # --- data ---
    "bad_checksum": VerdictKind(
        CRITICAL,
        "A checksum does not match the bytes that it covers.",
        "Run `brokerscope forensics`: it says which bytes broke, and on which side of the capture point.",
        harm=LOST,
    ),
    "refused_as_corrupt": VerdictKind(
        CRITICAL,
        "A receiver rejected data as corrupt.",
        "If the checksum is right here, bytes broke between the capture point and the receiver; else see bad_checksum.",
        harm=REFUSED,
    ),
    "malformed_batches": VerdictKind(
        WARNING,
        "What batches hold is not what their header says, though their checksum is right: the sender wrote them so.",
        "Update the client that wrote them; a broker may refuse them or fail on them.",
    ),
    "framing_lost": VerdictKind(
        CRITICAL,
        "A client sends requests that are shorter or longer than they announce: a broker reads what follows wrongly.",
        "Update the client or report it to its authors; a broker closes such a connection, or waits for bytes that "
        "never come.",
        harm=REFUSED,
    ),
    "discarded": VerdictKind(
        CRITICAL,
        "A consumer discarded messages as damaged.",
        "Compare the checksum of the same message in `batches`: if it is ok here, bytes broke after the capture point.",
        harm=LOST,
    ),
    "schema_left": VerdictKind(
        WARNING,
        "Messages of a topic do not fit the schema that they name, or that the topic has, from some time on.",
        "Ask whoever wrote them which schema was used since then; consumers that read by this one fail at "
        "them, or read them wrongly. `dissect --table findings --payloads` lists each, with where it does not fit.",
    ),
    "duplicate_sequence": VerdictKind(
        NOTE,
        "A batch was sent again with the sequence number of the one before, and no refusal was seen.",
        "Look at request timeouts: the client did not wait for the answer.",
    ),
    # --- what became of messages and readers ---
    "messages_lost": VerdictKind(
        CRITICAL,
        "Messages that a broker acknowledged are gone, or were never delivered to a group that went past them.",
        "Send them again, if the producers still have them. `brokerscope audit` says what this rests on.",
        harm=LOST,
    ),
    "messages_skipped": VerdictKind(
        CRITICAL,
        "A group passed over messages that it never got.",
        "Reset the group to the first offset named, if it is still there; what is gone, only producers can send again.",
        harm=SKIPPED,
    ),
    "messages_doubled": VerdictKind(
        WARNING,
        "Messages stand twice in a log, or members of a group got them again.",
        "Set enable.idempotence=true on producers; let consumers commit before they leave, or tell doubles apart.",
        harm=DOUBLED,
    ),
    "consumer_behind": VerdictKind(
        WARNING,
        "A group has messages to read and does not catch up, or stands still.",
        "Look at what the application does with a message, at errors of its members, and at their number.",
        harm=BEHIND,
    ),
    "shared_offset": VerdictKind(
        WARNING,
        "Clients that are no members of a group store one offset by turns: each goes on where another has read.",
        "Give each client a consumer id or a group of its own; those that are to divide the messages join one group.",
    ),
    "idle_members": VerdictKind(
        NOTE,
        "Members of a group of Iggy get nothing while others do: fewer partitions have messages than it has members.",
        "A partition has one reader in a group: see whether the topic has as many partitions as the group has members, "
        "and whether producers send to all of them.",
    ),
    "delivery_stopped": VerdictKind(
        CRITICAL,
        "A consumer gets nothing though messages wait and it has granted permits.",
        "Let it acknowledge what it has, or raise the limit of unacknowledged messages of the broker.",
        harm=STOPPED,
    ),
    "transaction_held": VerdictKind(
        WARNING,
        "An open transaction kept readers of committed messages waiting.",
        "Look at the producer of that transaction; transaction.timeout.ms bounds how long it may stay open.",
        harm=STOPPED,
    ),
    "answer_cut": VerdictKind(
        WARNING,
        "Answers began and never ended: their connection was closed before.",
        "Compare the size of the answer with the receiver's limit, and its duration with the receiver's time-out.",
        harm=STOPPED,
    ),
    "path_lost": VerdictKind(
        CRITICAL,
        "Bytes were sent again and again, and TCP never acknowledged them.",
        "Look at the path between both hosts, not at the broker: a smaller MTU, filtered ICMP, or a firewall that "
        "forgot the connection.",
        harm=STOPPED,
    ),
    "connections_reset": VerdictKind(
        WARNING,
        "Connections in use were reset.",
        "See who sent the resets: an application that was killed, or a firewall or load balancer between.",
        harm=STOPPED,
    ),
    "connection_leak": VerdictKind(
        WARNING,
        "A client opens connections that it hardly uses and never closes.",
        "Close clients after use, or keep one: brokers bound the number of connections.",
    ),
    "unreachable_address": VerdictKind(
        CRITICAL,
        "A broker tells its clients an address at which they reach no broker.",
        "Set the address that brokers advertise: advertised.listeners in Kafka, advertisedAddress in Pulsar.",
        harm=UNREACHABLE,
    ),
    "tls_refused": VerdictKind(
        CRITICAL,
        "A TLS handshake was refused, with the reason in clear.",
        "Renew or trust the certificate that the alert is about; no key log is needed to see this.",
        harm=UNREACHABLE,
    ),
    # --- answers ---
    "errors": VerdictKind(
        WARNING,
        "Answers carry an error, and no later attempt of the same client succeeded.",
        "Look at how the client handles this error, and at the broker's log at that time.",
        harm=REFUSED,
    ),
    "auth_refused": VerdictKind(
        WARNING,
        "A broker refused a login, by its answer or by closing the connection.",
        "Check the credentials, the mechanism and the listener that this client is configured with.",
        harm=REFUSED,
    ),
    "not_authorized": VerdictKind(
        WARNING,
        "A client is not authorized for what it asked.",
        "Grant its user the permission, or stop the client from asking.",
        harm=REFUSED,
    ),
    "producer_fenced": VerdictKind(
        WARNING,
        "A producer was fenced: another one holds the same transactional id, or the topic exclusively.",
        "Run one producer for each transactional id or exclusive topic; one that comes back from a pause is fenced on "
        "purpose.",
        harm=REFUSED,
    ),
    "throttled": VerdictKind(
        WARNING,
        "The broker held clients back by a quota.",
        "Raise the quota of this client or user, or spread its load over more time.",
        harm=LATE,
    ),
    "unanswered": VerdictKind(
        WARNING,
        "Requests have no answer, though the capture would hold one.",
        "Look at the broker at that time: its request queue, its log, and whether it was paused.",
        harm=STOPPED,
    ),
    "closed_unanswered": VerdictKind(
        WARNING,
        "A connection was closed while requests on it had no answer.",
        "See who closed it: a broker that rejects a request this way, or a client whose request timed out.",
        harm=STOPPED,
    ),
    "out_of_order_answers": VerdictKind(
        WARNING,
        "Answers of one connection came in another order than its requests; Kafka answers in order.",
        "Look for a proxy, or a server that only imitates a broker: clients rely on the order and fail.",
    ),
    "delayed_ack": VerdictKind(
        WARNING,
        "Most requests of a client wait for an acknowledgement that is delayed, as they are written in pieces (Nagle).",
        "Set TCP_NODELAY on the side that writes in pieces, or let it write each request or answer at once.",
        harm=LATE,
    ),
    "fetch_overdue": VerdictKind(
        WARNING,
        "Fetches were answered later than they allowed the broker to wait for data.",
        "Look at the broker: a pause, a slow disk, or more requests than its threads can serve.",
        harm=LATE,
    ),
    "slow_requests": VerdictKind(
        WARNING,
        "Requests took a second or longer.",
        "See which stage took the time: `brokerscope show FILE:PACKET`.",
        harm=LATE,
    ),
    "slow_tail": VerdictKind(
        NOTE,
        "One request in a hundred takes far longer than the usual one; a warning: for a while, most do, or a client's.",
        "Compare what the slow ones have in common: broker, topic, moment.",
        harm=LATE,
    ),
    "uneven_broker": VerdictKind(
        WARNING,
        "One broker needs far longer than the others for the same API.",
        "Look at load, disks and garbage collection of this broker, and at how partitions are spread.",
        harm=LATE,
    ),
    "longer_path": VerdictKind(
        WARNING,
        "For a while everything between two hosts took longer than before, by about as much: their path grew longer.",
        "Look at the network between these hosts: a detour by another zone, a tunnel, a queue that is full. The broker "
        "is to blame only where it lets each request, of any kind, wait for so long.",
        harm=LATE,
    ),
    "head_of_line": VerdictKind(
        WARNING,
        "Requests waited behind others of their own connection.",
        "A long poll holds the connection: fetch.max.wait.ms bounds the wait, a connection of its own avoids it.",
        harm=LATE,
    ),
    # --- brokers ---
    "broker_lost": VerdictKind(
        CRITICAL,
        "The connections of a broker ended, or fell silent, and it refused new ones or did not answer them.",
        "Look at the broker's process and host at that time. A broker that is stopped in order hands over first what "
        "it leads; after a crash its cluster, where it has one, waits until it is sure of that.",
        harm=STOPPED,
    ),
    "leader_moved": VerdictKind(
        NOTE,
        "Partitions got another leader: the old one refused requests until clients had refreshed their metadata.",
        "Nothing, if brokers were restarted or partitions reassigned; else find out why the old leader stepped down.",
        harm=LATE,
    ),
    "no_leader": VerdictKind(
        CRITICAL,
        "A partition had no leader.",
        "Look for the brokers that hold its replicas: their processes and disks, and which of them are in sync.",
        harm=STOPPED,
    ),
    "out_of_sync": VerdictKind(
        WARNING,
        "A broker holds partitions and is not in sync with their leaders: it is down, or does not keep up.",
        "Look at that broker: its process, its disk, the network from the leaders. Until it is in sync, another loss "
        "may lose messages, and min.insync.replicas may refuse what producers send.",
    ),
    "topic_moved": VerdictKind(
        WARNING,
        "A broker closed a topic's producers and consumers, and they were opened again, there or at another broker.",
        "An administrator or the load manager unloaded it. If it moves again and again, slow down load shedding.",
        harm=STOPPED,
    ),
    "lookups_redirected": VerdictKind(
        NOTE,
        "A broker sent lookups on to another.",
        "Nothing: clients ask any broker first, and the leader or owner answers.",
    ),
    # --- groups, transactions, subscriptions ---
    "rebalances": VerdictKind(
        WARNING,
        "A group rebalanced: meanwhile members of a classic group did not consume.",
        "Start members together, give them group.instance.id, and look at members that time out.",
        harm=STOPPED,
    ),
    "offsets_moved_back": VerdictKind(
        WARNING,
        "A group committed a smaller offset of a partition than before: what lies between is read again.",
        "Nothing, if somebody reset the group; else look for a member that commits after it lost a partition.",
        harm=DOUBLED,
    ),
    "transactions_aborted": VerdictKind(
        WARNING,
        "A producer aborted transactions.",
        "Nothing, if the application aborts on purpose; else look at why it aborts.",
        harm=REFUSED,
    ),
    "redelivered": VerdictKind(
        WARNING,
        "A subscription got messages more than once.",
        "Look at negative acknowledgements and at consumers that go away before they acknowledge.",
        harm=DOUBLED,
    ),
    "dead_lettered": VerdictKind(
        WARNING,
        "Consumers gave up on messages, or set them aside to retry.",
        "Look at the messages in that topic, and at why they could not be processed.",
        harm=SKIPPED,
    ),
    "permits_exhausted": VerdictKind(
        WARNING,
        "A consumer used up its permits and granted no more (FLOW): the broker may not send it anything.",
        "Look at what the application waits for: a receiver queue that nobody empties, or a consumer that is paused.",
        harm=STOPPED,
    ),
    "stuck_consumer": VerdictKind(
        WARNING,
        "A consumer asks for the same offset again and again, and gets only the beginning of a message each time.",
        "Let it fetch more than its largest message: fetch.message.max.bytes, max.partition.fetch.bytes.",
        harm=STOPPED,
    ),
    "share_group": VerdictKind(
        WARNING,
        "Members of a share group released messages for another delivery or rejected them.",
        "Look at what the application does with these messages: rejected ones are not delivered again.",
        harm=DOUBLED,
    ),
    "group_not_ready": VerdictKind(
        WARNING,
        "The broker tells members of a group that it cannot work, in a status that is no error.",
        "Do what the status says: create the source topics that it names, or update the application's topology.",
        harm=STOPPED,
    ),
    # --- connections ---
    "connect_refused": VerdictKind(
        WARNING,
        "A server refused connections: nothing listens there.",
        "Check whether the broker runs, and the address that clients use (advertised.listeners in Kafka).",
        harm=UNREACHABLE,
    ),
    "connect_silent": VerdictKind(
        WARNING,
        "A server did not answer attempts to connect.",
        "Look at firewalls and at whether the host is up.",
        harm=UNREACHABLE,
    ),
    "connect_late": VerdictKind(
        WARNING,
        "A server answered attempts to connect only after the SYN had been sent again, a second later or more.",
        "Look at how fast it accepts connections (listen backlog, net.core.somaxconn), and at packet loss on the path.",
        harm=LATE,
    ),
    "tls_late": VerdictKind(
        WARNING,
        "TLS handshakes took a second or longer.",
        "Look at the load of both hosts, and at what the server looks up meanwhile: names, users, revocation lists.",
        harm=LATE,
    ),
    "wrong_protocol_version": VerdictKind(
        CRITICAL,
        "Client and server speak different versions of the protocol: nothing works.",
        "Bring them to releases that fit each other: upgrade the older side, or take the client library that came with "
        "the server's release.",
        harm=UNREACHABLE,
    ),
    "tls_mismatch": VerdictKind(
        CRITICAL,
        "One side speaks TLS and the other does not.",
        "Compare security.protocol, or the scheme of the service URL, with the listener that the client connects to.",
        harm=UNREACHABLE,
    ),
    "foreign_peer": VerdictKind(
        CRITICAL,
        "One end of a connection speaks HTTP: it is no broker, or no client of one.",
        "Compare the address and port with the listeners of the brokers; a load balancer may answer instead.",
        harm=UNREACHABLE,
    ),
    "keepalive_timeout": VerdictKind(
        WARNING,
        "A PING had no answer, and the connection was closed for it.",
        "Look at the side that was silent, which may have paused, and at firewalls that forget idle connections.",
        harm=STOPPED,
    ),
    "protocol_violation": VerdictKind(
        WARNING,
        "A peer broke a rule of the protocol: a command for what is not there, twice, or too new for the other side.",
        "Update the client. The finding `protocol_violation` names the packet.",
    ),
    "zero_window": VerdictKind(
        NOTE,
        "A receiver closed its TCP window, so its peer had to stop sending.",
        "Look at the application on the side that did not read.",
        harm=LATE,
    ),
    "retransmissions": VerdictKind(
        WARNING,
        "Requests waited because segments were retransmitted.",
        "Look for packet loss on the path; t_health in `brokerscope sql` shows it for each connection.",
        harm=LATE,
    ),
    "conflicting_bytes": VerdictKind(
        WARNING,
        "Bytes were retransmitted with different values.",
        "Someone on the way changes segments, or the sender is faulty: compare both packets.",
    ),
    # --- how clients are set up ---
    "removed_apis": VerdictKind(
        WARNING,
        "A client uses an API version that brokers refuse since Kafka 4.0.",
        "Update the client before the brokers.",
    ),
    "old_message_format": VerdictKind(
        NOTE,
        "Messages have format 0 or 1, which brokers must convert.",
        "Update the client, or set the topic's message format.",
    ),
    "old_timestamps": VerdictKind(
        NOTE,
        "Messages carry timestamps of long ago: a topic that keeps them for a time may delete them at once.",
        "Brokers count retention.ms from these timestamps, once the segment is full: look at how the topic is kept.",
    ),
    "not_idempotent": VerdictKind(
        NOTE,
        "A producer sends without idempotence: a batch that is retried may be written twice.",
        "Set enable.idempotence=true.",
    ),
    "acks_zero": VerdictKind(
        NOTE,
        "A producer sends with acks=0: brokers do not confirm messages, so a loss goes unnoticed.",
        "Set acks=all, unless messages may be lost.",
    ),
    "metadata_storm": VerdictKind(
        WARNING,
        "A client asks where a topic or coordinator is, or what there is, more often than any retry would.",
        "Look for code that creates a client for each message, and for topics that do not exist.",
    ),
    "connection_churn": VerdictKind(
        WARNING,
        "A client opens connections for a moment and closes them, again and again.",
        "Keep one producer or consumer for as long as the process runs: each new one costs logins and lookups.",
    ),
    "busy_polling": VerdictKind(
        NOTE,
        "A client asks for messages many times a second, and nearly always there are none.",
        "Let the broker wait for messages (fetch.max.wait.ms, fetch.min.bytes of Kafka), or poll less often.",
    ),
    "unbatched": VerdictKind(
        NOTE,
        "Nearly every batch of a producer holds one message.",
        "Raise linger.ms: fewer, larger batches cost less everywhere.",
    ),
    "useless_compression": VerdictKind(
        NOTE,
        "Compressed batches are as large as what is in them.",
        "Turn compression off for this topic, or batch more.",
    ),
    "hot_partition": VerdictKind(
        NOTE,
        "One partition takes most of what is sent to its topic.",
        "Look at the keys of messages, of which one or few may be in most, and at how producers choose partitions.",
    ),
    "producer_stopped": VerdictKind(
        NOTE,
        "A producer that sent steadily sends nothing more, though it is connected and others go on.",
        "Look at the application: what it waits for, or where it takes its messages from. Its broker had answered all.",
    ),
    "slow_consumer": VerdictKind(
        WARNING,
        "A consumer left the broker without permits for a second or more: it is slower than its topic.",
        "Add consumers, raise the receiver queue, or look at what the application does with a message.",
        harm=BEHIND,
    ),
    # --- the capture ---
    "not_understood": VerdictKind(
        WARNING,
        "Bytes could not be decoded as frames of the protocol, though nothing is missing.",
        "Name the protocol with `--decode-as PORT=PROTOCOL`, or report the client's version.",
    ),
    "tls_without_keys": VerdictKind(
        NOTE,
        "Connections are encrypted, and no keys were given for them.",
        "Give the key log of the same run: `--keylog FILE`.",
    ),
    "one_direction": VerdictKind(
        NOTE,
        "Only one direction of connections was captured: requests and answers cannot be matched there.",
        "Capture both directions: a mirror port may be configured for one.",
    ),
    "clock": VerdictKind(
        NOTE,
        "Timestamps of messages lie ahead of the time at which they were captured.",
        "Compare the clocks of the client and of the host that captured: delays between them are not to be trusted.",
    ),
    "capture_paused": VerdictKind(
        NOTE,
        "Nothing was captured for a while on any connection, though clients and brokers had work all the time.",
        "See whether the host that captured, or its virtual machine, was paused then, or its clock was set forward; if "
        "not, all clients waited for these requests.",
    ),
    "capture_loss": VerdictKind(
        WARNING,
        "The capture lacks bytes that were sent: what was in them is missing from every table.",
        "Capture with a larger buffer (`tcpdump -B 65536`) and without a snap length (`-s 0`).",
    ),
}
