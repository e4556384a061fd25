// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// labCompare hands over to the program that runs the comparison on labs of its
// own, with the settings that docs/benchmarks.md shows.
func labCompare(ctx context.Context, out io.Writer) error {
	cmd := exec.CommandContext(ctx, "bin/labcompare", "-parallel", "2", "-seeds", "1,2,3")
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("bin/labcompare (make build makes it): %w", err)
	}
	return nil
}
