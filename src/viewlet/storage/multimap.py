"""A map with all its indexes: what kernels do to records.

Within a batch records are only added: one whose values have all become zero stays linked, and is
skipped by every reader because its values are zero. `sweep` takes such records out when the batch
is done. So the undo log need not know about indexes: `rollback` writes old values back and sweeps.

Contract: `upsert` logs a record's old values the first time a batch touches it, and gives 0 when
the pool, the log or an index is full. The kernel then returns to Python, which makes room, and goes
on at the same update; nothing is done twice.
"""

from __future__ import annotations

from viewlet.errors import ProgramError
from viewlet.native.compiled import compiled
from viewlet.native.intrinsics import intrinsic
from viewlet.native.lowerings import raises
from viewlet.storage.arithmetic import plus
from viewlet.storage.columns import (
    BLOCK,
    CAPACITY,
    CHAIN,
    FREE,
    GONE,
    GROUP_COUNT,
    HEADER,
    INDEXES,
    KEYS,
    KIND,
    LINK,
    LOG,
    LOG_CAPACITY,
    LOGGED,
    LOGGING,
    MARKS,
    MASK,
    NODES_CAPACITY,
    NODES_USED,
    RECORDS,
    SLOTS,
    SPARE,
    STRIDE,
    TOUCHED,
    TREE,
    UNTOUCHED,
    USED,
    VALUES,
    ZEROS,
)
from viewlet.storage.doubles import (
    ELEMENT_WORDS,
    LIMIT,
    Element,
    beside,
    is_some,
    load_element,
    no_element,
    store_element,
    two_sum,
    wide_plus,
)
from viewlet.storage.hashmap import (
    Words,
    empty_slot,
    hash_record,
    hash_words,
    lacks_slot,
    numbers_in,
    record_in,
    slot_for,
    tag_bits,
    take_slot,
)
from viewlet.storage.memory import (
    load,
    load_byte,
    load_half,
    prefetch,
    raw_bits,
    store,
    store_byte,
    store_float,
    store_half,
)
from viewlet.storage.ordered_index import (
    clear_trees,
    link_tree,
    node_words_needed,
    refresh,
    remake,
    unlink_tree,
)
from viewlet.storage.slice_index import link_chain, unlink_chain
from viewlet.storage.tree_layout import LEAF, ROOT, node_at

_AHEAD = 8  # rows of a log


_NULL_KEY = "a key that cannot be NULL is NULL"


@intrinsic(raises(ProgramError, _NULL_KEY))
def refuse_null_key() -> None:
    """A NULL in a key that cannot have one: equalities before have left such rows out, and this is
    not reached unless the program is wrong."""
    raise ProgramError(_NULL_KEY)


@compiled
def upsert(m: int, by: Words, key: Words) -> int:
    """The address of the record with this key, made if need be and logged; 0 when full.

    `by` are the words of the key that the unique index hashes.
    """
    slots = load(m, HEADER + SLOTS)
    mask = load(m, HEADER + MASK)
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    code = hash_words(by)
    tags = tag_bits(mask)
    tag = code & tags
    slot = code & mask
    while True:
        tagged = load_half(slots, slot)
        if tagged < 0:
            break
        if tagged & tags == tag:
            record = tagged & numbers_in(mask)
            at = records + record * stride
            same = True
            for i in range(len(key)):
                same &= load(at, i) == key[i]
            if same:
                return at if keep_old(m, record, at) else 0
        slot = (slot + 1) & mask
    record = take_record(m)
    if record < 0:
        return 0
    at = records + record * stride
    for i in range(len(key)):
        store(at, i, key[i])
    for i in range(load(m, VALUES)):
        store(at, len(key) + i, 0)
    take_slot(m + 8 * HEADER, slot, record, code)
    keep_old(m, record, at)
    if load(m, INDEXES) > 1:
        link_secondary(m, record)
    return at


