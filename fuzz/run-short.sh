#!/usr/bin/env bash
# Runs every fuzz target for some seconds each, from the seeds and from what earlier runs have found.
#
#   bash fuzz/run-short.sh SECONDS [TARGET...]      default: 60 seconds, every target
#
# FUZZ_SEED chooses where the search goes (default 1: much the same inputs each time; 0: others each time).
# Works on stable Rust: without a sanitizer, since the targets' code is safe Rust; overflow and debug assertions are on.
# Needs `cargo install cargo-fuzz` and a C++ compiler. A crash ends with an error and leaves its input in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-60}
targets=("${@:2}")
# shellcheck disable=SC2207 # names of targets have no spaces
[ ${#targets[@]} -gt 0 ] || targets=($(cargo fuzz list))

for target in "${targets[@]}"; do
  echo "== fuzz $target, $seconds s"
  mkdir -p "fuzz/corpus/$target" "fuzz/seeds/$target"
  options=(-seed="${FUZZ_SEED:-1}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -print_final_stats=1 -verbosity=0)
  dictionary=fuzz/dictionaries/$target.dict
  if [ -f "$dictionary" ]; then
    options+=(-dict="$dictionary")
  fi
  cargo fuzz run --sanitizer none "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- "${options[@]}"
done
echo "== no crash in ${#targets[@]} targets"
