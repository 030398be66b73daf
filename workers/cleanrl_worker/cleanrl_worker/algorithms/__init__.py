"""Algorithms written here, as single files in the spirit of CleanRL."""
