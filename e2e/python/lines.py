"""Allocates at lines that it tells itself: a line of JSON for each place, as Python's own frames say where that is.

{"file": …, "line": …, "function": …, "bytes": of one block, "blocks": …, "callers": [[function, line], …]}, callers innermost first.
"""
import asyncio
import ctypes
import json
import os
import signal
import sys
import threading
import zlib
from collections import Counter

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
keep = []
truth = Counter()


def tell(size, above=0):
    """Whoever calls this allocates a block of so many bytes on the very same line, or so many above."""
    frame = sys._getframe(1)
    place = (frame.f_code.co_filename, frame.f_lineno - above, frame.f_code.co_qualname, size)
    callers = []
    while frame.f_back is not None:
        frame = frame.f_back
        callers.append((frame.f_code.co_qualname, frame.f_lineno))
    truth[place + (tuple(callers[:8]), len(callers))] += 1


def plain():
    for _ in range(7):
        keep.append(bytearray(10_000)); tell(10_001)
    keep.append([None] * 1_000); tell(8_000)
    keep.append(bytes(20_000)); tell(20_033)
    keep.append(libc.malloc(12_345)); tell(12_345)


def over_several_lines():
    keep.append(
        [
            (bytearray(10_010), tell(10_011)),
            (libc.malloc(
                10_020), tell(10_020, above=1)),
        ]
    )


class Store:
    keep.append(bytearray(10_100)); tell(10_101)

    def __init__(self, size):
        keep.append(bytearray(size)); tell(size + 1)

    @property
    def computed(self):
        return bytearray(10_200), tell(10_201)

    @staticmethod
    def fixed():
        return bytearray(10_300), tell(10_301)

    def __del__(self):
        keep.append(bytearray(10_400)); tell(10_401)


def decorated(function):
    def wrapper(*args):
        return function(*args)
    return wrapper


@decorated
def under_a_decorator():
    keep.append(bytearray(10_500)); tell(10_501)


def generator():
    for size in (10_600, 10_610):
        yield bytearray(size), tell(size + 1)


async def inner():
    await asyncio.sleep(0)
    keep.append(bytearray(10_700)); tell(10_701)


async def outer():
    await asyncio.gather(inner(), inner())


def deep(left):
    if left:
        return deep(left - 1)
    keep.append(bytearray(10_800)); tell(10_801)


def key(item):
    keep.append(bytearray(10_900)); tell(10_901)
    return -item


def thread():
    for _ in range(20):
        keep.append(bytearray(11_000)); tell(11_001)


def catches():
    try:
        raise ValueError(bytearray(11_100), tell(11_101))
    except ValueError as error:
        keep.append((error.args, bytearray(11_110), tell(11_111)))


def späť():
    keep.append(bytearray(11_200)); tell(11_201)


def main():
    plain()
    over_several_lines()
    stores = [Store(10_150) for _ in range(3)]
    keep.append((stores[0].computed, Store.fixed()))
    stores.clear()
    under_a_decorator()
    keep.extend(generator())
    keep.append([(bytearray(11_300), tell(11_301)) for _ in range(2)])
    keep.append({n: (bytearray(11_400), tell(11_401)) for n in range(2)})
    keep.append(list(map(lambda n: (bytearray(11_500), tell(11_501)), range(3))))
    sorted([1, 2], key=key)
    asyncio.run(outer())
    deep(900)
    threads = [threading.Thread(target=thread) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    catches()
    späť()
    exec("\n\nkeep.append(bytearray(11_600)); tell(11_601)")
    exec(compile("def made():\n\n    keep.append(bytearray(11_610)); tell(11_611)\nmade()", "/no/such/fïle.py", "exec"), globals())
    json.loads("[1]", object_hook=None, parse_int=lambda text: keep.append(bytearray(11_700)) or tell(11_701))
    zlib.decompress(zlib.compress(b"x" * 100_000)); eval("keep.append(bytearray(11_800)) or tell(11_801)")


main()
for (file, line, function, size, callers, depth), blocks in truth.items():
    place = {"file": file, "line": line, "function": function, "bytes": size, "blocks": blocks}
    print(json.dumps({**place, "callers": callers, "depth": depth}), flush=True)
if "die" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
os._exit(0)  # with all that was allocated
