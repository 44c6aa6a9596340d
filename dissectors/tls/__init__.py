"""TLS, stream -> stream: with the secrets of a key log, the records of a connection become the plaintext they carry.

recognise.py  are these the first bytes of a TLS connection?
keylog.py     NSS key log files: the secrets, by client random
suites.py     the AEAD cipher suites, as a table
keys.py       from secrets to keys, and opening one record
record.py     bytes of one direction -> records that know where they came from
hello.py      what ClientHello, ServerHello and EncryptedExtensions say
schedule.py   which keys protect the records, one epoch after another
handshake.py  how long the handshake took, and whether it resumed a session
side.py       one direction: its records, and the plaintext that came of them
layer.py      a connection: when the keys of its directions change, and records after a hole
"""

from dissectors.tls.keylog import KeyLog
from dissectors.tls.recognise import looks_like_tls

__all__ = ["KeyLog", "looks_like_tls"]
