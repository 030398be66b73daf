"""What a ring file looks like: one header page, then the slots.

    0    magic, version, generation, slot count, frame height, width and channels, slot stride, file size, writer's pid
    256  published: number of the newest whole frame (0: none yet)          } each word alone on its cache line,
    320  state: open, closed, or replaced by a newer generation             } so that one side's stores do not
    384  readers' heartbeat: CLOCK_MONOTONIC in ns, stamped by any reader   } slow the other's loads
    512  sequence word of slot 0, one cache line for each slot
    4096 slot 0: 1 KiB of metadata, then the pixels, rounded up to a page; then slot 1, ...

Frames are numbered from 1 within a generation; frame k goes to slot (k - 1) % slots. A slot's sequence word is 2k - 1
while frame k is being written and 2k once it is whole. So a reader knows not only that a slot is unchanged but which
frame it must hold. All words are aligned 8-byte words in the machine's byte order, written by single stores.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass

MAGIC = b"MOSAICFL"
VERSION = 2
HEADER_BYTES = 4096
PAGE = 4096
CACHE_LINE = 64

# Indexes of 8-byte words in the header.
PUBLISHED = 256 // 8
STATE = 320 // 8
HEARTBEAT = 384 // 8
SEQUENCES = 512 // 8
WORDS_PER_LINE = CACHE_LINE // 8

OPEN, CLOSED, REPLACED = 0, 1, 2

DEFAULT_SLOTS = 4
MAX_SLOTS = 32
MAX_FRAME_BYTES = 64 * 1024 * 1024
MAX_RING_BYTES = 512 * 1024 * 1024
WATCHED_NS = 2_000_000_000
"""A reader whose heartbeat is older than this is gone."""

_HEADER = struct.Struct("=8sIIQIIIIQQQ")
# frame, wall ns, monotonic ns, episode, step, last reward, rolling return, step rate, length of extra, agent
METADATA = struct.Struct("=QQQqqdddI44s")
METADATA_BYTES = 1024
EXTRA_OFFSET = 128
MAX_EXTRA_BYTES = METADATA_BYTES - EXTRA_OFFSET
MAX_AGENT_BYTES = 44


class FastLaneError(Exception):
    """The lane cannot be opened, or a frame does not fit it."""


class StreamTaken(FastLaneError):
    """Another living writer holds this stream."""


@dataclass(frozen=True)
class Header:
    generation: int
    slots: int
    height: int
    width: int
    channels: int
    slot_stride: int
    file_bytes: int
    pid: int

    @classmethod
    def for_frames(cls, shape: tuple[int, int, int], *, slots: int, generation: int, pid: int) -> Header:
        height, width, channels = shape
        frame_bytes = height * width * channels
        if min(shape) < 1 or channels not in (1, 3):
            raise FastLaneError(f"frame shape: got {shape}, allowed: height x width x 1 or 3, none of them 0")
        if frame_bytes > MAX_FRAME_BYTES:
            raise FastLaneError(
                f"frame of {shape}: {frame_bytes} bytes, allowed: at most {MAX_FRAME_BYTES}; set a smaller max_dim"
            )
        if not 2 <= slots <= MAX_SLOTS:
            raise FastLaneError(f"slots: got {slots}, allowed: 2 to {MAX_SLOTS}")
        stride = -(-(METADATA_BYTES + frame_bytes) // PAGE) * PAGE
        total = HEADER_BYTES + slots * stride
        if total > MAX_RING_BYTES:
            raise FastLaneError(f"ring of {slots} x {shape}: {total} bytes, allowed: {MAX_RING_BYTES}; use fewer slots")
        return cls(generation, slots, height, width, channels, stride, total, pid)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.height, self.width, self.channels

    @property
    def frame_bytes(self) -> int:
        return self.height * self.width * self.channels

    def slot_offset(self, slot: int) -> int:
        return HEADER_BYTES + slot * self.slot_stride

    def pack(self) -> bytes:
        fields = (self.generation, self.slots, self.height, self.width, self.channels)
        return _HEADER.pack(MAGIC, VERSION, HEADER_BYTES, *fields, self.slot_stride, self.file_bytes, self.pid)

    @classmethod
    def unpack(cls, data: bytes | mmap.mmap, file_bytes: int) -> Header:
        """Read a header, trusting nothing: whatever passes here can be mapped and read without a fault."""
        if file_bytes < HEADER_BYTES:
            raise FastLaneError(f"not a ring: {file_bytes} bytes, allowed: at least {HEADER_BYTES}")
        magic, version, header_bytes, *fields, stride, total, pid = _HEADER.unpack_from(data)
        if magic != MAGIC:
            raise FastLaneError(f"not a ring: begins with {magic!r}, allowed: {MAGIC!r}")
        if version != VERSION or header_bytes != HEADER_BYTES:
            raise FastLaneError(f"ring version: got {version}, allowed: {VERSION}; update the older of the two sides")
        generation, slots, height, width, channels = fields
        header = cls.for_frames((height, width, channels), slots=slots, generation=generation, pid=pid)
        if (header.slot_stride, header.file_bytes) != (stride, total) or total > file_bytes:
            raise FastLaneError(f"damaged ring: {file_bytes} bytes for {slots} slots of {header.shape}")
        return header
