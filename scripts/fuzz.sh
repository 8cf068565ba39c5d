#!/usr/bin/env bash
# Runs a fuzz target for some seconds: scripts/fuzz.sh TARGET SECONDS; with FUZZ_RUNS=N no more than N inputs, the same each
# time. Needs a C++ compiler; a stable Rust is enough, since
# the coverage passes of LLVM are asked for by name. Findings are left in fuzz/artifacts/TARGET, with the bytes.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
target=$1 seconds=$2
command -v c++ >/dev/null || { echo "fuzzing needs a C++ compiler: install g++ or clang" >&2; exit 1; }
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
# With a target given, the flags are not for build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
cargo build --release --bins --target "$host" # all of them: the engine is compiled but once
mkdir -p "artifacts/$target" "found/$target"
case $target in
    tar | zip) longest=16384 ;; # the smallest tar archive of a few entries has that
    *) longest=4096 ;;
esac
exec "target/$host/release/$target" "found/$target" "corpus/$target" -max_total_time="$seconds" -max_len="$longest" \
    ${FUZZ_RUNS:+-seed=1 -runs="$FUZZ_RUNS"} -artifact_prefix="artifacts/$target/" -dict="$target.dict" -print_final_stats=1 -timeout=10
