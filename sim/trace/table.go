// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// table is a kind of trace that is a CSV file with a heading.
type table struct {
	format Format
	needs  []string // columns that tell the format
	job    func(*cells, *Job)
}

// tables are tried in this order.
var tables = []table{
	{Own, []string{"job", "submit_s", "gpus", "duration_s", "user", "milli"}, ownJob},
	{Philly, []string{"job", "submit_s", "gpus", "duration_s", "noisy_gpu_seconds_estimate"}, phillyJob},
	{Muri, []string{"job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "iteration_time"}, muriJob},
	{Pollux, []string{"name", "time", "application", "num_replicas", "batch_size"}, polluxJob},
	{Lab, []string{"job", "gpus", "duration", "limit", "submit_real", "start_real", "end_real"}, labJob},
	{Openb, []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, openbJob},
}

func has(columns, needs []string) bool {
	for _, n := range needs {
		if !slices.ContainsFunc(columns, func(c string) bool { return strings.TrimSpace(c) == n }) {
			return false
		}
	}
	return true
}

type tableRows struct {
	csv   *csv.Reader
	cells cells
	table table
}

func openTable(br *bufio.Reader, f Format) (rows, error) {
	t := tables[slices.IndexFunc(tables, func(t table) bool { return t.format == f })]
	c := csv.NewReader(br)
	c.ReuseRecord = true
	c.TrimLeadingSpace = true
	c.FieldsPerRecord = -1 // checked row by row
	head, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("read the trace's heading: %w", err)
	}
	at := make(map[string]int, len(head))
	for i, name := range head {
		at[strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))] = i
	}
	for _, n := range t.needs {
		if _, ok := at[n]; !ok {
			return nil, fmt.Errorf("%w: a trace of format %s needs a column %q, this one has %q", ErrFormat, f, n, head)
		}
	}
	return &tableRows{csv: c, cells: cells{at: at}, table: t}, nil
}

func (t *tableRows) next() (Job, error) {
	row, err := t.csv.Read()
	var odd *csv.ParseError
	switch {
	case errors.As(err, &odd):
		return Job{}, RowError{odd.Line, "not CSV: " + odd.Err.Error()}
	case err != nil:
		return Job{}, err // io.EOF among them
	}
	line, _ := t.csv.FieldPos(0)
	if len(row) != len(t.cells.at) {
		return Job{}, RowError{line, "wrong number of columns"}
	}
	t.cells.row, t.cells.odd = row, ""
	j := Job{Line: line, Milli: 1000, Wait: -1, Estimate: math.NaN(), Completed: true}
	t.table.job(&t.cells, &j)
	if t.cells.odd != "" {
		return Job{}, RowError{line, t.cells.odd}
	}
	return j, nil
}

// cells reads one row by column name and remembers the first cell that is odd.
type cells struct {
	at  map[string]int
	row []string
	odd string
	// zero is the first instant of a trace whose times are instants.
	zero     time.Time
	instants bool
	started  bool
}

func (c *cells) text(column string) string {
	i, ok := c.at[column]
	if !ok {
		return ""
	}
	return strings.Clone(strings.TrimSpace(c.row[i]))
}

func (c *cells) number(column string) float64 {
	text := c.text(column)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		if c.odd == "" {
			c.odd = "column " + column + " is no number"
		}
		return 0
	}
	return v
}

func (c *cells) count(column string) int {
	v := c.number(column)
	if math.Abs(v) > 1e9 || v != math.Trunc(v) {
		if c.odd == "" {
			c.odd = "column " + column + " is no count"
		}
		return 0
	}
	return int(v)
}

// time reads a column in the given unit.
func (c *cells) time(column string, unit float64) time.Duration {
	d, ok := Seconds(c.number(column) * unit)
	if !ok && c.odd == "" {
		c.odd = "column " + column + " is no time"
	}
	return d
}

