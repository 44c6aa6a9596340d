"""The alphabet that all decoders share: where wire tables lie, text, codecs."""
