"""TLS, stream -> stream: with the secrets of a key log, the records of a connection become the plaintext they carry.

recognise.py  are these the first bytes of a TLS connection?
keylog.py     NSS key log files: the secrets, by client random
suites.py     the AEAD cipher suites, as a table
keys.py       key schedules of TLS 1.2 and 1.3, and opening one record
record.py     bytes of one direction -> records that know where they came from
hello.py      what ClientHello, ServerHello and EncryptedExtensions say
layer.py      the state of a connection: which keys are in force, in either direction
"""

from dissectors.tls.keylog import KeyLog
from dissectors.tls.recognise import looks_like_tls, sends_client_hello

__all__ = ["KeyLog", "looks_like_tls", "sends_client_hello"]
