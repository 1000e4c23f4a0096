"""The schemas of serving: engines and serving scenarios."""