@compiled
def find_records(m: int, rows: int, count: int, records: int) -> int:
    """The record of each of `count` keys, laid out as in the map; -1 where there is none."""
    unique = m + 8 * HEADER
    width = 8 * load(m, KEYS)
    hits = 0
    for i in range(count):
        record = record_in(unique, slot_for(m, unique, rows + i * width))
        store(records, i, record)
        hits += record >= 0
    return hits


@compiled
def mark_of(marks: int, record: int) -> int:
    """Whether a record in the indexes is logged; of others, whether they are spare."""
    return load_byte(marks, record >> 3) >> (record & 7) & 1


@compiled
def set_mark(marks: int, record: int, mark: int) -> None:
    """Set the bit of one record, 0 or 1."""
    bit = record & 7
    others = load_byte(marks, record >> 3) & ~(1 << bit)
    store_byte(marks, record >> 3, others | mark << bit)


@compiled
def keep_old(m: int, record: int, at: int) -> bool:
    """Log the record's values before their first change in this batch; False when full."""
    if load(m, LOGGING) == 0 or mark_of(load(m, MARKS), record) == TOUCHED:
        return True
    values = load(m, VALUES)
    keys = load(m, KEYS)
    logged = load(m, LOGGED)
    if logged == load(m, LOG_CAPACITY):
        return False
    row = load(m, LOG) + logged * 8 * (values + 1)
    store(row, 0, record)
    for i in range(values):
        store(row, i + 1, load(at, keys + i))
    store(m, LOGGED, logged + 1)
    set_mark(load(m, MARKS), record, TOUCHED)
    return True


@compiled
def take_record(m: int) -> int:
    """The number of a free record, -1 when pool, log or an index is full."""
    if load(m, LOGGING) != 0 and load(m, LOGGED) == load(m, LOG_CAPACITY):
        return -1
    if lacks_room(m):
        return -1
    record = load(m, FREE)
    if record >= 0:
        store(m, FREE, load(load(m, RECORDS) + record * load(m, STRIDE), 0))
        set_mark(load(m, MARKS), record, UNTOUCHED)
        return record
    record = load(m, USED)
    if record == load(m, CAPACITY):
        return -1
    store(m, USED, record + 1)
    return record


@compiled
def lacks_room(m: int) -> bool:
    """Whether a secondary index might not find the slot or the nodes for one more record."""
    for i in range(1, load(m, INDEXES)):
        ix = m + 8 * (HEADER + BLOCK * i)
        if lacks_slot(ix):
            return True
        if load(ix, KIND) == TREE:
            room = load(ix, NODES_CAPACITY) - load(ix, NODES_USED)
            if room < node_words_needed(ix):
                return True
    return False


@compiled
def link_secondary(m: int, record: int) -> None:
    """Enter a new record into every index but the first."""
    for i in range(1, load(m, INDEXES)):
        ix = m + 8 * (HEADER + BLOCK * i)
        if load(ix, KIND) == CHAIN:
            link_chain(m, ix, record)
        else:
            link_tree(m, ix, record)


@compiled
def add_int(m: int, at: int, word: int, by: int) -> None:
    """value += by"""
    new = plus(load(at, word), by)
    store(at, word, new)
    if new == 0:
        store(m, ZEROS, 1)


@compiled
def add_element(m: int, at: int, word: int, by: Element) -> None:
    """The same for a sum of DOUBLE."""
    old = load_element(at, word)
    high, error = two_sum(old[0], by[0])
    if (raw_bits(error) | beside(old) | beside(by) == 0) & (abs(high) < LIMIT):
        store_float(at, word, high)
        if high == 0.0:
            store(m, ZEROS, 1)
        return
    new = wide_plus(old, by)
    store_element(at, word, new)
    if not is_some(new):
        store(m, ZEROS, 1)


@compiled
def refresh_trees(m: int, at: int) -> None:
    """Bring the sums of all ordered indexes up to date with a record."""
    record = (at - load(m, RECORDS)) // load(m, STRIDE)
    for i in range(1, load(m, INDEXES)):
        ix = m + 8 * (HEADER + BLOCK * i)
        if load(ix, KIND) == TREE:
            refresh(m, ix, record)


