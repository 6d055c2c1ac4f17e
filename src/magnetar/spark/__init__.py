"""The data pipeline on Apache Spark: a source and a sink of the Python Data Source API."""
