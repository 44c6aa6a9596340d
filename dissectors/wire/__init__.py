"""The alphabet that all decoders share: where wire tables lie, text, codecs."""

from dissectors.compiling.loading import prefer_compiled

prefer_compiled(__path__)
