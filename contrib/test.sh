#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The unit tests, then the tests on each real Slurm release in a lab of its own.
# A release whose packages cannot be fetched is skipped, aloud; the exit status
# is 0 only when all that ran has passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=() skipped=()

# Without these the tests that need them skip, and say so.
contrib/setup.sh web || skipped+=("tests in a browser and with Prometheus: these cannot be fetched")
contrib/setup.sh onnx || skipped+=("test of exported scorers in ONNX Runtime: it cannot be fetched")

echo "== unit tests"
go test ./... || failed+=("unit tests")

echo "== property tests of what must never happen, 10000 random cases each"
contrib/properties.sh 10000 0 || failed+=("property tests")

if [ "$(id -u)" != 0 ]; then
	skipped+=("tests on real Slurm: a lab needs root")
else
	for release in ${RELEASES:-22.05 24.11 26.05}; do
		rc=0
		SLURM=$release contrib/e2e.sh || rc=$?
		case $rc in
		0) ;;
		75) skipped+=("tests on Slurm $release: its packages cannot be fetched") ;;
		*) failed+=("tests on Slurm $release") ;;
		esac
	done
fi

echo
for s in "${skipped[@]}"; do echo "skipped: $s"; done
for f in "${failed[@]}"; do echo "FAILED: $f"; done
if [ ${#failed[@]} -gt 0 ]; then exit 1; fi
echo "all tests that ran have passed (${SECONDS} s)"
