cdef extern from *:
    """
    #define ABSENT (-0x7FFFFFFFFFFFFFFFLL - 1)
    """
    const long long ABSENT
