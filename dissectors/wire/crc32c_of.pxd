cdef extern from "crc32c_of.h" nogil:
    unsigned int crc32c_of(const void* data, size_t size)
