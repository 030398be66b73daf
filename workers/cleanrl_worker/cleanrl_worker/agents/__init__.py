"""Networks of MOSAIC's own PPO."""
