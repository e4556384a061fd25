// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"errors"
	"fmt"
	"strings"
)

// SplitRows splits the output of sacct, squeue or sinfo into rows of the given
// number of columns; the delimiter "" stands for runs of blanks. A row with more
// or fewer is left out, since a value that holds the delimiter or a column that
// was too narrow shifts all that follow, and the error joins one *ParseError for
// each. One delimiter behind the last column (sacct -p) is allowed.
//
// Job names hold any character but a newline, so ask Slurm for a control
// character: --parsable2 --delimiter=$'\x1f'.
func SplitRows(text, delimiter string, columns int) ([][]string, error) {
	var rows [][]string
	var errs []error
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		row := strings.Fields(line)
		if delimiter != "" {
			row = strings.Split(line, delimiter)
			if len(row) == columns+1 && row[columns] == "" {
				row = row[:columns]
			}
		}
		if len(row) != columns {
			errs = append(errs, &ParseError{Kind: "row", Token: line,
				Msg: fmt.Sprintf("%d fields where %d are expected", len(row), columns)})
			continue
		}
		rows = append(rows, row)
	}
	return rows, WithHint(errors.Join(errs...), `use --parsable2 --delimiter=$'\x1f'`)
}
