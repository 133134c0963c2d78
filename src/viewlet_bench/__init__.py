"""`viewlet bench`: workloads, measured.

    workload         the queries of a workload, compiled
    data, orderbook, imdb    their rows
    feed             rows as one stream of coded batches
    replay           the stream on an engine, timed
    duck             DuckDB re-evaluating beside it
    growth, startup  time over the size of the state; time until a view is there
    views            what tpch, tpcds and finance run, in terms of these
    output, compare  tables and JSON; new figures against earlier ones
    report, page     docs/benchmarks.md

    job                      the Join Order Benchmark over imdb, under both plans
    spark, spark_runs        views on Spark beside Spark SQL
    scaling, scaling_runs    a model of many workers, its costs and its check
    spark_page, *_plots      what the page says and draws of them
    signals_queries, _memory what signals runs, also in a process where its memory is measured

linalg and signals measure by themselves and share the output.
"""
