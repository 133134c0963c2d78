"""Numba kernels over many keys at once; each takes flat arrays and segment offsets.

Every kernel releases the GIL, is compiled for the types it meets and cached on disk. The ones that
cannot know the size of their output come in two passes, count and fill.
"""
