"""What schedulers did, as Parquet: recorded, described, checked, mixed, split; without Ray and torch."""
