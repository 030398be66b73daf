"""The pages that the daemon serves: static files, no build step, nothing loaded from elsewhere."""

from pathlib import Path

STATIC = Path(__file__).parent / "static"
INDEX = STATIC / "index.html"
