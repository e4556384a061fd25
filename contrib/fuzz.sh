#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# contrib/fuzz.sh [TIME]: every fuzz test of the module, one after another, for
# TIME each. What fails is kept by Go under testdata/fuzz/ of that package.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

time=${1:-20s}
failed=() n=0
while IFS=: read -r file name; do
	n=$((n + 1))
	echo "== $file $name"
	go test "$(dirname "$file")" -run '^$' -fuzz "^$name\$" -fuzztime "$time" || failed+=("$file:$name")
done < <(grep -roE --include='*_test.go' --exclude-dir=.tools '^func Fuzz[A-Za-z0-9_]+' . | sed 's/func //')

if [ ${#failed[@]} -gt 0 ]; then
	printf 'FAILED: %s\n' "${failed[@]}"
	exit 1
fi
echo "$n fuzz tests, $time each: nothing found"
