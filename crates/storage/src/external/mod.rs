//! Other people's files: Parquet, CSV, JSON and Arrow, as tables.
