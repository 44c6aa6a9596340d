from dissectors.iggy.message cimport COVERED, END, MASK64, START, STORED, IggyUnit, MessageRun

cdef str NONE, XXH3
cdef object _ABSENT, function, shown

cpdef object verify(MessageRun run, IggyUnit unit, bytes buf, Py_ssize_t known)
cdef object _verify_messages(MessageRun run, IggyUnit unit, bytes buf, Py_ssize_t known)
cdef object _compute_batch(MessageRun run, IggyUnit unit, object batch, bytes buf)
cdef list _sealed(MessageRun run, IggyUnit unit, object batch)
