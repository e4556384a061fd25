// SPDX-License-Identifier: Apache-2.0

package sacct

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"rifling/slurm"
)

// column is a field of sacct's that is read.
type column int

const (
	colRaw column = iota
	colID
	colCluster
	colUser
	colAccount
	colPartition
	colQOS
	colState
	colExit
	colSubmit
	colEligible
	colStart
	colEnd
	colElapsedRaw
	colElapsed
	colSuspended
	colLimitRaw
	colLimit
	colPriority
	colRestarts
	colAllocTRES
	colReqTRES
	colNodes
	colUsedTotal
	colUsedMean
	colTasks
	colName
	colCommand
	columns
)

// columnNames are sacct's names of the fields, as --helpformat spells them, in
// the order in which they are asked for. What a user may have written comes
// last, so that a delimiter or a line break in it shifts nothing else.
var columnNames = [columns]string{
	"JobIDRaw", "JobID", "Cluster", "User", "Account", "Partition", "QOS", "State", "ExitCode",
	"Submit", "Eligible", "Start", "End", "ElapsedRaw", "Elapsed", "Suspended", "TimelimitRaw", "Timelimit",
	"Priority", "Restarts", "AllocTRES", "ReqTRES", "NodeList",
	"TRESUsageInTot", "TRESUsageInAve", "NTasks", "JobName", "SubmitLine",
}

// needed are the fields without which a row says nothing.
var needed = []column{colRaw, colState, colSubmit, colStart, colEnd}

// layout says in which place a row has each column; -1 where it has not.
type layout struct {
	place     [columns]int
	width     int  // fields of a row
	fixed     int  // fields before the first that a user has written
	tail      bool // all from fixed on is free text
	delimiter string
	header    string
}

func isFree(c column) bool { return c == colName || c == colCommand }

// parseHeader reads the names in the first line. An empty delimiter is told by
// what stands behind the first name.
func parseHeader(line, delimiter string) (*layout, error) {
	fail := func(format string, args ...any) (*layout, error) {
		return nil, slurm.WithHint(fmt.Errorf("the first line is no header of sacct: "+format, args...), "%s", dumpHint())
	}
	if delimiter == "" {
		i := strings.IndexFunc(line, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		})
		if i < 1 {
			return fail("%.40q", line)
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		delimiter = line[i : i+size]
		if delimiter == " " {
			return fail("the columns are padded with blanks")
		}
	}
	l := &layout{delimiter: delimiter, header: line, fixed: -1, tail: true}
	for c := range l.place {
		l.place[c] = -1
	}
	names := strings.Split(line, delimiter)
	if n := len(names); names[n-1] == "" { // sacct --parsable
		names = names[:n-1]
	}
	l.width = len(names)
	for i, name := range names {
		free := false
		for c := range columns {
			if strings.EqualFold(columnNames[c], name) {
				l.place[c], free = i, isFree(c)
			}
		}
		switch {
		case free && l.fixed < 0:
			l.fixed = i
		case !free && l.fixed >= 0:
			l.tail = false
		}
	}
	if l.fixed < 0 {
		l.fixed = l.width
	}
	for _, c := range needed {
		if l.place[c] < 0 {
			return fail("it has no column %s", columnNames[c])
		}
	}
	return l, nil
}

// dumpHint is the command that writes a file which can be read.
func dumpHint() string {
	return "write the file by: SLURM_TIME_FORMAT=%s sacct -a -D -X -P --noconvert --delimiter=$'\\x1f' -S 2026-01-01 -E now -o " +
		strings.Join(standard(nil, false), ",")
}

// standard lists the fields to ask for, of those that this sacct has; nil has
// all. Usage is of steps.
func standard(has map[string]bool, steps bool) []string {
	var out []string
	for c, name := range columnNames {
		switch column(c) {
		case colElapsed, colLimit, colUsedMean, colTasks:
			continue // a better one is asked for
		case colUsedTotal:
			if !steps {
				continue
			}
		case colRestarts:
			if has == nil {
				continue // not every release has it
			}
		}
		if has == nil || has[strings.ToLower(name)] {
			out = append(out, name)
		}
	}
	return out
}
