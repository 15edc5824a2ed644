"""Datasets of scheduling decisions as Parquet: recording, checks, mixing and splitting; no Ray or torch."""
