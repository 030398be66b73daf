"""The writing end of a ring: one copy in, no locks, no allocation."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from mosaic.fastlane import layout
from mosaic.fastlane.barriers import writer_fences
from mosaic.fastlane.layout import PUBLISHED, FastLaneError, Header, StreamTaken

Pixels = NDArray[np.uint8]
NAN = float("nan")
_UINT8 = np.dtype(np.uint8)
_FLOCK = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, length, pid
_Metadata = tuple[int, int, float, float, float, bytes, bytes]
_pack_metadata = layout.METADATA.pack_into
_wall_ns, _monotonic_ns = time.time_ns, time.monotonic_ns


def _lock_request(kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)


def _unlock(descriptor: int) -> None:
    # Not by closing alone: the mapping and forked children hold the same open file.
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock_request(fcntl.F_UNLCK))


def is_written(descriptor: int) -> bool:
    """Whether a living writer holds the ring open: asked of the kernel, without taking the lock oneself."""
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock_request(fcntl.F_WRLCK))
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


class FastLaneWriter:
    """Publishes frames of one shape into one stream's ring. One thread at a time.

    The ring appears under its name only when it is whole (a rename), and belongs to this writer until `close` or the
    process's end, however it ends: a second writer gets `StreamTaken` while this one lives, and takes over the
    name under the next generation once it is gone.
    """

    def __init__(self, path: Path, shape: tuple[int, int, int], *, slots: int = layout.DEFAULT_SLOTS) -> None:
        self.path = path
        self.slots = slots
        self._descriptor = -1
        self._open(shape)

    def _open(self, shape: tuple[int, int, int]) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)  # two writers may be after the same name; held for microseconds
            generation = self._next_generation()
            header = Header.for_frames(shape, slots=self.slots, generation=generation, pid=os.getpid())
            temporary = self.path.with_name(f".{self.path.name}.tmp")
            temporary.unlink(missing_ok=True)  # of one that was killed just here: nobody else has the folder's lock
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                # A sparse file on a full tmpfs would give SIGBUS in the middle of a copy; this gives ENOSPC now.
                os.posix_fallocate(descriptor, 0, header.file_bytes)
                memory = mmap.mmap(descriptor, header.file_bytes)
                memory[: len(header.pack())] = header.pack()
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock_request(fcntl.F_WRLCK))
                temporary.replace(self.path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                os.close(descriptor)
                raise
        finally:
            os.close(folder)
        self._adopt(header, memory, descriptor)

    def _next_generation(self) -> int:
        try:
            existing = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return 1
        try:
            if is_written(existing):
                raise StreamTaken(f"stream {self.path.stem}: written by another living process; use another name")
            return Header.unpack(os.pread(existing, layout.HEADER_BYTES, 0), os.fstat(existing).st_size).generation + 1
        except FastLaneError as error:
            if isinstance(error, StreamTaken):
                raise
            return 1  # not a ring of ours: replaced
        finally:
            os.close(existing)

    def _adopt(self, header: Header, memory: mmap.mmap, descriptor: int) -> None:
        self.header = header
        self.shape = header.shape
        self._memory = memory
        self._descriptor = descriptor
        self._words = memoryview(memory)[: layout.HEADER_BYTES].cast("Q")
        self._frame = 0  # number of the newest published frame
        self._fence_before, self._fence_after = writer_fences()
        # All that a publish needs to know of each slot, looked up once: sequence word, pixels, offset of the metadata.
        self._turns: list[tuple[int, Pixels, int]] = []
        for slot in range(header.slots):
            offset = header.slot_offset(slot)
            flat = np.frombuffer(memory, np.uint8, header.frame_bytes, offset + layout.METADATA_BYTES)
            word = layout.SEQUENCES + slot * layout.WORDS_PER_LINE
            self._turns.append((word, flat.reshape(header.shape), offset))

    @property
    def generation(self) -> int:
        return self.header.generation

    @property
    def published(self) -> int:
        return self._frame

    @property
    def heartbeat_ns(self) -> int:
        """When a reader last looked, on the monotonic clock; 0: never."""
        return self._words[layout.HEARTBEAT]

    def is_watched(self, now_ns: int) -> bool:
        return now_ns - self._words[layout.HEARTBEAT] < layout.WATCHED_NS

    def publish(
        self,
        pixels: Pixels,
        episode: int = 0,
        step: int = 0,
        last_reward: float = 0.0,
        rolling_return: float = NAN,
        step_rate_hz: float = 0.0,
        agent: bytes = b"",
        extra: bytes = b"",
    ) -> None:
        """Copy one frame of the ring's shape, of any memory layout, into the next slot, with its metadata."""
        # Pictures that came through a pipe have a dtype object of their own, equal to but not the one of all others.
        if pixels.shape != self.shape or (pixels.dtype is not _UINT8 and pixels.dtype != _UINT8):
            self._refuse(pixels)
        frame = self._frame + 1
        words = self._words
        word, slot, offset = self._turns[self._frame % self.slots]
        words[word] = 2 * frame - 1
        self._fence_before()
        if pixels is not slot:  # drawn in place
            slot[...] = pixels
        _pack_metadata(
            self._memory,
            offset,
            frame,
            _wall_ns(),
            _monotonic_ns(),
            episode,
            step,
            last_reward,
            rolling_return,
            step_rate_hz,
            len(extra),
            agent,
        )
        if extra:
            self._write_extra(offset, extra)
        fence = self._fence_after
        if fence is not None:
            fence()
        # Should an exception (a signal handler's, say) end this early, no number is ever given to two frames: up to
        # here nothing whole was shown under it, and from here on it counts as used.
        self._frame = frame
        words[word] = 2 * frame
        if fence is not None:
            fence()  # else a reader could be sent to a slot whose frame it cannot see yet: harmless, but a lost turn
        words[PUBLISHED] = frame

    def frame_buffer(
        self,
        episode: int = 0,
        step: int = 0,
        last_reward: float = 0.0,
        rolling_return: float = NAN,
        step_rate_hz: float = 0.0,
        agent: bytes = b"",
        extra: bytes = b"",
    ) -> _FrameBuffer:
        """A context whose value is the next slot's pixels, to draw into without any copy; published on leaving.

        The pixels still hold an older frame: draw all of them. An exception inside publishes nothing.
        """
        return _FrameBuffer(self, (episode, step, last_reward, rolling_return, step_rate_hz, agent, extra))

    def reopen(self, shape: tuple[int, int, int]) -> None:
        """Go on with frames of another shape under the next generation; readers follow."""
        old_words, old_descriptor = self._words, self._descriptor
        _unlock(old_descriptor)
        try:
            self._open(shape)
        except BaseException:
            self.close()
            raise
        old_words[layout.STATE] = layout.REPLACED
        os.close(old_descriptor)

    def close(self) -> None:
        """Mark the stream as ended and give up its name. The last frames stay readable."""
        if self._descriptor >= 0:
            self._words[layout.STATE] = layout.CLOSED
            _unlock(self._descriptor)
            self.abandon()

    def abandon(self) -> None:
        """Forget the ring without touching it: in a forked child it belongs to the parent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> FastLaneWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.abandon()

    def _refuse(self, pixels: Pixels) -> None:
        raise FastLaneError(f"frame: got {pixels.dtype} {pixels.shape}, allowed: uint8 {self.shape}; reopen() first")

    def _write_extra(self, offset: int, extra: bytes) -> None:
        if len(extra) > layout.MAX_EXTRA_BYTES:
            raise FastLaneError(f"extra: {len(extra)} bytes of JSON, allowed: at most {layout.MAX_EXTRA_BYTES}")
        start = offset + layout.EXTRA_OFFSET
        self._memory[start : start + len(extra)] = extra


class _FrameBuffer:
    """One turn of `FastLaneWriter.frame_buffer`; part of the writer."""

    __slots__ = ("_metadata", "_slot", "_writer")

    def __init__(self, writer: FastLaneWriter, metadata: _Metadata) -> None:
        self._writer = writer
        self._metadata = metadata

    def __enter__(self) -> Pixels:
        writer = self._writer
        word, self._slot, _ = writer._turns[writer._frame % writer.slots]
        writer._words[word] = 2 * writer._frame + 1
        writer._fence_before()
        return self._slot

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._writer.publish(self._slot, *self._metadata)
