// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/csv"
	"strings"
)

// writeCSV writes a header and the rows. Cells are quoted where they must be.
func writeCSV[T any](b *bytes.Buffer, l Layout[T], rows []T, noHeader bool) error {
	w := csv.NewWriter(b)
	cells := make([]string, len(l))
	if !noHeader {
		for k, f := range l {
			cells[k] = f.Name
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	for i := range rows {
		for k, f := range l {
			cells[k] = f.Of(&rows[i]).csv()
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// csv is the cell for a spreadsheet. Text that one would take for a formula
// gets an apostrophe in front, for a user may call a job "=cmd|...".
func (v Value) csv() string {
	s := v.String()
	if _, isText := v.json.(string); isText && s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}
