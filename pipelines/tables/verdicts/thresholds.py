"""From where on something is worth a verdict: every number that a check compares with, and why it is this one."""

from __future__ import annotations

MS, SECOND = 1_000_000, 1_000_000_000  # in ns

EVIDENCE = 10_000
"""Rows that a verdict names at most: more would make a table of verdicts larger than the records."""

OF_A_CHECK = 100_000
"""Rows that all verdicts of a check name at most, each its share: thousands of verdicts would take gigabytes."""

LISTED = 20
"""Clients, servers, topics and groups that a verdict names at most, as other tables do."""

LONGEST_TEXT = 1_000
"""Characters of a sentence: it has two names at most, of which Kafka's have 249; others may have 64 KiB."""

LINKS = 12
"""Events in a chain of causes and effects: more is a log, not a story."""

# What is ranked first within a severity: the time that requests took, and what has no time of its own.
CLIENT_NS = SECOND
"""A client that is concerned weighs as much as a second of waiting."""
ROW_NS = MS
"""A row that is counted weighs as much as a millisecond of waiting."""

RESENT_WAIT_NS = 100 * MS
"""A request that waited beside a retransmission this long waited for it: the shortest timer of common stacks is 200 ms,
and half of it leaves room for a capture point near the receiver."""

LOSSY = 0.01
"""Share of packets that are sent again because they were lost: paths within a data centre lose none."""

SLOW_NS = SECOND
"""A request that a person waits for."""

FAR_NS = 5 * MS
"""A round trip that leaves a data centre: from here on a window bounds how fast an answer comes."""

BURSTS, PAUSE_NS, UNEVEN_BURSTS = 4, 5 * SECOND, 0.2
"""Bursts of slow requests that show a rhythm, the pause before each, and how much longer the longest time from one to
the next may be than the shortest."""

STEADY = 5
"""How many times longer than any other pause of a client one is that it did not make by itself."""

ENOUGH = 100
"""Requests below which a 99th percentile is the slowest one, and a mean of one broker is chance."""

UNEVEN = 3.0
"""How many times slower than the others a broker is, before it is more than noise between machines."""

UNEVEN_NS = 5 * MS
"""And by how much: brokers that answer in microseconds differ by such factors and nobody notices."""

EVEN = 0.5
"""Share of its mean time that the fastest request of a broker takes where not the broker is slow but its path."""

AS_FAST = 0.8
"""Share of the time of a usual request that the fastest takes where a path is all that both wait for."""

LONGER, LONGER_NS = 3, 20 * MS
"""How much longer the fastest request takes than the fastest before, where a path may be what grew: by a factor, and by
more than a queue or a detour within a data centre."""

LARGE = 16 << 10
"""Bytes of a request and its answer up to which they cost a broker about the same: batch.size of Kafka's producers."""

TAIL, TAIL_NS = 20, 50 * MS
"""p99 against the median, and how long it is at least: a tail that people feel."""

STRETCH_US = 10_000_000
"""In two parts of this length and more, a client that mostly waits is no tail: whatever it does is that much slower."""

GROWN, LASTING = 10, 3
"""How many times longer than before the usual request takes, in how many such parts, with as many before: load varies,
and a start is slow."""

THROTTLED_MS = 1
"""Throttle times are whole milliseconds; 0 is none."""

REBALANCE_NS = 5 * SECOND
"""A group that starts waits three seconds for members (group.initial.rebalance.delay.ms); longer, one is missed."""

REBALANCES, STOPPED = 5, 0.1
"""Rebalances of one group after its first that are worth a verdict, however short, as each stops all members: where
nobody came or left in order, or where they took such a share of the time. A rolling deploy takes less."""

EPOCH_NS = 30 * SECOND
"""Until all members know a new epoch: they read on, and hear of it by heartbeats, one every 5 s, so it takes some."""

SESSION_NS = 6 * SECOND
"""A group removes no member that was silent for less (group.min.session.timeout.ms)."""

OUTAGE_NS = 2 * SECOND
"""From an error to the next success: clients retry within a second (retry.backoff.max.ms), so longer is an outage."""

RETRY_US = 1_000_000
"""From an error to the end of the capture: clients retry within a second (retry.backoff.max.ms), perhaps after it."""

AT_ONCE_US = 1_000_000
"""Connections of a broker that was killed end within a second."""

DRAIN_US = 5_000_000
"""Connections of a broker that is stopped in order end within seconds: it moves its leaders first."""

SOON_US = 10_000_000
"""Between the last end and the first refused attempt: clients wait so long at most, then try again."""

IN_USE_US = 60_000_000
"""A connection that was used so shortly before the first attempt without an answer was in use."""

LOST_SHARE = 0.01
"""Share of the stream bytes that a capture lacks before what it says of answers is in doubt as a whole."""

UNDERSTOOD = 0.99
"""Share of the bytes of known protocols that belong to frames: less means that frames were not found."""

STOOD_STILL_NS = 5 * SECOND
"""Without a permit for so long until its connection ends, a consumer does not merely lag: it has stopped."""

