// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Style is how rows are written. The zero value is a table with a header.
type Style struct {
	NoHeader bool
	// Parsable separates the cells by Delimiter ("|" when empty), without
	// cutting or padding; with Trailing each line ends with one as well.
	Parsable  bool
	Trailing  bool
	Delimiter string
	// JSON writes one array of objects; it goes before all else.
	JSON bool
	// CSV writes comma-separated values as RFC 4180 has them, for spreadsheets.
	CSV bool
}

// Write writes the rows in one piece.
func Write[T any](w io.Writer, l Layout[T], rows []T, s Style) error {
	var b bytes.Buffer
	switch {
	case s.JSON:
		if err := writeJSON(&b, l, rows); err != nil {
			return err
		}
	case s.CSV:
		if err := writeCSV(&b, l, rows, s.NoHeader); err != nil {
			return err
		}
	case s.Parsable:
		writeParsable(&b, l, rows, s)
	default:
		writeTable(&b, l, rows, s)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Marshal returns the rows as a JSON array of objects.
func Marshal[T any](l Layout[T], rows []T) ([]byte, error) {
	var b bytes.Buffer
	err := writeJSON(&b, l, rows)
	return b.Bytes(), err
}

// writeJSON keeps the order of the fields, which a map would not.
func writeJSON[T any](b *bytes.Buffer, l Layout[T], rows []T) error {
	b.WriteString("[")
	for i := range rows {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n  {")
		for k, f := range l {
			if k > 0 {
				b.WriteString(", ")
			}
			name, err := json.Marshal(strings.ToLower(f.Name))
			if err != nil {
				return err
			}
			cell, err := json.Marshal(f.Of(&rows[i]))
			if err != nil {
				return err
			}
			b.Write(name)
			b.WriteString(": ")
			b.Write(cell)
		}
		b.WriteString("}")
	}
	if len(rows) > 0 {
		b.WriteString("\n")
	}
	b.WriteString("]\n")
	return nil
}

func writeParsable[T any](b *bytes.Buffer, l Layout[T], rows []T, s Style) {
	delimiter := s.Delimiter
	if delimiter == "" {
		delimiter = "|"
	}
	line := func(cell func(Field[T]) string) {
		for i, f := range l {
			if i > 0 {
				b.WriteString(delimiter)
			}
			b.WriteString(protect(cell(f), delimiter))
		}
		if s.Trailing {
			b.WriteString(delimiter)
		}
		b.WriteString("\n")
	}
	if !s.NoHeader {
		line(func(f Field[T]) string { return f.Name })
	}
	for i := range rows {
		line(func(f Field[T]) string { return f.Of(&rows[i]).String() })
	}
}

// protect keeps a cell from looking like two: a delimiter within it, as a job
// name may hold one, becomes escapes of its bytes.
func protect(cell, delimiter string) string {
	if !strings.Contains(cell, delimiter) {
		return cell
	}
	var escape strings.Builder
	for _, c := range []byte(delimiter) {
		fmt.Fprintf(&escape, `\x%02x`, c)
	}
	return strings.ReplaceAll(cell, delimiter, escape.String())
}

func writeTable[T any](b *bytes.Buffer, l Layout[T], rows []T, s Style) {
	cells := make([][]string, len(rows))
	widths := make([]int, len(l))
	for k, f := range l {
		widths[k] = f.Width
		if f.Width == 0 && !s.NoHeader {
			widths[k] = width(f.Name)
		}
	}
	for i := range rows {
		cells[i] = make([]string, len(l))
		for k, f := range l {
			cells[i][k] = f.Of(&rows[i]).String()
			if f.Width == 0 {
				widths[k] = max(widths[k], width(cells[i][k]))
			}
		}
	}
	line := func(cell func(k int) string) {
		var out strings.Builder
		for k, f := range l {
			if k > 0 {
				out.WriteString(" ")
			}
			out.WriteString(pad(cut(cell(k), widths[k]), widths[k], f.Left))
		}
		b.WriteString(strings.TrimRight(out.String(), " "))
		b.WriteString("\n")
	}
	if !s.NoHeader {
		line(func(k int) string { return l[k].Name })
		line(func(k int) string { return strings.Repeat("-", widths[k]) })
	}
	for i := range cells {
		line(func(k int) string { return cells[i][k] })
	}
}

func pad(s string, columns int, left bool) string {
	fill := strings.Repeat(" ", max(0, columns-width(s)))
	if left {
		return s + fill
	}
	return fill + s
}
