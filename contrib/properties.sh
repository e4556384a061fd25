#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# contrib/properties.sh [CASES [OTHERS]]: the property tests that
# docs/design/safety.md names, over CASES random cases each (10000), then all
# others over OTHERS (1000).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

cases=${1:-10000} others=${2:-1000}
failed=()

# properties FILE... prints the name of each test function that calls rapid.Check.
properties() {
	awk '/^func /{name=$2; sub(/\(.*/, "", name)} /rapid\.Check\(/ && name ~ /^Test/ {print name}' "$@" | sort -u
}

# run DIR CASES NAME... runs the tests and prints a line for each.
run() {
	local dir=$1 cases=$2 pattern out
	shift 2
	[ $# -gt 0 ] || return 0
	pattern="^($(IFS='|'; echo "$*"))\$"
	if ! out=$(go test "$dir" -count=1 -timeout 60m -run "$pattern" -rapid.checks="$cases" -v 2>&1); then
		failed+=("$dir")
		printf '%s\n' "$out" | grep -v 'rapid. draw' | tail -30
	fi
	printf '%s\n' "$out" | sed -n "s|^--- \(.*\)|  $dir, $cases cases: \1|p"
	n=$((n + $#))
}

# part CASES WANT runs the properties that safety.md names, or does not name.
part() {
	local start=$SECONDS dir names name
	n=0
	while read -r dir; do
		names=()
		while read -r name; do
			if grep -q "\`$name\`" docs/design/safety.md; then [ "$2" = named ]; else [ "$2" = others ]; fi && names+=("$name")
		done < <(properties "$dir"/*_test.go)
		run "$dir" "$1" "${names[@]}"
	done < <(grep -rl --include='*_test.go' --exclude-dir=.tools 'rapid\.Check(' . | xargs -r -n1 dirname | sort -u)
	echo "$n property tests ($2), $1 random cases each, $((SECONDS - start)) s"
}

part "$cases" named
[ "$others" = 0 ] || part "$others" others
if [ ${#failed[@]} -gt 0 ]; then
	printf 'FAILED: %s\n' "${failed[@]}"
	exit 1
fi
