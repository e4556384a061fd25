// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strconv"
	"strings"

	"rifling/slurm"
)

// Field is one column that rows of type T can show.
type Field[T any] struct {
	Name  string // as -o takes it, in any case
	Doc   string // what it is, for the list of fields
	Width int    // columns by default; 0: as wide as its cells
	Left  bool   // text to the left; numbers stand to the right
	Of    func(*T) Value
}

// Layout is the chosen columns, in order.
type Layout[T any] []Field[T]

// Choose reads a list of fields as sacct's -o takes it: "jobid,user%20,npr".
// A width of %N columns replaces the field's own, %-N also moves its text to
// the left. Errors wrap nothing and carry the list of fields as a hint.
func Choose[T any](all []Field[T], spec string) (Layout[T], error) {
	var out Layout[T]
	for item := range strings.SplitSeq(spec, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		name, size, sized := strings.Cut(item, "%")
		f, ok := find(all, name)
		if !ok {
			return nil, slurm.WithHint(fmt.Errorf("unknown field %q", Clean(name)), "fields are %s", strings.Join(Names(all), ","))
		}
		if sized {
			n, err := strconv.Atoi(size)
			if err != nil || n == 0 || n > 10000 || n < -10000 {
				return nil, slurm.WithHint(fmt.Errorf("field %q: odd width %q", f.Name, Clean(size)), "write a width as %s%%20, or %s%%-20 for text to the left", f.Name, f.Name)
			}
			f.Width, f.Left = max(n, -n), f.Left || n < 0
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, slurm.WithHint(fmt.Errorf("no field is chosen"), "fields are %s", strings.Join(Names(all), ","))
	}
	return out, nil
}

// Names returns the fields' names in order.
func Names[T any](all []Field[T]) []string {
	out := make([]string, len(all))
	for i, f := range all {
		out[i] = f.Name
	}
	return out
}

// Describe lists the fields with their meaning, one a line.
func Describe[T any](all []Field[T]) string {
	w := 0
	for _, f := range all {
		w = max(w, len(f.Name))
	}
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "  %-*s  %s\n", w, f.Name, f.Doc)
	}
	return b.String()
}

func find[T any](all []Field[T], name string) (Field[T], bool) {
	for _, f := range all {
		if strings.EqualFold(f.Name, strings.TrimSpace(name)) {
			return f, true
		}
	}
	return Field[T]{}, false
}
