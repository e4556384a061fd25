// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"rifling/cmd/internal/manual"
	"rifling/etc"
)

// addManual gives the program its manual pages, and rifling.yaml(5) with them.
func addManual(root *cobra.Command) {
	manual.Add(root, manual.Program{
		Section: 1,
		Exit:    "0 when all is well, 1 when something failed, 2 when it was called wrongly.",
		Files: []string{
			"/etc/rifling/rifling.yaml  configuration, see rifling.yaml(5)",
			"/var/lib/rifling/rifling.db  history, decisions, what was learnt",
		},
		SeeAlso: []string{"rifling.yaml(5)", "riflingd(8)"},
		Extra: map[string]func() (string, error){
			"rifling.yaml.5": func() (string, error) { return manual.ConfigPage(etc.Sample, version) },
		},
	})
}
