"""`viewlet bench`: workloads, measured.

    workload         the queries of a workload, compiled
    data, orderbook  their rows
    feed             rows as one stream of coded batches
    replay           the stream on an engine, timed
    duck             DuckDB re-evaluating beside it
    growth, startup  time over the size of the state; time until a view is there
    views            what tpch, tpcds and finance run, in terms of these
    output, report   tables, JSON, and docs/benchmarks.md

linalg, signals and spark measure by themselves and share the output.
"""
