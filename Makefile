# SPDX-License-Identifier: Apache-2.0
#
# Every target first brings the tools that it needs (contrib/setup.sh).

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup build demo test check properties chaos stranded e2e lab lab-down bench screens fuzz release install-test newcomer docs-test rpm-test clean

# Tools that setup.sh brought come first. Go's own settings are stated here, so
# that those of the machine do not change what is built.
export PATH := $(CURDIR)/.tools/go/bin:$(CURDIR)/.tools/bin:$(PATH)
export GOFLAGS := -mod=readonly -buildvcs=false
export GOTOOLCHAIN := local
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations
unexport GOROOT GOARCH GOOS

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
# What the lab and the tests on it are told.
SLURM ?= 22.05
NODES ?= 8
GPUS ?= 8
SPEED ?= 1
LAB ?= $(SLURM)
FUZZTIME ?= 20s

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## bring the tools (apt-get as root, .tools/ otherwise); quick when all is there
	@contrib/setup.sh build

build: setup ## the programs, the demo and the emulated GPU stack into bin/
# -z lazy: a function that an older NVML lacks must not keep the collector from
# starting. The emulated job is static, so that it runs in any release's lab.
	@mkdir -p bin
	CGO_ENABLED=1 go build -trimpath -ldflags '$(LDFLAGS) -extldflags "-Wl,-z,lazy"' -o bin/ ./cmd/... ./contrib/...
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/ ./contrib/emujob
	gcc -shared -fPIC -O2 -Wall -Wextra -Wno-format-truncation -Wl,-soname,libnvidia-ml.so.1 -o bin/libnvidia-ml.so.1 contrib/nvmlstub/nvmlstub.c
# The same with what the drivers 418 and 470 have, for labs of old nodes.
	for old in 418 470; do gcc -shared -fPIC -O2 -DNVMLSTUB_DRIVER=$$old -Wl,-soname,libnvidia-ml.so.1 \
		-o bin/libnvidia-ml-$$old.so.1 contrib/nvmlstub/nvmlstub.c || exit; done

demo: build ## rifling beside a real Slurm with emulated GPUs on this machine (root)
	@bin/demo

test: build ## unit tests, then the tests on the three real Slurm releases (those need root)
	@contrib/test.sh

check: ## format, vet, lint, import map, go.mod, generated files, scripts, units
	@contrib/setup.sh build check
	@contrib/check.sh

e2e: build ## the tests on one real Slurm; SLURM=22.05 | 24.11 | 26.05
	@SLURM=$(SLURM) contrib/e2e.sh

lab: build ## bring up a real Slurm with emulated GPUs; SLURM= NODES= GPUS= SPEED= LAB=
	@SLURM=$(SLURM) NODES=$(NODES) GPUS=$(GPUS) SPEED=$(SPEED) LAB=$(LAB) contrib/lab/lab.sh up

lab-down: ## stop and remove that lab; SLURM= LAB=
	@SLURM=$(SLURM) LAB=$(LAB) contrib/lab/lab.sh down

properties: setup ## the invariants' property tests over 10,000 random cases each, the others over 1,000
	@contrib/properties.sh

chaos: build ## let things go wrong around a steering riflingd on a real Slurm; SLURM=
	@bin/chaos -slurm $(SLURM)

stranded: build ## search a real Slurm for requests that exclusions can strand; SLURM=
	@bin/stranded -slurm $(SLURM)

bench: setup ## run the benchmarks; ONLY=name for one of them
	go run ./contrib/bench $(if $(ONLY),-only $(ONLY))

screens: setup ## pictures of the status page by a real browser, into dist/screens
	@contrib/setup.sh web
	go run ./contrib/screens -out dist/screens

fuzz: setup ## every fuzz test for FUZZTIME=20s
	@contrib/fuzz.sh $(FUZZTIME)

release: build ## tarball, deb and rpm with checksums into dist/
	@contrib/setup.sh release
	@VERSION=$(VERSION) contrib/packaging/build.sh

install-test: release ## install, steer, upgrade, remove and purge the deb beside a real Slurm; SLURM= (root)
	@SLURM=$(SLURM) contrib/packaging/install-test.sh

rpm-test: release ## what the rpms hold and do, by rpm's own tools
	@contrib/packaging/rpm-test.sh

newcomer: release ## follow docs/install.md word for word on a real Slurm, timed; SLURM= (root)
	@SLURM=$(SLURM) contrib/packaging/docs-test.sh

docs-test: release ## the same for every page with commands; SLURM= (root)
	@SLURM=$(SLURM) contrib/packaging/docs-test.sh all

clean: ## remove what was built, but not the tools
	rm -rf bin dist
