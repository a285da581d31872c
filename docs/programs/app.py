"""Compresses many texts at once."""

import zlib

def compress(texts):
    return [zlib.compressobj() for text in texts]

def read(count):
    return [bytes(20_000) for _ in range(count)]

def main():
    texts = read(200)
    packers = compress(texts)
    print(len(packers))

main()
