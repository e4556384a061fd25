// SPDX-License-Identifier: Apache-2.0

package sacct

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"rifling/slurm"
)

// Reasons for which a whole row is left out.
const (
	oddFew    = "row cut off, left out"
	oddMany   = "delimiter inside a field, row left out"
	oddID     = "no job id, row left out"
	oddState  = "odd state, row left out"
	oddSubmit = "no submit time, row left out"
	oddTime   = "odd start or end, row left out"
	oddStep   = "step without its job, left out"
)

// maxFree bounds the name and the command of a run, in bytes: what a user may
// make rifling remember.
const maxFree = 1024

// row is one row cut into its fields.
type row struct {
	layout *layout
	fields []string
	note   func(reason, detail string)
}

func (r *row) get(c column) string {
	if i := r.layout.place[c]; i >= 0 && i < len(r.fields) {
		return r.fields[i]
	}
	return ""
}

// split cuts a row. Where only free text follows, surplus delimiters are part
// of it; who of several free columns had them cannot be told.
func (r *row) split(text string) (odd string) {
	l := r.layout
	r.fields = r.fields[:0]
	for {
		field, rest, more := strings.Cut(text, l.delimiter)
		if !more || len(r.fields) == l.width-1 && l.tail {
			r.fields = append(r.fields, text)
			break
		}
		r.fields, text = append(r.fields, field), rest
	}
	n := len(r.fields)
	switch {
	case n == l.width+1 && r.fields[n-1] == "": // sacct --parsable
		r.fields = r.fields[:n-1]
	case n < l.fixed || !l.tail && n < l.width:
		return oddFew
	case n > l.width:
		return oddMany
	case n == l.width && l.tail && strings.Contains(r.fields[n-1], l.delimiter):
		r.fields[n-1] = strings.TrimSuffix(r.fields[n-1], l.delimiter)
		if strings.Contains(r.fields[n-1], l.delimiter) {
			r.note("delimiter inside a name or command", r.fields[n-1])
		}
	}
	return ""
}

// run reads the row of a run, or says why it must be left out.
func (p *parser) run(r *row) (*slurm.PastJob, string) {
	raw := r.get(colRaw)
	id, err := strconv.ParseUint(raw, 10, 32)
	if err != nil || id == 0 {
		return nil, oddID
	}
	j := &slurm.PastJob{ID: slurm.JobID(id), ArrayTaskID: -1, GPUUtil: -1, GPUMemory: -1}
	if why := p.times(r, j); why != "" {
		return nil, why
	}
	if j.State, err = p.state(r.get(colState)); err != nil {
		return nil, oddState
	}
	p.reference(r, j)
	j.Cluster, j.User, j.Account = r.get(colCluster), r.get(colUser), r.get(colAccount)
	j.Partition, j.QOS = r.get(colPartition), r.get(colQOS)
	j.Name, j.Command = free(r.get(colName)), free(r.get(colCommand))
	j.ExitCode = r.exitCode()
	j.Elapsed = r.seconds(colElapsedRaw, colElapsed)
	j.Suspended = r.duration(colSuspended)
	j.TimeLimit, j.Unlimited = r.limit()
	j.Priority, j.Restarts = r.number(colPriority, math.MaxUint32), int(r.number(colRestarts, math.MaxInt32))
	j.SetResources(p.tres(r, colAllocTRES), p.tres(r, colReqTRES))
	j.Nodes = p.nodes(r)
	for _, odd := range j.Tidy() {
		r.note(odd, raw)
	}
	return j, ""
}

// times reads the instants. A run is named by its submit time, and its end
// decides whether it is over: neither may be guessed.
func (p *parser) times(r *row, j *slurm.PastJob) string {
	var ok bool
	if j.Submit, ok = p.instant(r.get(colSubmit)); !ok || j.Submit.IsZero() {
		return oddSubmit
	}
	if j.Start, ok = p.instant(r.get(colStart)); !ok {
		return oddTime
	}
	if j.End, ok = p.instant(r.get(colEnd)); !ok {
		return oddTime
	}
	if j.Eligible, ok = p.instant(r.get(colEligible)); !ok {
		r.note("odd eligible time", r.get(colEligible))
	}
	return ""
}

// instant reads seconds since the epoch (SLURM_TIME_FORMAT=%s) or sacct's own
// form of a date; words for none, and 0, are the zero time.
func (p *parser) instant(s string) (time.Time, bool) {
	switch s {
	case "", "0", "Unknown", "None", "N/A", "INVALID":
		return time.Time{}, true
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n < 0 || n > math.MaxUint32 {
			return time.Time{}, false
		}
		return time.Unix(n, 0).UTC(), true
	}
	t, err := time.ParseInLocation("2006-01-02T15:04:05", s, p.location)
	if err != nil {
		if t, err = slurm.ParseWhen(s, time.Unix(0, 0).In(p.location)); err != nil || t.Year() < 1980 {
			return time.Time{}, false
		}
	}
	return t.UTC(), true
}

