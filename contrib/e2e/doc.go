// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the end-to-end tests: rifling's own programs against a real
// Slurm, judged by what Slurm's own commands show. They stand behind the build
// tag "lab" and need root. A lab that is up is given by LAB_ENV_FILE; without
// it they bring up one of their own for the release in SLURM:
//
//	make e2e SLURM=24.11
//	SLURM=24.11 go test -tags lab -count=1 -run TestEmulatedSlowdown ./contrib/e2e
package e2e
