"""A capture that can be given away: names, addresses, keys and payloads replaced, everything else as it was.

Nothing of the original is kept but what a protocol tells of (its `spans.py`): a frame begins as filler, and its
structure and numbers are copied into it field by field, names as pseudonyms. What is not understood stays filler.

pseudonyms  what stands for a name, a key, an address: the same for the same, of the same length
frame_copy  a frame that is being made anew
refit       compressed bytes of a given length, of other data
streams     decodes captures and keeps the frames of each connection; then writes them anew
packets     packets around them, with checksums that are right, or wrong by the same difference
"""
