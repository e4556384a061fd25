// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"strconv"
	"time"
)

// ownColumns is the heading of rifling's own format.
var ownColumns = []string{
	"job", "submit_s", "gpus", "duration_s", "limit_s", "nodes", "milli", "cpus", "user", "group", "name", "queue",
	"model", "batch", "iterations", "wait_s", "estimate_gpu_s", "priority", "completed",
}

// Writer writes jobs in rifling's own format, Own: CSV with a heading, times in
// seconds, empty where not told.
type Writer struct {
	csv    *csv.Writer
	buf    *bufio.Writer
	header bool
}

// NewWriter returns a Writer. Flush it at the end.
func NewWriter(w io.Writer) *Writer {
	buf := bufio.NewWriterSize(w, 64<<10)
	return &Writer{csv: csv.NewWriter(buf), buf: buf}
}

// Write adds one job.
func (w *Writer) Write(j Job) error {
	if !w.header {
		w.header = true
		if err := w.csv.Write(ownColumns); err != nil {
			return err
		}
	}
	completed := "1"
	if !j.Completed {
		completed = "0"
	}
	wait, estimate := "", ""
	if j.Wait >= 0 {
		wait = inSeconds(j.Wait)
	}
	if !math.IsNaN(j.Estimate) {
		estimate = strconv.FormatFloat(j.Estimate, 'g', -1, 64)
	}
	return w.csv.Write([]string{
		j.ID, inSeconds(j.Submit), strconv.Itoa(j.GPUs), inSeconds(j.Duration), inSeconds(j.Limit),
		strconv.Itoa(j.Nodes), strconv.Itoa(j.Milli), strconv.Itoa(j.CPUs), j.User, j.Group, j.Name, j.Queue,
		j.Model, strconv.Itoa(j.Batch), strconv.FormatFloat(j.Iterations, 'g', -1, 64), wait, estimate,
		strconv.Itoa(j.Priority), completed,
	})
}

// Flush writes what is still held back.
func (w *Writer) Flush() error {
	w.csv.Flush()
	return errors.Join(w.csv.Error(), w.buf.Flush())
}

func inSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}
