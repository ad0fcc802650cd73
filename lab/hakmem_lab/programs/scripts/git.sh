#!/bin/bash
# git: the history with all differences, then a pack made from nothing, by one thread.
set -eu
cd repository.git
git log -p --stat --graph main | sha256sum
git shortlog -se main
git rev-list --objects --all | cut -d ' ' -f 1 |
  git -c pack.threads=1 pack-objects --no-reuse-delta --window=30 --stdout -q | sha256sum
