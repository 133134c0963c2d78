"""Engines that run programs, in process and on Spark, and the services they share."""
