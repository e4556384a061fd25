#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make release: a tarball, debs and rpms of what is in bin/, with checksums,
# into dist/. VERSION is git describe's word.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

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
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
# The oldest C library that the programs start with.
GLIBC=$(objdump -T bin/riflingd bin/rifling bin/rifling-collector | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
GLIBC=${GLIBC#GLIBC_}
export ARCH VERSION MAINTAINER SOURCE_DATE_EPOCH GLIBC

rm -rf dist
mkdir -p dist/completions
bin/rifling completion bash >dist/completions/rifling.bash

for package in rifling rifling-collector; do
	for format in deb rpm; do
		nfpm package --config "contrib/packaging/$package.yaml" --packager "$format" --target dist/
	done
done

name=rifling-$VERSION-linux-$ARCH
mkdir -p "dist/$name/bin"
cp bin/riflingd bin/rifling bin/rifling-collector "dist/$name/bin/"
cp -r etc docs LICENSE README.md CHANGELOG.md "dist/$name/"
tar -C dist --sort=name --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" -czf "dist/$name.tar.gz" "$name"

rm -rf "dist/$name" dist/completions
(cd dist && sha256sum -- * >SHA256SUMS)
ls -l dist
