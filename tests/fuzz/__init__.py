"""A structure-aware fuzzer: mutators for each layer of a capture, from the file's headers to a protocol's own fields.

    values.py   absurd numbers, texts and bytes, and damage that keeps a size
    seeds.py    captures to begin with, as packets and as the frames that their connections carry
    files.py    pcap and pcapng: record and block headers
    packets.py  link layer, IP and TCP headers; loss, order, repetition
    tls.py      TLS records
    kafka.py    pulsar.py  iggy.py   frames, bodies, batches; bodies that the schema allows and nobody sends
    cases.py    a seed number and a case number -> a mutated capture
    check.py    what must hold of every capture
    harness.py  targets for libFuzzer and OSS-Fuzz: each protocol, TCP, TLS, containers
    __main__.py runs cases as long as one likes: `make fuzz`

A mutator is a small function of a random number generator and of what it mutates. A case is a function of its seed
number and case number alone, so a failure is seen again with `python -m tests.fuzz --seed SEED --case NUMBER`.
"""
