"""Numba kernels over many keys at once; each takes flat arrays and segment offsets.

Every kernel releases the GIL, is compiled for the types it meets and cached on disk. The ones that
cannot know the size of their output come in two passes, count and fill.

Why Numba here, while SQL has a compiler of its own (viewlet.native)?

    user functions      filters, aggregates and pipeline operators take functions that users write
                        over arrays (user_filter, user_panes, incremental): they need all of the
                        Python and NumPy that Numba knows
    arrays              of 65 kernels 45 take slices, index in two dimensions, ask for shapes and
                        types or make arrays; native has numbers and addresses only
    types               one text serves float64, complex128, int64 and bool columns
    vectors             transforms are written in vector instructions through Numba's own hooks
                        (vectors.py, streaming.py)

What it costs (native's docstring has three kernels written for both): Numba compiles a kernel in
0.3 to 0.4 s, native in 0.03 to 0.09 s, and native's code took 0.76 to 0.88 of the time of Numba's.
From the cache a kernel of either is there in 10 ms, but before it `import numba` takes 0.25 s.
So the second compiler would go if native had arrays as a kind of value and users' functions were
the only ones left to Numba; until then no query of signals could do without it, and moving some of
the kernels gains nothing.
"""
