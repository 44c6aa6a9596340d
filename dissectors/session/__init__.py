"""From the events of one connection to the frames of a conversation, and to its rows.

connection.py    what a connection turns out to be: recognition, and the conversation that follows
recognition.py   which protocol it speaks; protocols.py has those that are known
preambles.py     what a proxy says first; foreign.py: peers that speak something else
conversation.py  what a protocol is to the engine
framing.py       bytes of two directions -> frames; inbox.py: one direction; frame.py: what a frame is
search.py        where a frame begins again behind a hole
exchange.py      pending requests, errors, the formulas of `exchanges`; writes rows
resends.py       which bytes were sent more than once
reporter.py      findings of a connection
"""

from dissectors.compiling.loading import prefer_compiled

prefer_compiled(__path__)
