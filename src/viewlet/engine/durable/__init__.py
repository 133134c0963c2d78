"""What survives a crash: files with checksums, and a log of acknowledged batches. Knows no SQL.

    sealed.py             a file's contents behind magic and checksum
    disk.py               writing, syncing, renaming: every call that a power cut can fall between
    sealed_directory.py   a directory whose MANIFEST has the length and checksum of every file
    segment.py            one preallocated file of the log: records, and how its end is told
    log.py                the log: segment after segment, one sync for all who wait

A database directory (format 1):

    LOCK           held by the process that has the database open
    CURRENT        sealed JSON: format, the snapshot to start from, the first segment after it
    snapshot-N-*/  a sealed directory: what `checkpoint` writes
    log-N          segments; the state is the snapshot with all their records applied in order

The order of calls is what keeps the promise. A file is complete and synced before its name
appears, the directory is synced before anybody is told, and what the old CURRENT names is deleted
last. tests/engine/durable cuts the power after every single call.
"""
