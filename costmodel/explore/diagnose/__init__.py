"""Diagnoses a slow step: single causes that would explain a measured time, and measurements that distinguish them."""
