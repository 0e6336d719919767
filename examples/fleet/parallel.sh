#!/bin/bash
# Sixteen shards, four at once on this machine; `--sshlogin` adds others.
#
#   SNAPSHOT=snapshot.car.zst BUNDLES=/srv/mainnet SCRATCH=/var/tmp examples/fleet/parallel.sh
set -eu
: "${SNAPSHOT:?}" "${BUNDLES:?}" "${SCRATCH:?}"
export SNAPSHOT BUNDLES SCRATCH
seq 0 15 | parallel --will-cite --jobs 4 --halt soon,fail=1 '
  shard=$SCRATCH/bedload-{}
  { [ -e "$shard" ] || bedload import "$SNAPSHOT" --shard {}/16 --db "$shard"; } &&
    bedload bundle "$shard" --to "$BUNDLES" && rm -r "$shard"'
bedload bundle --join "$BUNDLES"
