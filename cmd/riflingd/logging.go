// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"

	"rifling/report"
)

// cleanWords keeps what users and Slurm wrote from doing to a terminal or a log
// reader what it should not: slog quotes less than that, least of all as JSON.
func cleanWords(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(report.Clean(a.Value.String()))
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case error:
			a.Value = slog.StringValue(report.Clean(v.Error()))
		case fmt.Stringer:
			a.Value = slog.StringValue(report.Clean(v.String()))
		}
	}
	return a
}