@compiled
def remake_trees(m: int, at: int) -> None:
    """The same where sums above may be half done, because one of them was too large."""
    record = (at - load(m, RECORDS)) // load(m, STRIDE)
    for i in range(1, load(m, INDEXES)):
        ix = m + 8 * (HEADER + BLOCK * i)
        if load(ix, KIND) == TREE:
            remake(m, ix, record)


@compiled
def is_dead(m: int, at: int) -> bool:
    """Whether all values of a record are zero, so that it need not exist."""
    keys = load(m, KEYS)
    return all_zero(at, keys, load(m, VALUES))


@compiled
def all_zero(at: int, start: int, count: int) -> bool:
    """Whether so many words from a start are all zero."""
    i = 0
    while i < count and load(at, start + i) == 0:
        i += 1
    return i == count


@compiled
def remove(m: int, record: int) -> None:
    """Take a record out of all indexes; a logged one stays readable until the log is emptied."""
    at = load(m, RECORDS) + record * load(m, STRIDE)
    unique = m + 8 * HEADER
    empty_slot(m, unique, slot_for(m, unique, at))
    for i in range(1, load(m, INDEXES)):
        ix = m + 8 * (HEADER + BLOCK * i)
        if load(ix, KIND) == CHAIN:
            unlink_chain(m, ix, record)
        else:
            unlink_tree(m, ix, record)
    if load(m, LOGGING) != 0:
        set_mark(load(m, MARKS), record, GONE)
    else:
        release(m, record)


@compiled
def release(m: int, record: int) -> None:
    """Give a removed record to the free list."""
    store(load(m, RECORDS) + record * load(m, STRIDE), 0, load(m, FREE))
    store(m, FREE, record)
    set_mark(load(m, MARKS), record, SPARE)


@compiled
def forget_log(m: int) -> None:
    """Empty the log: no record is touched any more, and those that are gone may be used again."""
    log = load(m, LOG)
    marks = load(m, MARKS)
    row_size = 8 * (load(m, VALUES) + 1)
    for i in range(load(m, LOGGED)):
        record = load(log + i * row_size, 0)
        if mark_of(marks, record) == GONE:
            release(m, record)
        else:
            set_mark(marks, record, UNTOUCHED)
    store(m, LOGGED, 0)


@compiled
def expect_removal(m: int, record: int) -> None:
    """Ask for the cache lines that `remove` will need, if it comes to that."""
    at = load(m, RECORDS) + record * load(m, STRIDE)
    if is_dead(m, at):
        unique = m + 8 * HEADER
        slot = hash_record(unique, at) & load(unique, MASK)
        prefetch(load(unique, SLOTS) + 4 * slot)
        for i in range(1, load(m, INDEXES)):
            ix = m + 8 * (HEADER + BLOCK * i)
            if load(ix, KIND) == TREE:
                prefetch(node_at(ix, load_half(at, 2 * load(ix, LINK) + LEAF)))


@compiled
def sweep(m: int) -> int:
    """Remove the touched records that have become nothing; all of them if the log is off."""
    if load(m, ZEROS) == 0:
        return 0
    removed = 0
    logged = load(m, LOGGING) != 0
    count = load(m, LOGGED) if logged else load(m, USED)
    log = load(m, LOG)
    row_size = 8 * (load(m, VALUES) + 1)
    for i in range(count):
        # Records of a log lie anywhere, and so does what has to be changed to take one out.
        if logged and i + 2 * _AHEAD < count:
            far = load(log + (i + 2 * _AHEAD) * row_size, 0)
            prefetch(load(m, RECORDS) + far * load(m, STRIDE))
            expect_removal(m, load(log + (i + _AHEAD) * row_size, 0))
        record = load(log + i * row_size, 0) if logged else i
        at = load(m, RECORDS) + record * load(m, STRIDE)
        if is_dead(m, at) and mark_of(load(m, MARKS), record) == load(m, LOGGING):
            remove(m, record)
            removed += 1
    store(m, ZEROS, 0)
    return removed


