"""Engines that run programmes, in process and on Spark, and the services they share."""