OUT_NS = 100 * MS
"""A pause in what a client sends, when its broker went or its topic moved: below this nobody notices."""

ANSWER_US = 1_000_000
"""A request so shortly before the end of the capture may still be answered."""

LARGEST_REQUEST = 100 << 20
"""socket.request.max.bytes of Kafka, where nobody set another: a broker closes the connection on a larger request."""

FETCH_TICK_NS = 200 * MS
"""Brokers look at fetches that wait by a timer: so much later than allowed is no delay."""

MOVE_US = 60_000_000
"""A topic that is not opened again within a minute after a broker closed it was given up, not moved."""

A_MINUTE = 60
"""Questions of one kind on one connection, or short connections of one client, within a minute: while something fails,
clients try again once a second (retry.backoff.max.ms, reconnect.backoff.max.ms), so this is no retry."""

SHORT_LIVED_NS = 10 * SECOND
"""A connection that lives no longer was opened for one piece of work: clients keep theirs for minutes when idle."""

AHEAD_US = 2_000_000
"""Hosts that keep time agree to milliseconds, and a message is never sent before it is made."""

AHEAD_BATCHES = 5
"""Batches of a client from the future that are its clock, not a timestamp that the application chose."""

OLD_US = 7 * 86_400_000_000
"""How long brokers of Kafka keep messages unless they are told otherwise (log.retention.hours=168)."""

QUEUED_NS, QUEUED = 10 * MS, 5
"""Waiting behind others of one's own connection: so long, so many times, is a habit."""

QUEUED_SUM_NS = SECOND
"""And so long in all is worth a change of the client."""

HELD_US = 60_000_000
"""A request that the broker may hold, as a fetch or a join, has a minute: no client lets it wait longer."""

HELD_READERS_NS = 5 * SECOND
"""Transactions are open for moments; readers that wait so long for one notice it."""

IDLE_NS = 30 * SECOND
"""Silence after which a firewall may have forgotten a connection: the shortest common limits are a minute and less."""

TRIES = 2
"""Members that begin at the offset at which one has stopped, and commit none behind it either: one may be a restart."""

RESETS = 5
"""Connections in use that are reset before it is more than a process that was killed."""

SYN_AGAIN_NS = 900 * MS
"""A handshake that takes so long had its SYN sent again, a second after the first (RFC 6298): no path is so long."""

LEAKED, LEAKED_EXCHANGES = 20, 3
"""Connections that one client leaves open to one broker, each used so little: clients keep one or two a broker."""

ASKED_AGAIN = 3
"""Lookups of one address without any work there: a client that was told a good one uses it at once."""

USED_AT_ONCE_US = 3_000_000
"""A client connects to an address within moments after it was told; after so long without, it does not reach it."""

UNACKNOWLEDGED = 10
"""Messages that a consumer holds before a broker's limit is a likely reason to send no more: limits are larger."""

WITHOUT_NS = SECOND
"""A message that waits so long while permits are there is not on its way: brokers dispatch within milliseconds."""

MANY, MOSTLY = 20, 0.9
"""Batches of a client below which nothing is said of its habits, and which share of them is nearly all."""

POLLS, POLLS_A_SECOND = 500, 50
"""Questions for messages that find none and come so often: a broker holds them for half a second by default."""

HOT, ITS_SHARE = 0.5, 4
"""Share of the bytes of a topic that one partition takes, and how many times its even share that is at least, where
messages are not spread."""

MANY_PARTITIONS, HOT_BYTES = 6, 1 << 20
"""Partitions and bytes of a topic below which it is nobody's load."""

PACED, PACED_US = 3, 10_000
"""A producer keeps a pace if nine in ten of its pauses are at most so many times the usual one, and that one is longer
than for sending as fast as it can."""

SILENT_US, SILENT_PAUSES = 60_000_000, 10
"""It has stopped if it sent for half of this at least and then nothing for all of it, and for so many times its longest
pause."""

BEATS = 5
"""Requests of brokers that fail within ten seconds, where it lasts: they beat their heart every two
(broker.heartbeat.interval.ms)."""

VOTES = 10
"""Requests for a vote of one controller to another within a minute: an election takes one, and one to try it before; a
quorum that elects nobody tries again every second or two (controller.quorum.election.timeout.ms)."""

BEGUN_AGAIN = 10
"""Polls in a row that begin at one offset: a few may be retries while an application could not process a message."""

TURNS = 5
"""How often clients store one offset by turns that do not take over from each other, but read beside each other."""

USELESS = 0.98
"""Stored size against uncompressed size, of batches whose compression saves nothing."""

STUCK = 3
"""Fetches at one offset that bring no whole message: one or two may be the end of what an answer could hold."""

KEEP_ALIVE_NS = 10 * SECOND
"""A PING without an answer for so long was not merely in flight when its connection was closed: peers wait 30 s by
default, and never less than a few (keepAliveIntervalSeconds)."""

DRY_NS = SECOND
"""A consumer that left the broker without permits for so long in all is slower than its topic."""
