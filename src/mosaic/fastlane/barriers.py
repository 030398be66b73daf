"""Memory ordering between processes, from plain Python.

The ring is a seqlock, so two orders must hold on the machine, not only in the program:

    writer:  sequence := odd   |  pixels, metadata   |  sequence := even
    reader:  sequence          |  pixels, metadata   |  sequence again

(The bar is where nothing may pass.) The GIL orders nothing between two processes, and a free-threaded build has none.
The compiler cannot pass either: each step is a call into the interpreter's or NumPy's object code.

*x86-64.* Ordinary stores become visible in program order and ordinary loads are done in program order (TSO), so
nothing is needed, with one exception: libc's memcpy writes large blocks by non-temporal stores, which are weakly
ordered. It ends them with an sfence, but nothing in front keeps them behind the odd sequence number. From what size on
depends on the caches that libc believes the machine has (16 KiB at the least), and a renderer that draws into the slot
may use them as it likes. So every copy is fenced in front.

*Everything else* (arm64 above all) needs a fence in each of the four places.

The fence is a lock released and then taken again, a lock that nobody else ever touches. CPython's lock is a POSIX
semaphore (sem_post, sem_trywait) or, in newer versions, a byte changed by sequentially consistent compare-and-exchange;
POSIX lists sem_post and sem_trywait among the functions that synchronise memory. In terms of the arm64 memory model:
everything before a store-release is ordered before it, a load-acquire that follows a store-release is ordered after
it (RCsc), and everything after a load-acquire is ordered after that. glibc's sem_post is a store-release there (CASL,
or STLXR before ARMv8.1), its sem_trywait a load-acquire (CASA, LDAXR): seen in the code of Debian's glibc 2.36. So
release-then-acquire is a full fence; acquire-then-release, the usual way round, would not be one. On x86 both halves
are locked instructions, which also wait for non-temporal stores. libatomic's atomic_thread_fence would say the same
more plainly, but is not installed everywhere and costs more through ctypes (230 ns against 100); membarrier(2) costs
microseconds.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable

STRONGLY_ORDERED = frozenset({"x86_64", "amd64"})
Fence = Callable[[], None]


def make_fence() -> Fence:
    """A full memory fence for one thread."""
    lock = threading.Lock()
    lock.acquire()
    release, acquire = lock.release, lock.acquire

    def fence() -> None:
        try:  # noqa: SIM105 - contextlib.suppress costs more than the fence
            release()
        except RuntimeError:  # a KeyboardInterrupt once fell between the two calls and left the lock free
            pass
        acquire()

    return fence


def writer_fences(machine: str | None = None) -> tuple[Fence, Fence | None]:
    """The fences a writer needs before and after its copy on this machine."""
    fence = make_fence()
    return fence, None if _is_strongly_ordered(machine) else fence


def reader_fence(machine: str | None = None) -> Fence | None:
    """The fence a reader needs around its copy on this machine, if any: loads are never weak on x86."""
    return None if _is_strongly_ordered(machine) else make_fence()


def _is_strongly_ordered(machine: str | None) -> bool:
    return (machine or platform.machine()).lower() in STRONGLY_ORDERED