func (p *parser) state(s string) (slurm.State, error) {
	word, _, _ := strings.Cut(s, " by ")
	if st, ok := p.states[word]; ok {
		return st, nil
	}
	if word == "" {
		return slurm.State{}, errors.New("no state")
	}
	st, err := slurm.ParseCompactState(word)
	if err == nil && len(p.states) < 1000 {
		p.states[word] = st
	}
	return st, err
}

// reference reads JobID, which names the array or the heterogeneous job.
func (p *parser) reference(r *row, j *slurm.PastJob) {
	text := r.get(colID)
	if text == "" || !strings.ContainsAny(text, "_+") {
		return
	}
	ref, err := slurm.ParseJobID(text)
	switch {
	case err != nil:
		r.note("odd array or het id", text)
	case ref.HetOffset >= 0:
		j.HetJobID = ref.Job
	default:
		j.ArrayJobID, j.ArrayTaskID = ref.Job, ref.Task
	}
}

// exitCode reads "status:signal".
func (r *row) exitCode() int {
	text := r.get(colExit)
	status, signal, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(status, 10, 31)
	sig, err2 := strconv.ParseUint(signal, 10, 31)
	switch {
	case text == "":
		return 0
	case err != nil || signal != "" && err2 != nil:
		r.note("odd exit code", text)
		return 0
	case sig > 0:
		return 128 + int(sig)
	}
	return int(n)
}

// seconds reads a column of seconds, or where there is none one of a duration.
func (r *row) seconds(raw, long column) time.Duration {
	text := r.get(raw)
	if text == "" {
		return r.duration(long)
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		r.note("odd "+columnNames[raw], text)
		return 0
	}
	return time.Duration(n) * time.Second
}

func (r *row) duration(c column) time.Duration {
	text := r.get(c)
	if text == "" || text == "00:00:00" {
		return 0
	}
	d, _, err := slurm.ParseDuration(text)
	if err != nil && !errors.Is(err, slurm.ErrUnset) {
		r.note("odd "+columnNames[c], text)
	}
	return d
}

// limit reads minutes or a duration, or the words for none.
func (r *row) limit() (time.Duration, bool) {
	c := colLimitRaw
	if r.layout.place[c] < 0 {
		c = colLimit
	}
	text := r.get(c)
	d, unlimited, err := slurm.ParseDuration(text) // a plain number is minutes
	if err != nil && !errors.Is(err, slurm.ErrUnset) {
		r.note("odd "+columnNames[c], text)
	}
	return d, unlimited
}

func (r *row) number(c column, most int64) int64 {
	text := r.get(c)
	if text == "" || text == "Unknown" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		r.note("odd "+columnNames[c], text)
		return 0
	}
	return n
}

func (p *parser) tres(r *row, c column) slurm.TRES {
	text := r.get(c)
	if t, ok := p.sets[text]; ok {
		return t
	}
	t, err := slurm.ParseTRES(text)
	if err != nil {
		r.note("odd "+columnNames[c], text)
	}
	if err == nil && len(p.sets) < maxCached {
		p.sets[text] = t
	}
	return t
}

func (p *parser) nodes(r *row) []string {
	text := r.get(colNodes)
	if n, ok := p.hosts[text]; ok {
		return n
	}
	n, err := slurm.ExpandHosts(text)
	if err != nil {
		r.note("odd node list", text)
	}
	if err == nil && len(p.hosts) < maxCached && len(n) <= 64 {
		p.hosts[text] = n
	}
	return n
}

// free makes text that a user wrote safe to keep.
func free(s string) string {
	if len(s) > maxFree {
		s = s[:maxFree]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// step keeps the usage of a step's row for its job.
func (p *parser) step(r *row, name string) {
	u := slurm.StepUsage{Step: name}
	var err error
	if total := r.get(colUsedTotal); total != "" {
		u.Used, err = slurm.ParseTRES(total)
	} else if mean := r.get(colUsedMean); mean != "" {
		u.Used, err = slurm.ParseTRES(mean)
		tasks := max(1, r.number(colTasks, math.MaxInt32))
		for name, n := range u.Used {
			if n <= math.MaxInt64/tasks {
				u.Used[name] = n * tasks
			}
		}
	}
	if err != nil {
		r.note("odd usage of a step", err.Error())
	}
	p.steps = append(p.steps, u)
}

func at(line int, detail string) string {
	return fmt.Sprintf("line %d: %.80q", line, detail)
}
