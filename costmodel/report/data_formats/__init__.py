"""Answers for programs: JSON, CSV, Markdown, Excel, Parquet, and the formats of CI."""
