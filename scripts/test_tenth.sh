#!/usr/bin/env bash
# A tenth of the slow tests, another one each day: none begins that would not be over in SHOAL_TENTH_MINUTES (10). Those of
# the wheels are left out: `make test-wheel` runs them.
set -euo pipefail
cd "$(dirname "$0")/.."
began=$(date +%s)
limit=$((60 * ${SHOAL_TENTH_MINUTES:-10}))
export SHOAL_TENTH=${SHOAL_TENTH:-$((began / 86400 % 10))} SHOAL_TENTH_UNTIL
echo "slow tests, tenth $SHOAL_TENTH; to run it again: SHOAL_TENTH=$SHOAL_TENTH SHOAL_TENTH_MINUTES=60 make test-tenth"

run() {
    .venv/bin/pytest --ignore tests/test_wheel.py "$@" || [ $? = 5 ] # 5: this tenth has no such test
}
code=0
# First those that run alone, in a part of the time.
SHOAL_TENTH_UNTIL=$((began + limit * 6 / 10))
run -m 'slow and timing' || code=1
SHOAL_TENTH_UNTIL=$((began + limit))
run -n 4 --dist loadgroup -m 'slow and not timing' || code=1
exit $code
