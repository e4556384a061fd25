// SPDX-License-Identifier: Apache-2.0

package labrun

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Fields is one record of scontrol, key by key, in Slurm's own words.
type Fields map[string]string

// State returns the job's or node's state.
func (f Fields) State() string {
	if s, ok := f["JobState"]; ok {
		return s
	}
	return f["State"]
}

// fieldKey matches the start of a field: at the line's start or after white
// space, so "TRES=cpu=4" is one field and a comment with blanks is whole.
var fieldKey = regexp.MustCompile(`(?:^|\s)([A-Z][A-Za-z0-9:/_]*)=`)

// ParseFields reads one record as "scontrol -o show" prints it. A value runs
// until the next " Key=". The first of two equal keys counts, so the details
// of "scontrol -d" do not hide the job's own fields.
func ParseFields(record string) Fields {
	f := Fields{}
	marks := fieldKey.FindAllStringSubmatchIndex(record, -1)
	for i, m := range marks {
		end := len(record)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		key := record[m[2]:m[3]]
		if _, seen := f[key]; !seen {
			f[key] = strings.TrimSpace(record[m[1]:end])
		}
	}
	return f
}

// Sbatch submits a script as an ordinary user and returns the job's id.
// Arguments go before the script, as on a command line.
func (l *Lab) Sbatch(ctx context.Context, user, script string, args ...string) (string, error) {
	out, err := l.asStdin(ctx, user, script, append([]string{"sbatch", "--parsable"}, args...)...)
	if err != nil {
		return "", fmt.Errorf("sbatch as %s: %w", user, err)
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";")
	if id == "" {
		return "", errors.New("sbatch printed no job id")
	}
	return id, nil
}

// Job returns what scontrol shows of a job.
func (l *Lab) Job(ctx context.Context, id string) (Fields, error) {
	return l.show(ctx, "job", id)
}

// Node returns what scontrol shows of a node.
func (l *Lab) Node(ctx context.Context, name string) (Fields, error) {
	return l.show(ctx, "node", name)
}

func (l *Lab) show(ctx context.Context, kind, id string) (Fields, error) {
	out, err := l.Exec(ctx, "scontrol", "-o", "show", kind, id)
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(out, "\n")
	return ParseFields(first), nil
}

// Sprio returns a pending job's priority, term by term, as sprio shows it:
// PRIORITY, SITE, AGE, FAIRSHARE, NICE, ….
func (l *Lab) Sprio(ctx context.Context, id string) (map[string]string, error) {
	// %i id, %Y priority, %S site factor, %A age, %F fair share, %N nice
	out, err := l.Exec(ctx, "sprio", "-h", "-j", id, "-o", "%i|%Y|%S|%A|%F|%N")
	if err != nil {
		return nil, err
	}
	v := strings.Split(strings.TrimSpace(out), "|")
	if len(v) != 6 {
		return nil, fmt.Errorf("sprio shows nothing of job %s: %q", id, out)
	}
	m := map[string]string{}
	for i, key := range []string{"JOBID", "PRIORITY", "SITE", "AGE", "FAIRSHARE", "NICE"} {
		m[key] = strings.TrimSpace(v[i])
	}
	return m, nil
}

// Cancel cancels jobs; ids that are gone already do not matter.
func (l *Lab) Cancel(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := l.Exec(ctx, append([]string{"scancel", "-Q"}, ids...)...)
	return err
}

// Wait polls every half second until ok holds of what look returns, and
// returns that. It gives up when ctx ends, saying what it saw last.
func Wait[T any](ctx context.Context, what string, look func(context.Context) (T, error), ok func(T) bool) (T, error) {
	var last T
	var lastErr error
	for {
		v, err := look(ctx)
		if err == nil {
			if last, lastErr = v, nil; ok(v) {
				return v, nil
			}
		} else if ctx.Err() == nil {
			lastErr = err
		}
		select {
		case <-ctx.Done():
			if lastErr != nil {
				return last, fmt.Errorf("waiting for %s: %w (last error: %w)", what, ctx.Err(), lastErr)
			}
			return last, fmt.Errorf("waiting for %s: %w (last seen: %v)", what, ctx.Err(), last)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// WaitJob waits until ok holds of the job's record.
func (l *Lab) WaitJob(ctx context.Context, id, what string, ok func(Fields) bool) (Fields, error) {
	look := func(ctx context.Context) (Fields, error) { return l.Job(ctx, id) }
	return Wait(ctx, "job "+id+": "+what, look, ok)
}
