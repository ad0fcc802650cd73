#!/bin/bash
# bash: words, arrays, expansions and subshells, as in the build scripts and installers of the world.
declare -A seen
text=""
total=0
for ((i = 1; i <= 60000; i++)); do
  key="key$((i * 7919 % 5003))"
  seen[$key]="${seen[$key]:-} $i"
  if ((i % 7 == 0)); then unset "seen[$key]"; fi
  text+="${key/key/<}>"
  if ((i % 500 == 0)); then
    # Splitting into words is what this is about.
    # shellcheck disable=SC2206
    words=(${text//></ })
    total=$((total + ${#words[@]}))
    text=""
  fi
done
for ((i = 1; i <= 60; i++)); do
  total=$((total + $(set -- ${seen[key$i]:-}; echo $#)))
done
printf '%s\n' "${!seen[@]}" | sort | head -n 3
echo "$total ${#seen[@]}"
