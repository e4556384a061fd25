// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
)

// sharedDir is where traces and measurements lie that a user's clone lacks.
// Benchmarks run from the repository's root.
func sharedDir() string {
	if dir := os.Getenv("RIFLING_SHARED"); dir != "" {
		return dir
	}
	return filepath.Join("..", "shared")
}

// verdict is the last word of a line "bar: …".
func verdict(ok bool) string {
	if ok {
		return "ok"
	}
	return "short"
}
