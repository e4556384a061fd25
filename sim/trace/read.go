// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Format names a kind of trace.
type Format string

// The formats.
const (
	SWF       Format = "swf"       // Standard Workload Format of the Parallel Workloads Archive
	Philly    Format = "philly"    // Philly virtual clusters: job, submit_s, gpus, duration_s, noisy_gpu_seconds_estimate
	Muri      Format = "muri"      // Muri simulator: times in milliseconds, stages of an iteration
	Pollux    Format = "pollux"    // Pollux workloads: name, time, application, num_replicas, batch_size
	DeepShare Format = "deepshare" // DeepShare job sets: JSON, all jobs at 0
	Openb     Format = "openb"     // Alibaba's openb pods: shares of GPUs in thousandths
	Lab       Format = "lab"       // what a real slurmctld did with a list of jobs, columns of slurm_ground_truth
	Own       Format = "rifling"   // rifling's own CSV: see Write
)

// Formats lists them all.
var Formats = []Format{SWF, Philly, Muri, Pollux, DeepShare, Openb, Lab, Own}

// Options say what a reader takes. The zero value takes all that is possible.
type Options struct {
	Strict  bool // the first row that cannot be right is an error
	MaxGPUs int  // larger jobs are left out; 0: none is too large
	// Successful leaves out jobs that failed or were cancelled, where told.
	Successful bool
}

// ErrFormat is the answer to a stream that is none of the formats.
var ErrFormat = errors.New("unknown trace format")

// Reader streams a trace's jobs in the order of its rows.
type Reader struct {
	rows rows
	o    Options
	rep  Report
	seen map[string]bool // ids; bounded, see duplicate
	last time.Duration
	at   int // line of the last row
	done bool
}

// rows yields a format's rows. A row that cannot be read gives a RowError; io.EOF
// ends; any other error is the stream's own.
type rows interface {
	next() (Job, error)
}

// NewReader reads a trace of the format; an empty format is found out from its
// first lines. r may be gzip.
//
// Errors wrap ErrFormat or the stream's own.
func NewReader(r io.Reader, f Format, o Options) (*Reader, error) {
	plain, err := Plain(r)
	if err != nil {
		return nil, err
	}
	br := bufio.NewReaderSize(plain, 64<<10)
	if f == "" {
		head, err := br.Peek(4096)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("read trace: %w", err)
		}
		if f = Detect(head); f == "" {
			return nil, fmt.Errorf("%w: its first line is none of those of %v", ErrFormat, Formats)
		}
	}
	rows, err := open(br, f)
	if err != nil {
		return nil, err
	}
	return &Reader{rows: rows, o: o, seen: map[string]bool{}}, nil
}

func open(br *bufio.Reader, f Format) (rows, error) {
	switch f {
	case SWF:
		return &swfRows{lines: bufio.NewScanner(br)}, nil
	case DeepShare:
		return &deepShareRows{dec: json.NewDecoder(br)}, nil
	case Philly, Muri, Pollux, Openb, Lab, Own:
		return openTable(br, f)
	}
	return nil, fmt.Errorf("%w %q: there are %v", ErrFormat, f, Formats)
}

// Plain undoes gzip where the stream is compressed.
func Plain(r io.Reader) (io.Reader, error) {
	br := bufio.NewReader(r)
	head, _ := br.Peek(2)
	if !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return br, nil
	}
	z, err := gzip.NewReader(br)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	return z, nil
}

// Detect names the format of a stream that begins so, "" for none.
func Detect(head []byte) Format {
	text := strings.TrimPrefix(string(head), "\ufeff")
	first, _, _ := strings.Cut(text, "\n")
	first = strings.TrimSpace(first)
	switch {
	case strings.HasPrefix(first, ";"):
		return SWF
	case strings.HasPrefix(first, "{"):
		return DeepShare
	}
	for _, t := range tables {
		if has(strings.Split(first, ","), t.needs) {
			return t.format
		}
	}
	if n := len(strings.Fields(first)); n == swfFields && !strings.Contains(first, ",") {
		return SWF
	}
	return ""
}

// Next returns the next job; io.EOF after the last. In strict mode a row that
// cannot be right is an error that is a RowError.
func (r *Reader) Next() (Job, error) {
	for !r.done {
		j, err := r.rows.next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			r.done = true
			break
		}
		r.rep.Rows++
		var p RowError
		switch {
		case errors.As(err, &p):
		case isCut(err):
			// What came before is sound: a copy that broke off, as a rule.
			r.done = true
			p = RowError{r.at + 1, "the stream is cut short here"}
		case err != nil:
			r.done = true
			return Job{}, fmt.Errorf("read trace after %d rows: %w", r.rep.Rows-1, err)
		default:
			p = RowError{j.Line, r.odd(&j)}
		}
		r.at = max(r.at, p.Line)
		if p.What == "" {
			r.rep.Jobs++
			if j.Submit < r.last {
				r.rep.Unsorted++
			}
			r.last = max(r.last, j.Submit)
			return j, nil
		}
		if p.What == skipped {
			continue
		}
		r.rep.leave(p.Line, p.What)
		if r.o.Strict {
			r.done = true
			return Job{}, fmt.Errorf("read trace: %w", p)
		}
	}
	return Job{}, io.EOF
}

// isCut tells a stream that ends where it must not.
func isCut(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum)
}

// skipped marks a row that the options leave out: no problem.
const skipped = "skipped"

func (r *Reader) odd(j *Job) string {
	if r.o.Successful && !j.Completed {
		return skipped
	}
	if what := j.check(r.o); what != "" {
		return what
	}
	if r.o.Strict && j.Submit < r.last {
		return "submitted before the row above"
	}
	if r.duplicate(j.ID) {
		return "job id seen before"
	}
	return ""
}

// mostIDs bounds the ids that are remembered to find duplicates: those of the
// last rows, since what is repeated in practice is a row or a block of them.
const mostIDs = 1 << 16

func (r *Reader) duplicate(id string) bool {
	if r.seen[id] {
		return true
	}
	if len(r.seen) >= mostIDs {
		clear(r.seen)
	}
	r.seen[id] = true
	return false
}

// Report returns what was read so far.
func (r *Reader) Report() Report { return r.rep }

// ReadAll reads a whole trace and sorts it by submit time; jobs of the same
// instant keep their order.
func ReadAll(r io.Reader, f Format, o Options) ([]Job, Report, error) {
	in, err := NewReader(r, f, o)
	if err != nil {
		return nil, Report{}, err
	}
	var jobs []Job
	for {
		j, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, in.Report(), err
		}
		jobs = append(jobs, j)
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return jobs, in.Report(), nil
}
