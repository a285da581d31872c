"""Code that comes and goes, in threads: each block's size says on which line it was allocated, and in which file.

A block of 2,000 + 256 × n + line bytes is of that line of the file `<made n>`, of 20,000 + line bytes of this file itself.
"""
import ctypes
import gc
import os
import sys
import threading
import types

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
malloc = libc.malloc
ROUNDS = int(sys.argv[1])


def here(base):
    malloc(base + sys._getframe(1).f_lineno)


def mark(base=20_000):
    return base + sys._getframe(1).f_lineno


def code_is_made_anew(seed):
    for turn in range(ROUNDS):
        number = (turn * 7 + seed) % 40
        lines = (turn * 13 + seed) % 50
        text = "\n" * lines + "malloc(mark(base)); malloc(mark(base))\n\nmalloc(mark(base))"
        exec(text, {"malloc": malloc, "mark": mark, "base": 2_000 + 256 * 50}) if turn % 5 == 0 else exec(
            compile(text, f"<made {number}>", "exec"), {"malloc": malloc, "mark": mark, "base": 2_000 + 256 * number}
        )


def functions_are_deleted(seed):
    for turn in range(ROUNDS):
        names = {"malloc": malloc, "mark": mark, "base": 2_000 + 256 * (turn % 40)}
        text = "def f():\n" + "    pass\n" * ((turn * 11 + seed) % 40) + "    malloc(mark(base))\n    return [malloc(mark(base)) for _ in '12']"
        exec(compile(text, f"<made {turn % 40}>", "exec"), names)
        names["f"]()
        function = names.pop("f")
        moved = function.__code__.replace(co_firstlineno=60 + turn % 30)
        del function
        types.FunctionType(moved, names)()
        if turn % 50 == 0:
            gc.collect()


def generators_go_to_and_fro(seed):
    def numbers():
        while True:
            malloc(mark())
            yield
            malloc(mark())
            yield from (malloc(mark()) for _ in range(2))
    several = [numbers() for _ in range(5)]
    for turn in range(ROUNDS):
        next(several[(turn * 3 + seed) % 5]); malloc(mark())
        if turn % 17 == 0:
            several[turn % 5] = numbers()


def shapes(seed):
    class Node:
        def __init__(self, other):
            self.other = other
            malloc(mark())

        def __del__(self):
            malloc(mark())

    for turn in range(ROUNDS):
        first = Node(None)
        first.other = Node(first)
        del first
        sorted([3, 1, 2], key=lambda n: malloc(mark()))
        list(map(lambda n: malloc(mark()), range(2)))
        try:
            malloc(mark()); raise KeyError
        except KeyError:
            malloc(mark())
        with_defaults(
            malloc(mark()),
            malloc(
                mark(19_999)
            ),
        )


def with_defaults(*several):
    malloc(mark())


threads = [
    threading.Thread(target=work, args=(seed,))
    for seed, work in enumerate([code_is_made_anew, functions_are_deleted, generators_go_to_and_fro, shapes] * 2)
]
sys.setswitchinterval(1e-5)
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
os._exit(0)  # with all that was allocated
