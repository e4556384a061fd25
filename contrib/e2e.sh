#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The tests on one real Slurm: SLURM=24.11 contrib/e2e.sh. They are Go tests
# behind the build tag "lab". The lab is one of their own, test-$SLURM, and is
# removed at the end whatever happened; KEEP=1 leaves it up. Exit status 75
# means that the release's packages cannot be fetched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export SLURM=${SLURM:-22.05}
export LAB=test-$SLURM
unset SLURM_CONF # leaks into the lab's clients

# Packages that have a test file behind the tag.
mapfile -t packages < <(grep -rlE --include='*_test.go' --exclude-dir=.tools '^//go:build .*\blab\b' . |
	xargs -r dirname | sort -u)
if [ ${#packages[@]} -eq 0 ]; then
	echo "no package has tests behind the build tag lab" >&2
	exit 1
fi

envfile=$(mktemp)
finish() {
	rm -f "$envfile"
	if [ "${KEEP:-0}" = 1 ]; then
		echo "the lab stays up: LAB=$LAB contrib/lab/lab.sh down removes it" >&2
	else
		contrib/lab/lab.sh down || true
	fi
}
trap finish EXIT
trap 'exit 130' INT TERM

echo "== tests on Slurm $SLURM: ${packages[*]}"
contrib/lab/lab.sh up
contrib/lab/lab.sh env >"$envfile"
LAB_ENV_FILE=$envfile go test -tags lab -count=1 -timeout 20m -p 1 "${packages[@]}"
