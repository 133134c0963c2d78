"""A small compiler: Python functions over numbers -> machine code, which is kept on disk.

    from viewlet.native.compiled import compiled

    @compiled
    def gcd(a: int, b: int) -> int:
        while b != 0:
            a, b = b, a % b
        return a

    gcd(12, 18)         compiled now, or loaded if any process of this user has compiled it before

All that viewlet runs for SQL is compiled here: the functions of storage/, written by hand, and the
kernels of every program, which kernels/ writes as text (native.generated). The package knows
nothing of either; the instructions that they need they register with it.

The language
    values          int (64 bits, `+ - *` wrap around), float (64 bits), bool, tuples of these
    statements      = (also a, b = ...), += and the like, if, while, for, break, continue, return,
                    pass; `for` over range with a step that is known, or over a tuple, turn by turn
    expressions     arithmetic, // and % as Python has them, comparisons (chained as well), and, or,
                    not, a if c else b, tuple[known number], len of a tuple, abs, min, max, int,
                    float, bool, round, pow, some functions of math
    calls           of other compiled functions, by position; of intrinsics
    names           variables have one kind, that of the value they are given first; a name from
                    outside is a number, which is taken in as it is now, or something to call
    annotations     int, float, bool, None and tuples of them bring arguments and results to these
                    kinds; others are for people

A function is translated once for each combination of kinds that it is called with: a key of two
words and one of three become straight code, and what is known then (the length of a tuple, a
constant) decides tests before there is any code.

What it refuses, with file and line (Untranslatable, which is an UnsupportedError)
    strings, lists, dicts, objects, attributes, slices, arrays (addresses stand for them),
    exceptions and `with`, functions inside of functions, arguments by name or by default,
    a variable of two kinds, a function that calls itself, integers beyond 64 bits.
    An intrinsic may raise: integer overflow where `plus` is asked for instead of +, division by
    zero, or an error that a package has registered. Every exception leaves all functions up to the
    call from Python.

Intrinsics are functions of Python with instructions of LLVM in their place (native.intrinsics):

    @intrinsic(loads("i64"))
    def load(address: int, index: int) -> int:
        return ctypes.c_int64.from_address(address + 8 * index).value

The stages, each a module
    function_text   the function's text, parsed, which must be what was imported
    translate, expressions, instructions, lowerings
                    -> LLVM's text. About a millisecond for 30 lines: CREATE VIEW does this for all
                    kernels of a view before it says yes
    machine         -> LLVM's optimizer -> object code, with an entry that CPython calls directly
    optimizer       leaves that for later: the first calls run code that is not optimized
    linker          -> a function in this process. The GIL is free while it runs
    fingerprint, code_cache
                    where code is looked for first

The cache. Code is found under the function's name and a digest of all that it follows from: the
function's own bytecode, the constants and intrinsics that it names, the same of every function that
is taken into it, the text of this compiler, the version of LLVM, the processor. So the edit of a
comment, or of a function that a kernel does not call, costs nothing, and the edit of one that it
calls is never missed. An outlined function is compiled once and not into its callers; these depend
on its name and kinds. Files are signed and are rebuilt where anything about them is wrong
(code_cache has the rules; VIEWLET_CACHE says where they are).

The switch. VIEWLET_NATIVE=0 leaves every function as Python has it, for tests and debuggers, with
the same answers (native.switch).

Why not Numba, which compiles much more of Python? It finds out the types of everything before it
begins, and that is most of its time: 22 s for the kernels of TPC-H Q2, five sixths of it before
LLVM, against 4 s here with all that a first start does; and its import costs 0.25 s where a start
from the cache takes 0.15 s in all. The functions here have nothing to find out. Measured with three
kernels of signals/, written for both, over two million rows (seconds of processor time to compile,
milliseconds to run):

                    Numba compiles  native compiles     Numba runs  native runs
    lateness              0.39 s           0.08 s          3.3 ms       2.9 ms
    merge_order           0.31 s           0.09 s         15.1 ms      11.5 ms
    linear                0.29 s           0.03 s          8.8 ms       6.9 ms

Signals stay with Numba all the same; signals/kernels/__init__.py says why.
"""
