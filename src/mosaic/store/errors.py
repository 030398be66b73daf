"""What can be wrong with a store as a whole."""


class StoreError(Exception):
    """A run's store cannot be used; the message is one line for people."""


class StoreMissing(StoreError):
    """There is no store (yet): no attempt of the run has started."""


class StoreForeign(StoreError):
    """The file is not a MOSAIC store."""


class StoreTooNew(StoreError):
    """The store was written by a newer MOSAIC."""
