"""What decoders write into: typed rows of the tables of `records`, which become Arrow columns in blocks.

layout      the fields of a table and what the number in each stands for, derived from `records`
fields      the same fields as constants, for compiled code: EXCHANGE_TIME
pack        numbers of rows as the buffers of Arrow columns; gather: texts
texts       texts, lists and connections -> numbers
table       unfinished rows at slots, finished rows by column
blocks      finished rows -> Arrow
sink        all tables of a run, and the names that decoders learn
late_names  names that a connection does not know: tokens, and what is put in for them
"""

from dissectors.compiling.loading import prefer_compiled

prefer_compiled(__path__)