@compiled
def rollback(m: int) -> int:
    """Write the logged values back and remove the records that the batch had made."""
    values = load(m, VALUES)
    keys = load(m, KEYS)
    for i in range(load(m, LOGGED)):
        row = load(m, LOG) + i * 8 * (values + 1)
        at = load(m, RECORDS) + load(row, 0) * load(m, STRIDE)
        for j in range(values):
            store(at, keys + j, load(row, j + 1))
        if load(m, INDEXES) > 1:
            remake_trees(m, at)
    store(m, ZEROS, 1)
    removed = sweep(m)
    forget_log(m)
    return removed


@compiled
def clear_buffer(m: int) -> None:
    """Forget all records. O(records), or one pass over the tables where that is less.

    A buffer has no log and is not swept: no record has a mark, and all are in the indexes.
    """
    used = load(m, USED)
    if used == 0:
        return
    for i in range(load(m, INDEXES)):
        ix = m + 8 * (HEADER + BLOCK * i)
        slots = load(ix, SLOTS)
        mask = load(ix, MASK)
        if used * 4 > mask:
            for slot in range(mask + 1):
                store_half(slots, slot, -1)
        else:
            for record in range(used):
                if holds_slot(m, ix, record):
                    # Slots already emptied lie in between, so only the record itself ends it.
                    at = load(m, RECORDS) + record * load(m, STRIDE)
                    slot = hash_record(ix, at) & mask
                    while record_in(ix, slot) != record:
                        slot = (slot + 1) & mask
                    store_half(slots, slot, -1)
        store(ix, GROUP_COUNT, 0)
        if load(ix, KIND) == TREE:
            clear_trees(ix)
    store(m, USED, 0)
    store(m, FREE, -1)
    store(m, ZEROS, 0)


@compiled
def holds_slot(m: int, ix: int, record: int) -> bool:
    """Whether the record is the one in its group's slot: head of a chain or of a tree."""
    at = load(m, RECORDS) + record * load(m, STRIDE)
    kind = load(ix, KIND)
    if kind == CHAIN:
        return load_half(at, 2 * load(ix, LINK) + 1) < 0
    if kind == TREE:
        return load_half(at, 2 * load(ix, LINK) + ROOT) >= 0
    return True


@compiled
def clear_column(m: int, word: int, width: int) -> bool:
    """Set one value to zero in all records, logged; False when full, to be called again."""
    for record in range(load(m, USED)):
        at = load(m, RECORDS) + record * load(m, STRIDE)
        bits = load(at, word)
        if width == ELEMENT_WORDS:
            bits |= beside(load_element(at, word))
        if bits != 0:
            if not keep_old(m, record, at):
                return False
            store(at, word, 0)
            if width == ELEMENT_WORDS:
                store_element(at, word, no_element())
            if load(m, INDEXES) > 1:
                refresh_trees(m, at)
    store(m, ZEROS, 1)
    return True


@compiled
def begin(m: int, logging: int) -> None:
    """Start a batch, which can be undone if it is logged (1, not 0)."""
    forget_log(m)
    store(m, LOGGING, logging)


@compiled
def begin_all(maps: int, count: int, logging: int) -> None:
    """Start a batch on all maps whose descriptors' addresses stand at `maps`."""
    for i in range(count):
        begin(load(maps, i), logging)


@compiled
def next_all(maps: int, count: int) -> None:
    """Commit the batch before and start one that is logged, in one call."""
    for i in range(count):
        m = load(maps, i)
        sweep(m)
        begin(m, 1)


@compiled
def commit_all(maps: int, count: int) -> None:
    """Remove from each of the maps what the batch left without a value."""
    for i in range(count):
        sweep(load(maps, i))


@compiled
def rollback_all(maps: int, count: int) -> None:
    """Write back in each of the maps what the batch changed."""
    for i in range(count):
        rollback(load(maps, i))
