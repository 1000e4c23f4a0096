"""What training and serving share: plan batches, values by stage, memoisation, limits, results."""
