"""Drivers of Kafka clients for Python."""
