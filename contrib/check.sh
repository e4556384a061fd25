#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every check of the sources. All of them run; the exit status is 0 only when
# none has failed. A check whose tool or network is not there says so.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

failed=()

step() {
	local name=$1 start=$SECONDS
	shift
	if "$@"; then
		printf 'ok    %-16s %3d s\n' "$name" $((SECONDS - start))
	else
		printf 'FAIL  %-16s %3d s\n' "$name" $((SECONDS - start))
		failed+=("$name")
	fi
}

# sources PATTERN... lists the files of the work tree, those not yet added too.
sources() { git ls-files -co --exclude-standard -- "$@" | while read -r f; do [ ! -f "$f" ] || echo "$f"; done; }

formatted() {
	local bad
	bad=$(sources '*.go' | xargs -r gofmt -l)
	[ -z "$bad" ] || {
		printf 'not gofmt-ed (gofmt -w FILE):\n%s\n' "$bad"
		return 1
	}
}

# vet reads the tests behind the tag lab too, which no other check compiles.
vet() { go vet ./... && go vet -tags lab ./...; }

lint() { golangci-lint run --timeout 10m; }

# rules are the tests of the repository itself: import map, purity, licence
# lines, file length, links.
rules() { go test -count=1 .; }

tidy() { go mod tidy -diff; }

# tree_state changes with any change of the work tree.
tree_state() { (git status --porcelain; git diff) | sha256sum; }

generated() {
	local before
	git grep -qE --untracked '^//go:generate ' -- '*.go' || return 0
	before=$(tree_state)
	go generate ./... || return 1
	[ "$before" = "$(tree_state)" ] || {
		echo 'generated files were not up to date: look at git diff and commit them'
		return 1
	}
}

# licences fails on a module whose licence rifling may not be distributed with.
licences() { go run ./contrib/packaging/notices >/dev/null; }

# scripts follows a script into what it sources; such parts have no first line
# of their own and make no sense alone. SC1091 is about files of a lab.
scripts() {
	local f files=()
	while read -r f; do
		if head -n 1 "$f" | grep -qaE '^#!.*\b(ba)?sh\b'; then files+=("$f"); fi
	done < <(sources .ci contrib etc)
	shellcheck -x -e SC1091 "${files[@]}"
}

# units lays the unit files and stand-ins for the programs out as a system
# would have them, for systemd-analyze to read.
units() {
	command -v systemd-analyze >/dev/null || {
		echo 'units: skipped, there is no systemd-analyze here'
		return 0
	}
	local f root out rc=0
	root=$(mktemp -d)
	mkdir -p "$root"/{usr/lib/systemd/system,usr/bin,usr/sbin}
	cp -r /usr/lib/systemd/system/{sysinit,basic,shutdown,network-online,network,timers,multi-user,sockets,paths,slices,-}.* \
		"$root/usr/lib/systemd/system/" 2>/dev/null
	cp etc/systemd/*.{service,timer} "$root/usr/lib/systemd/system/"
	install -m 755 /bin/true "$root/usr/sbin/slurmrestd"
	for f in riflingd rifling rifling-collector; do install -m 755 /bin/true "$root/usr/bin/$f"; done
	ln -s usr/lib "$root/lib"
	out=$(cd etc/systemd && systemd-analyze verify --man=no --root="$root" -- *.service *.timer 2>&1) || rc=1
	rm -rf "$root"
	if [ -n "$out" ] || [ $rc != 0 ]; then
		printf '%s\n' "$out"
		return 1
	fi
}

alerts() { promtool check rules --lint-fatal etc/alerts.rules.yml && promtool test rules etc/alerts.test.yml; }

# vulnerabilities needs the Go vulnerability database, which a closed network
# does not reach.
vulnerabilities() {
	local db=https://vuln.go.dev
	if ! command -v curl >/dev/null || ! curl -fsS --max-time 5 -o /dev/null "$db/index/db.json" 2>/dev/null; then
		echo "govulncheck: skipped, $db cannot be reached from here"
		return 0
	fi
	go run golang.org/x/vuln/cmd/govulncheck@latest ./...
}

step gofmt formatted
step vet vet
step golangci-lint lint
step rules rules
step 'go mod tidy' tidy
step generated generated
step licences licences
step shellcheck scripts
step units units
step 'alert rules' alerts
step govulncheck vulnerabilities

if [ ${#failed[@]} -gt 0 ]; then
	echo "failed: ${failed[*]}"
	exit 1
fi
