#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Brings the tools that the Makefile's targets need, and only those that are
# missing. Run again it changes nothing and takes a fraction of a second.
#
#   contrib/setup.sh [build] [check] [release]
#
# build    a C compiler, git, and Go of go.mod's version or later
# check    golangci-lint, shellcheck, and Debian's promtool and prometheus
# release  nfpm, which writes the deb and the rpm, and cyclonedx-gomod for the SBOM
# web      Chromium, fonts and axe-core, with which the status page is looked at,
#          and prometheus, for the tests of the dashboard
# onnx     node and ONNX Runtime, with which exported scorers are run
#
# System packages come from apt-get (Debian, as root). Go comes from the PATH
# when it is new enough; else an older Go fetches the official toolchain as the
# module golang.org/toolchain into .tools/go, checked against the sums below.
# The Go tools are built from source into .tools/bin.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=$PWD/.tools

GO_FETCHED=go1.26.8
GO_SUM_AMD64='h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM='
GO_SUM_ARM64='h1:sYL/O6MqS68ML0kjsQ36WoYIpJqkw60TxizWUYUKQMc='
GOLANGCI_LINT=v2.15.0
AXE=4.14.1
AXE_SUM='sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=='
NFPM=v2.48.0
CYCLONEDX=v1.10.0

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
	say "$*"
	exit 69
}
have() { command -v "$1" >/dev/null 2>&1; }

