cdef list listeners
cdef dict _sizes

cpdef long long decompressed_size(str codec, data, long long limit) except -1
