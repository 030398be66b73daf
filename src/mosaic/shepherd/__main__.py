"""`python -m mosaic.shepherd RUN_DIR`"""

from __future__ import annotations

import sys

from mosaic.system import HAS_RUNS, NEEDS_LINUX


def main() -> int:
    if not HAS_RUNS:
        print(f"shepherd: {NEEDS_LINUX}", file=sys.stderr)
        return 2
    if len(sys.argv) != 2:
        print("usage: python -m mosaic.shepherd RUN_DIR", file=sys.stderr)
        return 2
    # msgspec takes typing_extensions if it can, for features that we do not use: 30 ms of every start.
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    import msgspec  # noqa: F401

    del sys.modules["typing_extensions"]
    from mosaic.shepherd.tend import tend

    return tend(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
