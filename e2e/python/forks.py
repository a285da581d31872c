"""Forked children, each of which allocates at a line of its own while threads of the parent do as well."""
import ctypes
import multiprocessing
import os
import threading

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]


def child(number):
    libc.malloc(30_000 + number)
    deeper(number)
    os._exit(0)


def deeper(number):
    libc.malloc(40_000 + number)


def busy():
    while not done.is_set():
        libc.free(ctypes.c_void_p(libc.malloc(50_000)))


libc.malloc(29_999)
done = threading.Event()
threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
forks = multiprocessing.get_context("fork")
children = [forks.Process(target=child, args=(number,)) for number in range(4)]
for each in children:
    each.start()
for each in children:
    each.join()
done.set()
for thread in threads:
    thread.join()
os._exit(0)
