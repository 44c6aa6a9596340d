"""Modules that are compiled to C where a compiler is, and run as the Python that they are where none is.

    cython   what sources ask of Cython's module of this name when they run as Python
    record   what was compiled, and from which sources: written by the build, read at import
    loading  compiled modules or their sources: decided once, when `dissectors` is imported
    marks    how a source says what is compiled
    state    how objects of marked classes are pickled, whether compiled code holds them or not
    saved_state  reading such pickles, whoever wrote them: nothing in them is executed
    declare  marked sources -> what the compiler reads
    build    that -> compiled modules, in a folder of their own
    hook     runs the build when the package is installed

A module is compiled if it marks classes or functions.
"""

from dissectors.compiling.loading import decide

STATE = decide(__path__)  # before any module is loaded that may be compiled
