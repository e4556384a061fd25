#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make release: a tarball, debs and rpms of what is in bin/, with SBOMs and
# checksums, into dist/. The same sources and tools give the same bytes. VERSION
# is git describe's word.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
umask 022

ARCH=$(go env GOARCH)
# Packages need a version that starts with a digit and sorts.
VERSION=${VERSION:?run make release}
VERSION=${VERSION#v}
if [[ $VERSION =~ ^(.+)-([0-9]+-g[0-9a-f]+.*)$ ]]; then # commits after a tag
	VERSION=${BASH_REMATCH[1]}+${BASH_REMATCH[2]//-/.}
elif [[ $VERSION != [0-9]*.* ]]; then # no tag yet
	VERSION=0.0.0+git.${VERSION//-/.}
fi
MAINTAINER=${MAINTAINER:-rifling <root@localhost>}
# Every time in what is built is that of the last commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
MTIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
# The oldest C library that the programs start with.
GLIBC=$(objdump -T bin/riflingd bin/rifling bin/rifling-collector | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
GLIBC=${GLIBC#GLIBC_}
export ARCH VERSION MAINTAINER SOURCE_DATE_EPOCH MTIME GLIBC

rm -rf dist
stage=dist/stage
mkdir -p $stage/{man,completions,doc}

# Manual pages and completions, from the programs themselves.
for program in rifling riflingd; do bin/$program man $stage/pages; done
bin/rifling-collector man $stage/pages-collector
man_tree() { # FROM PACKAGE sorts the pages of a folder into sections
	local f section
	for f in "$stage/$1"/*; do
		section=${f##*.}
		mkdir -p "$stage/man/$2/man$section"
		gzip -9n <"$f" >"$stage/man/$2/man$section/${f##*/}.gz"
	done
}
man_tree pages rifling
man_tree pages-collector rifling-collector
for program in rifling rifling-collector; do
	for shell in bash zsh fish; do bin/$program completion $shell >"$stage/completions/$program.$shell"; done
done

# Documents, and the licences of all that is linked in.
cp -r docs/. CHANGELOG.md $stage/doc/
cp etc/*.yml etc/rifling.yaml $stage/doc/
go run ./contrib/packaging/notices >$stage/THIRD-PARTY-LICENSES
{ echo 'rifling is distributed under the Apache License 2.0:'; echo; cat LICENSE; echo; cat $stage/THIRD-PARTY-LICENSES; } >$stage/rifling.copyright
find $stage -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
find $stage -exec touch -h -d "$MTIME" {} +

for package in rifling rifling-collector; do
	# nfpm expands variables in text, and this is a time.
	sed "s/\${MTIME}/$MTIME/" "contrib/packaging/$package.yaml" >"$stage/$package.yaml"
	for format in deb rpm; do
		nfpm package --config "$stage/$package.yaml" --packager "$format" --target dist/
	done
done
for program in riflingd rifling rifling-collector; do # what it says beside is about the licence of our own module
	cyclonedx-gomod bin -json -licenses -std -noserial -notimestamp -version "$VERSION" \
		-output "dist/$program-$VERSION.cdx.json" "bin/$program" 2>$stage/sbom.log || { cat $stage/sbom.log >&2; exit 1; }
done

name=rifling-$VERSION-linux-$ARCH
mkdir -p "dist/$name/bin"
cp bin/riflingd bin/rifling bin/rifling-collector "dist/$name/bin/"
cp -r etc docs LICENSE README.md CHANGELOG.md $stage/THIRD-PARTY-LICENSES $stage/man $stage/completions "dist/$name/"
tar -C dist --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -cf - "$name" |
	gzip -9n >"dist/$name.tar.gz"

rm -rf "dist/$name" $stage
(cd dist && sha256sum -- * >SHA256SUMS)
ls -l dist
