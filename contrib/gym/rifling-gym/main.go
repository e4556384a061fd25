// SPDX-License-Identifier: Apache-2.0

// Command rifling-gym is an environment for reinforcement learning over
// rifling's simulator: JSON lines on standard input and output. See
// contrib/gym/README.md.
package main

import (
	"fmt"
	"os"

	"rifling/contrib/gym"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "usage: rifling-gym\nIt reads JSON lines, e.g. {\"cmd\": \"reset\", \"seed\": 1}, and answers each with one.")
		os.Exit(2)
	}
	if err := gym.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rifling-gym:", err)
		os.Exit(1)
	}
}
