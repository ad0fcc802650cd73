#!/bin/bash
# nginx: two workers under load from ab, plain files and compressed answers of its own proxy.
# The server ends with the script, whatever happens.
set -eu
port=$(cat port)
nginx -c "$PWD/nginx.conf" -p "$PWD" -e stderr 2>nginx.log &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for ((try = 0; try < 200; try++)); do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then break; fi
  sleep 0.02
done
load() {
  ab -q -n 6000 -c 16 "$@" 2>&1 | grep -E '^(Complete requests|Failed requests|Non-2xx|HTML transferred)'
}
load -k "http://127.0.0.1:$port/page.txt"
load "http://127.0.0.1:$port/page.txt"
load -H 'Accept-Encoding: gzip' "http://127.0.0.1:$port/proxy/page.txt"
kill -QUIT "$server"
wait "$server"
trap - EXIT