# need COMMAND-OR-FILE PACKAGE notes the package if the first is not there.
missing=()
need() {
	if [[ $1 == /* ]]; then
		[ -e "$1" ] || missing+=("$2")
	else
		have "$1" || missing+=("$2")
	fi
}

install_missing() {
	[ ${#missing[@]} -gt 0 ] || return 0
	if ! have apt-get; then
		die "missing: ${missing[*]} (Debian's names). Install them with this system's package manager."
	fi
	if [ "$(id -u)" != 0 ]; then
		die "missing: ${missing[*]}. Run as root: apt-get install ${missing[*]}"
	fi
	say "installing ${missing[*]}"
	local log
	log=$(mktemp)
	if ! { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
		--no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}"; } </dev/null >"$log" 2>&1; then
		tail -n 15 "$log" >&2
		rm -f "$log"
		die "apt-get could not install ${missing[*]}"
	fi
	rm -f "$log"
	missing=()
}

# go_version GO prints 1.26.8 for a program that answers go1.26.8.
go_version() { GOTOOLCHAIN=local GOFLAGS='' "$1" env GOVERSION 2>/dev/null | sed 's/^go//; s/ .*//'; }

# new_enough HAVE WANT compares dotted versions.
new_enough() { [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

go_arch() {
	case $(uname -s)-$(uname -m) in
	Linux-x86_64) echo amd64 ;;
	Linux-aarch64) echo arm64 ;;
	*) die "no Go $want on the PATH, and no toolchain is pinned here for $(uname -sm): install Go $want or later" ;;
	esac
}

ensure_go() {
	local want
	want=$(awk '$1 == "go" {print $2; exit}' go.mod)
	if [ -x "$tools/go/bin/go" ] && new_enough "$(go_version "$tools/go/bin/go")" "$want"; then
		PATH=$tools/go/bin:$PATH
		return
	fi
	if have go && new_enough "$(go_version go)" "$want"; then return; fi
	if ! have go; then
		need go golang-go
		install_missing
	fi
	fetch_go
	PATH=$tools/go/bin:$PATH
	new_enough "$(go_version go)" "$want" || die "$GO_FETCHED is older than go.mod's go $want: raise GO_FETCHED in $0"
}

# fetch_go lets whatever Go there is fetch the toolchain module. The module
# form has no execute bits and hides its go.mod files; the last steps undo that.
fetch_go() {
	local arch sum json got dir tmp=$tools/fetch
	arch=$(go_arch)
	case $arch in amd64) sum=$GO_SUM_AMD64 ;; arm64) sum=$GO_SUM_ARM64 ;; esac
	say "fetching $GO_FETCHED for linux/$arch with $(go_version go)"
	drop "$tmp"
	mkdir -p "$tmp"
	echo 'module fetch' >"$tmp/go.mod" # an old Go cannot read ours
	if ! json=$(cd "$tmp" && GOMODCACHE=$tmp GOFLAGS='' GOTOOLCHAIN=local GO111MODULE=on \
		go mod download -json "golang.org/toolchain@v0.0.1-$GO_FETCHED.linux-$arch"); then
		printf '%s\n' "$json" >&2
		die "could not fetch $GO_FETCHED: check GOPROXY, or install Go $want or later and put it on the PATH"
	fi
	got=$(sed -n 's/.*"Sum": "\(.*\)".*/\1/p' <<<"$json")
	dir=$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$json")
	[ "$got" = "$sum" ] || die "the fetched toolchain has the sum $got, not $sum: not using it"
	chmod -R u+w "$dir"
	chmod +x "$dir"/bin/* "$dir/pkg/tool/linux_$arch"/*
	find "$dir/src" -name _go.mod -execdir cp {} go.mod \;
	drop "$tools/go"
	mv "$dir" "$tools/go"
	drop "$tmp"
}

# drop removes a folder that may hold read-only folders.
drop() {
	[ -e "$1" ] || return 0
	chmod -R u+w "$1"
	rm -rf "$1"
}

# go_tool NAME MODULE VERSION builds a tool, once per version and per Go.
go_tool() {
	local name=$1 module=$2 version=$3 stamp
	stamp=$tools/stamps/$name-$version-$(go_version go)
	if [ -e "$stamp" ] && [ -x "$tools/bin/$name" ]; then return; fi
	say "building $name $version (once, some minutes)"
	mkdir -p "$tools/bin" "$tools/stamps"
	(cd "$tools" && GOBIN=$tools/bin GOFLAGS=-buildvcs=false GOTOOLCHAIN=local CGO_ENABLED=0 \
		go install -trimpath -ldflags='-s -w' "$module@$version") ||
		die "could not build $name $version"
	rm -f "$tools/stamps/$name"-*
	: >"$stamp"
}

setup_build() {
	need gcc gcc
	need /usr/include/stdio.h libc6-dev
	need git git
	need /etc/ssl/certs/ca-certificates.crt ca-certificates
	install_missing
	ensure_go
}

setup_check() {
	need shellcheck shellcheck
	install_missing
	go_tool golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint "$GOLANGCI_LINT"
	deb_programs prometheus promtool prometheus
}

# deb_programs PACKAGE PROGRAM... unpacks programs of a Debian package into
# .tools/bin, since installing it would start its service.
deb_programs() {
	local package=$1 program all=1
	shift
	for program in "$@"; do [ -x "$tools/bin/$program" ] || all=0; done
	[ $all = 0 ] || return 0
	have apt-get || die "missing: $* (Debian's package $package)"
	say "fetching $package"
	local tmp
	tmp=$(mktemp -d)
	chmod 755 "$tmp" # apt's own user writes there
	if ! (cd "$tmp" && { apt-get download -q "$package" || { apt-get update -q && apt-get download -q "$package"; }; }) </dev/null >"$tmp/log" 2>&1; then
		tail -n 5 "$tmp/log" >&2
		rm -rf "$tmp"
		die "apt-get could not fetch $package"
	fi
	dpkg-deb -x "$tmp"/*.deb "$tmp/root"
	mkdir -p "$tools/bin"
	for program in "$@"; do install -m 755 "$tmp/root/usr/bin/$program" "$tools/bin/$program"; done
	rm -rf "$tmp"
}

# setup_web needs npm for axe-core; where there is none, the accessibility
# tests skip and say so.
setup_web() {
	need chromium chromium
	need /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf fonts-dejavu-core
	need /usr/share/doc/fonts-inter fonts-inter
	install_missing
	deb_programs prometheus promtool prometheus
	[ ! -e "$tools/web/axe-$AXE.js" ] || return 0
	if ! have npm; then
		say "no npm here: axe-core is left out"
		return 0
	fi
	local tmp
	tmp=$(mktemp -d)
	if (cd "$tmp" && npm pack --silent "axe-core@$AXE") >/dev/null 2>&1 &&
		[ "sha512-$(openssl dgst -sha512 -binary "$tmp"/axe-core-*.tgz | base64 -w0)" = "$AXE_SUM" ]; then
		mkdir -p "$tools/web"
		tar -xzOf "$tmp"/axe-core-*.tgz package/axe.min.js >"$tmp/axe.js"
		mv "$tmp/axe.js" "$tools/web/axe-$AXE.js"
	else
		say "axe-core $AXE could not be fetched, or is not the one that is expected: left out"
	fi
	rm -rf "$tmp"
}

# setup_onnx needs npm; where there is none, the test of exported scorers skips.
# The versions and sums are in the lock file.
setup_onnx() {
	need node nodejs
	install_missing
	local lock=agent/onnx/testdata/runtime stamp=$tools/onnxruntime/package-lock.json
	! cmp -s "$lock/package-lock.json" "$stamp" || return 0
	if ! have npm; then
		say "no npm here: ONNX Runtime is left out"
		return 0
	fi
	drop "$tools/onnxruntime"
	mkdir -p "$tools/onnxruntime"
	cp "$lock/package.json" "$lock/package-lock.json" "$tools/onnxruntime/"
	if ! npm ci --silent --no-audit --no-fund --ignore-scripts --prefix "$tools/onnxruntime" >/dev/null 2>&1; then
		say "ONNX Runtime could not be fetched: left out"
		drop "$tools/onnxruntime"
	fi
}

setup_release() {
	need objdump binutils
	need gzip gzip
	install_missing
	go_tool nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm "$NFPM"
	go_tool cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod "$CYCLONEDX"
}

[ $# -gt 0 ] || set -- build
setup_build # the others need Go
for group in "$@"; do
	case $group in
	build) ;;
	check | release | web | onnx) "setup_$group" ;;
	*) die "unknown group '$group': build, check, release, web or onnx" ;;
	esac
done
