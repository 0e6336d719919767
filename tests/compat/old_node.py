"""A node with an old RocksDB: old_node.py <library> <database> [--write-first].

It opens the database with all its column families, takes a snapshot before its first write, writes between the records
of every family, flushes, and compacts the last level while the snapshot lives. Then it counts: one line of JSON says how
many records each family had and how many of them it has still, with their values. `--write-first` writes one record
before the snapshot is taken.

<library> is a shared library with RocksDB's C interface, or `rocksdict` for the Python package of that name.
"""

import ctypes
import json
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_ubyte, c_uint64, c_void_p

SPLIT = 10  # one new record for so many old ones


class Shared:
    """RocksDB through its C interface."""

    RESULTS = {
        "list_column_families": POINTER(c_void_p),
        "get_cf": c_void_p,
        "iter_key": c_void_p,
        "iter_value": c_void_p,
        "iter_valid": c_ubyte,
        "get_latest_sequence_number": c_uint64,
        "iter_seek_to_first": None,
        "iter_next": None,
    }

    def __init__(self, library, path, names=None, text=None):
        """Opens a database; with names of column families, makes it with the options of an option text."""
        self.library = ctypes.CDLL(library)
        options = self.call("options_create")
        self.names = names
        if names is None:
            count = c_size_t()
            found = self.check("list_column_families", options, path.encode(), byref(count))
            self.names = [ctypes.cast(found[i], c_char_p).value.decode() for i in range(count.value)]
        else:
            made = self.call("options_create")
            self.check("get_options_from_string", options, (text or "").encode(), made)
            options = made
            for name in ("create_if_missing", "create_missing_column_families"):
                self.call("options_set_" + name, options, c_ubyte(1))
        list_of = lambda kind, items: (kind * len(items))(*items)
        handles = list_of(c_void_p, [None] * len(self.names))
        self.db = self.check(
            "open_column_families",
            options,
            path.encode(),
            c_int(len(self.names)),
            list_of(c_char_p, [name.encode() for name in self.names]),
            list_of(c_void_p, [options] * len(self.names)),
            handles,
        )
        self.handles = dict(zip(self.names, handles))
        self.reading, self.writing = self.call("readoptions_create"), self.call("writeoptions_create")

    def call(self, name, *arguments):
        function = getattr(self.library, "rocksdb_" + name)
        function.restype = self.RESULTS.get(name, c_void_p)
        return function(*[c_void_p(it) if isinstance(it, int) else it for it in arguments])

    def check(self, name, *arguments):
        error = c_char_p()
        result = self.call(name, *arguments, byref(error))
        if error.value:
            sys.exit(f"{name}: {error.value.decode()}")
        return result

    def sequence(self):
        return self.call("get_latest_sequence_number", self.db)

    def records(self, family):
        iterator = self.call("create_iterator_cf", self.db, self.reading, self.handles[family])
        found, size = {}, c_size_t()
        take = lambda name: ctypes.string_at(self.call(name, iterator, byref(size)), size.value)
        self.call("iter_seek_to_first", iterator)
        while self.call("iter_valid", iterator):
            found[take("iter_key")] = take("iter_value")
            self.call("iter_next", iterator)
        self.check("iter_get_error", iterator)
        self.call("iter_destroy", iterator)
        return found

    def get(self, family, key):
        size = c_size_t()
        value = self.check("get_cf", self.db, self.reading, self.handles[family], key, c_size_t(len(key)), byref(size))
        if value is None:
            return None
        bytes_ = ctypes.string_at(value, size.value)
        self.call("free", value)
        return bytes_

    def put(self, family, key, value):
        sizes = c_size_t(len(key)), c_size_t(len(value))
        self.check("put_cf", self.db, self.writing, self.handles[family], key, sizes[0], value, sizes[1])

    def delete(self, family, key):
        self.check("delete_cf", self.db, self.writing, self.handles[family], key, c_size_t(len(key)))

    def delete_range(self, family, start, end):
        sizes = c_size_t(len(start)), c_size_t(len(end))
        self.check("delete_range_cf", self.db, self.writing, self.handles[family], start, sizes[0], end, sizes[1])

    def close(self):
        for handle in self.handles.values():
            self.call("column_family_handle_destroy", handle)
        self.call("close", self.db)

    def snapshot(self):
        return self.call("create_snapshot", self.db)

    def release(self, snapshot):
        self.call("release_snapshot", self.db, snapshot)

    def flush(self, family):
        self.check("flush_cf", self.db, self.call("flushoptions_create"), self.handles[family])

    def compact(self, family):
        options = self.call("compactoptions_create")
        self.call("compactoptions_set_bottommost_level_compaction", options, c_ubyte(2))  # kForce
        none = (None, c_size_t(0))
        self.call("compact_range_cf_opt", self.db, self.handles[family], options, *none, *none)


class Rocksdict:
    """RocksDB through the package rocksdict."""

    def __init__(self, path, names=None, compression=None):
        """Opens a database; with names of column families, makes it with a compression."""
        import rocksdict

        self.module = rocksdict

        def options():
            found = rocksdict.Options(raw_mode=True)
            if names is not None:
                found.create_missing_column_families(True)
            if compression:
                found.set_compression_type(getattr(rocksdict.DBCompressionType, compression)())
            return found

        self.names = names or rocksdict.Rdict.list_cf(path, options())
        families = {name: options() for name in self.names}
        self.db = rocksdict.Rdict(path, options(), column_families=families)
        self.handles = {name: self.db.get_column_family(name) for name in self.names}

    def sequence(self):
        return self.db.latest_sequence_number()

    def records(self, family):
        return dict(self.handles[family].items())

    def get(self, family, key):
        return self.handles[family].get(key)

    def put(self, family, key, value):
        self.handles[family][key] = value

    def delete(self, family, key):
        del self.handles[family][key]

    def delete_range(self, family, start, end):
        self.handles[family].delete_range(start, end)

    def close(self):
        self.handles.clear()
        self.db.close()

    def snapshot(self):
        return self.db.snapshot()

    def release(self, snapshot):
        del snapshot

    def flush(self, family):
        self.handles[family].flush()

    def compact(self, family):
        options = self.module.CompactOptions()
        options.set_bottommost_level_compaction(self.module.BottommostLevelCompaction.force())
        self.handles[family].compact_range(None, None, options)


def main(library, path, *words):
    node = Rocksdict(path) if library == "rocksdict" else Shared(library, path)
    at_first = node.sequence()
    if "--write-first" in words:
        node.put(node.names[0], b"first", b"write")
    before = {name: node.records(name) for name in node.names}
    snapshot = node.snapshot()
    for name, records in before.items():
        for key in list(records)[::SPLIT]:
            node.put(name, key + b"~", b"new")
        node.flush(name)
        node.compact(name)
    node.release(snapshot)
    kept = {
        name: sum(node.get(name, key) == value for key, value in records.items()) for name, records in before.items()
    }
    print(json.dumps({"sequence": at_first, "had": {name: len(it) for name, it in before.items()}, "kept": kept}))


if __name__ == "__main__":
    main(*sys.argv[1:])
