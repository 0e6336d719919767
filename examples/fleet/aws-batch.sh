#!/bin/bash
# An array of sixteen shards and the join that waits for it, as AWS Batch runs them. The image of aws-batch.json is one of
# yours that has bedload; its role may read the snapshot and write the bundles. The user of the image (65532 in that of
# `make image`) must be able to write to /scratch of the host.
#
#   QUEUE=my-queue SNAPSHOT=s3://bucket/snapshot.car.zst BUNDLES=s3://bucket/mainnet examples/fleet/aws-batch.sh
set -eu
: "${QUEUE:?}" "${SNAPSHOT:?}" "${BUNDLES:?}"
aws batch register-job-definition --cli-input-json "file://$(dirname "$0")/aws-batch.json" >/dev/null
shards=$(aws batch submit-job --query jobId --output text --cli-input-json '{
  "jobName": "bedload-shards",
  "jobQueue": "'"$QUEUE"'",
  "jobDefinition": "bedload-shard",
  "arrayProperties": {"size": 16},
  "parameters": {"snapshot": "'"$SNAPSHOT"'", "bundles": "'"$BUNDLES"'"}
}')
aws batch submit-job --query jobId --output text --cli-input-json '{
  "jobName": "bedload-join",
  "jobQueue": "'"$QUEUE"'",
  "jobDefinition": "bedload-shard",
  "dependsOn": [{"jobId": "'"$shards"'"}],
  "containerOverrides": {"command": ["bedload", "bundle", "--join", "'"$BUNDLES"'"]}
}'
