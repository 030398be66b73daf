"""Adapting modules at the moment they are imported: what is not imported costs nothing and is not touched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

Adapter = Callable[[ModuleType], None]


class _AdaptingLoader(Loader):
    def __init__(self, real: Loader, adapters: Sequence[Adapter]) -> None:
        self._real = real
        self._adapters = adapters

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module must look as if nobody had been here: pickling and resources go by its loader.
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        for adapt in self._adapters:
            adapt(module)


class ImportAdapters(MetaPathFinder):
    """Register adapters by module name and `install()`; what is imported already is adapted at once."""

    def __init__(self) -> None:
        self._adapters: dict[str, list[Adapter]] = {}

    def add(self, module: str, adapt: Adapter) -> None:
        if module in sys.modules:
            adapt(sys.modules[module])
            return
        self._adapters.setdefault(module, []).append(adapt)

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._adapters:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _AdaptingLoader(spec.loader, self._adapters[fullname])
        return spec
