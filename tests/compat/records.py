"""Another program with a RocksDB database: records.py make|show <library> <database> [<options>].

`make` writes a database with several column families: overwritten, deleted and range-deleted keys in several files, and the
last records in the WAL alone. `show` reads all records, and prints a line of JSON: for each column family the count and the
SHA-256 of its keys and values with their lengths.

<library> is as for old_node.py; <options> is an option text, or for rocksdict the name of a compression.
"""

import hashlib
import json
import sys

from old_node import Rocksdict, Shared

FAMILIES = ["default", "numbers", "\n"]
KEYS, VERSIONS = 3000, 3


def value(number, version):
    seed = hashlib.sha256(b"%d %d" % (number, version)).digest()
    return (seed * 40)[: [0, 1, 32, 200, 1200][number % 5]]


def make(node):
    for version in range(VERSIONS):
        for number in range(KEYS):
            if version and number % VERSIONS != version:
                continue
            node.put("default", hashlib.sha256(b"%d" % number).digest(), value(number, version))
            node.put("numbers", number.to_bytes(8, "big"), value(number, version))
            node.put("\n", b"%d" % number if number else b"", value(number, version))
        if version < VERSIONS - 1:
            for name in FAMILIES:
                node.flush(name)
    for number in range(0, KEYS, 7):
        node.delete("numbers", number.to_bytes(8, "big"))
    node.delete_range("numbers", (1000).to_bytes(8, "big"), (1200).to_bytes(8, "big"))


def show(node):
    found = {}
    for name in node.names:
        digest, count = hashlib.sha256(), 0
        for key, data in node.records(name).items():
            count += 1
            for part in key, data:
                digest.update(len(part).to_bytes(4, "big") + part)
        found[name] = [count, digest.hexdigest()]
    print(json.dumps(found))


def main(what, library, path, options=None):
    families = FAMILIES if what == "make" else None
    node = Rocksdict(path, families, options) if library == "rocksdict" else Shared(library, path, families, options)
    {"make": make, "show": show}[what](node)
    node.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
