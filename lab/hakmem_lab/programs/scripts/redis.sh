#!/bin/bash
# redis: a server that is loaded by its own benchmark, then filled anew with commands of all types.
# What is printed depends on the commands alone. The server ends with the script, whatever happens.
set -eu
socket=$PWD/redis.sock
redis-server --port 0 --unixsocket "$socket" --save '' --appendonly no \
  --enable-debug-command local >redis.log &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
say() { redis-cli -s "$socket" "$@"; }
for ((try = 0; try < 200; try++)); do
  if say ping >/dev/null 2>&1; then break; fi
  sleep 0.02
done
redis-benchmark -s "$socket" -q -t set,get,lpush,rpop,sadd,hset,zadd,lrange_100,mset \
  -n 30000 -c 20 -P 8 -r 20000 -d 200 >/dev/null
say flushall
say --pipe <redis.txt | grep errors
say debug digest
say dbsize
say shutdown nosave || true
wait "$server"
trap - EXIT
