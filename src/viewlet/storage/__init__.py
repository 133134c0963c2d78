"""State in flat arrays: maps, tables, indexes, and the native code that works on them."""

from viewlet.storage.stale import drop_stale_code

drop_stale_code()
