"""Who runs the tasks of a job: this machine's processes, or whatever else has the same two methods.

executor.py     what a job asks of an executor
local.py        this process, and others on this machine where the work is large
"""
