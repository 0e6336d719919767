#!/bin/bash
# Sixteen shards, four at once on this machine; `--sshlogin` adds others.
#
#   SNAPSHOT=snapshot.car.zst BUNDLES=/srv/mainnet SCRATCH=/var/tmp examples/fleet/parallel.sh
set -eu
: "${SNAPSHOT:?}" "${BUNDLES:?}" "${SCRATCH:?}"
seq 0 15 | parallel --will-cite --quote --jobs 4 --halt soon,fail=1 \
  bedload import "$SNAPSHOT" --shard {}/16 --bundle "$BUNDLES" --work-dir "$SCRATCH"
bedload bundle --join "$BUNDLES"
