#!/usr/bin/env python3
"""Reads a database that bedload has made, from Python: no bedload, only RocksDB (the package `rocksdict`) and the layout.

    python3 -m pip install rocksdict
    python3 examples/read.py chain bafy2bzace…        # a block of a snapshot, by its CID
    python3 examples/read.py steem 4711               # a block of a block log, by its number

The layout (docs/databases.md): BEDLOAD.json in the directory says which column family has the blocks and what their key is;
the value is the block's bytes as the source has them. The database is opened for reading only, so a node may have it open.
"""

import base64
import hashlib
import json
import sys
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

# Hash functions by their multihash codes: those of Filecoin, and of most of IPFS.
HASHES = {0xB220: lambda data: hashlib.blake2b(data, digest_size=32).digest(), 0x12: lambda data: hashlib.sha256(data).digest()}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    db, wanted = sys.argv[1:]
    record = json.loads((Path(db) / "BEDLOAD.json").read_text())
    key, cid = key_of(wanted, record["key"])
    # Raw: keys and values are bytes, not Python objects.
    with_bytes = Options(raw_mode=True)
    blocks = Rdict(db, with_bytes, column_families={record["column_family"]: with_bytes}, access_type=AccessType.read_only())
    blocks = blocks.get_column_family(record["column_family"])
    block = blocks.get(key)
    if block is None:
        sys.exit(f"{wanted} is not in {db}")
    if cid is not None:
        code, digest = multihash_of(cid)
        assert code not in HASHES or HASHES[code](block) == digest, "the block does not match its CID"
    print(f"{len(block)} bytes, {block[:32].hex()}…")


def key_of(wanted, layout):
    """The key of a block, and its CID where it has one."""
    if layout == "number":
        return int(wanted).to_bytes(4, "big"), None
    if not wanted.startswith("b"):
        sys.exit("only CIDs in base32 (bafy…) are read here")
    text = wanted[1:].upper()
    cid = base64.b32decode(text + "=" * (-len(text) % 8))
    at = len(cid) - len(multihash_bytes(cid))
    return {"cid": cid, "multihash": cid[at:], "digest": multihash_of(cid)[1]}[layout], cid


def multihash_bytes(cid):
    _version, at = varint(cid, 0)
    _codec, at = varint(cid, at)
    return cid[at:]


def multihash_of(cid):
    multihash = multihash_bytes(cid)
    code, at = varint(multihash, 0)
    _length, at = varint(multihash, at)
    return code, multihash[at:]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


main()