// instant reads a time that is seconds since the trace's zero or, in all rows
// alike, an instant with its zone (RFC 3339). Zones may differ from row to row;
// a time without one could mean anything.
func (c *cells) instant(column string) time.Duration {
	text := c.text(column)
	isInstant := strings.Contains(text, ":")
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case isInstant && err != nil:
		c.odd = "column " + column + " is no instant with a time zone"
	case c.started && isInstant != c.instants:
		c.odd = "column " + column + " mixes instants and seconds"
	case !isInstant:
		c.started = true
		return c.time(column, 1)
	case !c.started:
		c.started, c.instants, c.zero = true, true, at
	}
	if c.odd != "" {
		return 0
	}
	return at.Sub(c.zero)
}

const milli = 1e-3

func phillyJob(c *cells, j *Job) {
	j.ID = c.text("job")
	j.Submit, j.Duration = c.time("submit_s", 1), c.time("duration_s", 1)
	j.GPUs = c.count("gpus")
	// Whatever its name says, the column predicts the run time: 10, 50, 70 and
	// 90 % of the rows lie within 10, 50, 100 and 1,000 % of it, which is the
	// published distribution of the predictor's errors.
	j.Estimate = c.number("noisy_gpu_seconds_estimate") * float64(j.GPUs)
}

func muriJob(c *cells, j *Job) {
	j.ID = c.text("job_id")
	j.Submit, j.Duration = c.time("submit_time", milli), c.time("duration", milli)
	j.GPUs = c.count("num_gpu")
	j.Model, j.Batch, j.Iterations = c.text("model_name"), c.count("batch_size"), c.number("iterations")
	for _, stage := range []string{"resource_time_0", "resource_time_1", "resource_time_2"} {
		j.Stages = append(j.Stages, c.number(stage)*milli)
	}
	j.Priority = c.count("priority")
}

func polluxJob(c *cells, j *Job) {
	j.ID = c.text("name")
	j.Submit, j.GPUs = c.time("time", 1), c.count("num_replicas")
	j.Model, j.Batch = c.text("application"), c.count("batch_size")
	j.Iterations = 1 // how many an application needs is not in the workload
}

func openbJob(c *cells, j *Job) {
	j.ID = c.text("name")
	j.CPUs = c.count("cpu_milli") / 1000
	j.Memory = c.number("memory_mib") * (1 << 20)
	j.GPUs, j.Milli = c.count("num_gpu"), c.count("gpu_milli")
	if j.Milli == 0 {
		j.Milli = 1000
	}
	j.Submit = c.time("creation_time", 1)
	j.Duration = c.time("deletion_time", 1) - j.Submit
	if j.Duration == 0 {
		j.Iterations = 1 // the list says only in what order they come
	}
	j.Queue = c.text("qos")
}

func labJob(c *cells, j *Job) {
	j.ID = c.text("job")
	j.GPUs, j.Duration, j.Limit = c.count("gpus"), c.time("duration", 1), c.time("limit", 1)
	j.Submit = c.time("submit_real", 1)
	j.Wait = c.time("start_real", 1) - j.Submit
	j.Queue, j.User = c.text("partition"), c.text("user")
	j.Completed = c.text("state") == "COMPLETED"
}

func ownJob(c *cells, j *Job) {
	j.ID = c.text("job")
	j.Submit, j.Duration = c.instant("submit_s"), c.time("duration_s", 1)
	j.Limit = c.time("limit_s", 1)
	j.GPUs, j.Nodes, j.Milli, j.CPUs = c.count("gpus"), c.count("nodes"), c.count("milli"), c.count("cpus")
	j.User, j.Group, j.Name, j.Queue = c.text("user"), c.text("group"), c.text("name"), c.text("queue")
	j.Completed = c.text("completed") != "0"
	j.Model, j.Batch, j.Iterations = c.text("model"), c.count("batch"), c.number("iterations")
	if c.text("wait_s") != "" {
		j.Wait = c.time("wait_s", 1)
	}
	if c.text("estimate_gpu_s") != "" {
		j.Estimate = c.number("estimate_gpu_s")
	}
	j.Priority = c.count("priority")
}
