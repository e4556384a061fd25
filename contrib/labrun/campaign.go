// SPDX-License-Identifier: Apache-2.0

package labrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"rifling/contrib/workload"
)

// Campaign is a list of emulated jobs on its way through a lab's queue.
// Compression is emulated seconds per real second.
type Campaign struct {
	Lab         *Lab
	Jobs        []workload.Job
	Compression float64

	mu  sync.Mutex
	ids []string // of Jobs, in order, as far as they are submitted
}

// SetCompression tells the lab's emulated jobs how many times faster than time
// they run: it holds for jobs that start from now on.
func (l *Lab) SetCompression(c float64) error {
	return os.WriteFile(filepath.Join(l.EmuDir, "scale"), []byte(strconv.FormatFloat(c, 'g', -1, 64)+"\n"), 0o644)
}

// Scale is Slurm's seconds per emulated second.
func (c *Campaign) Scale() float64 { return float64(c.Lab.Speed) / c.Compression }

// Submit submits every job at its time. It returns when the last one is in the
// queue.
func (c *Campaign) Submit(ctx context.Context) error {
	start := time.Now()
	for i := range c.Jobs {
		j := &c.Jobs[i]
		due := start.Add(time.Duration(float64(j.Submit) / c.Compression))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(due)):
		}
		id, err := c.Lab.Sbatch(ctx, j.User, j.Script(c.Scale()))
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.ids = append(c.ids, id)
		c.mu.Unlock()
	}
	return nil
}

// IDs returns the ids of the jobs that are submitted, in the list's order.
func (c *Campaign) IDs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.ids...)
}

// Progress is how far a campaign has come.
type Progress struct {
	Waiting, Running, Done int // of the jobs submitted so far
	GPUsBusy               int
}

// Finished tells whether all of the campaign's jobs were submitted and ended.
func (c *Campaign) Finished(p Progress) bool { return p.Done == len(c.Jobs) }

// Look asks Slurm how far the jobs are. A job that squeue no longer lists, or
// lists as ended, is done.
func (c *Campaign) Look(ctx context.Context) (Progress, error) {
	ids := c.IDs()
	if len(ids) == 0 {
		return Progress{}, nil
	}
	out, err := c.Lab.Exec(ctx, "squeue", "-h", "-t", "PENDING,RUNNING,SUSPENDED,CONFIGURING", "-o", "%A|%T")
	if err != nil {
		return Progress{}, err
	}
	state := map[string]string{}
	for line := range strings.Lines(out) {
		if id, s, ok := strings.Cut(strings.TrimSpace(line), "|"); ok {
			state[id] = s
		}
	}
	var p Progress
	for i, id := range ids {
		switch s := state[id]; s {
		case "":
			p.Done++
		case "PENDING":
			p.Waiting++
		default:
			p.Running++
			p.GPUsBusy += c.Jobs[i].GPUs
		}
	}
	return p, nil
}

// Rows reads the jobs' ends from Slurm's accounting and from what the jobs
// printed. It fails while a job has not ended, or slurmdbd has not heard of it.
func (c *Campaign) Rows(ctx context.Context) ([]Row, error) {
	ids := c.IDs()
	if len(ids) == 0 {
		return nil, errors.New("no job was submitted")
	}
	out, err := c.Lab.Exec(ctx, "env", "SLURM_TIME_FORMAT=%s", "sacct", "-nXP", "-D", "-j", strings.Join(ids, ","),
		"-o", "JobIDRaw,State,Submit,Start,End,NNodes,NodeList")
	if err != nil {
		return nil, err
	}
	byID := map[string]Row{}
	for line := range strings.Lines(out) {
		r, err := parseSacct(strings.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		byID[r.ID] = r // a requeued job's last run counts
	}
	rows := make([]Row, len(ids))
	for i, id := range ids {
		r, ok := byID[id]
		if !ok {
			return nil, fmt.Errorf("sacct does not list job %s yet", id)
		}
		if r.State != "CANCELLED" && (r.Start.IsZero() || r.End.IsZero()) {
			return nil, fmt.Errorf("job %s is %s: no end yet", id, r.State)
		}
		r.Job = c.Jobs[i]
		r.Result = c.Lab.Result(r.Job.User, id)
		rows[i] = r
	}
	return rows, nil
}

// parseSacct reads one line of Rows' sacct call.
func parseSacct(line string) (Row, error) {
	f := strings.Split(line, "|")
	if len(f) != 7 {
		return Row{}, fmt.Errorf("sacct: %d fields, want 7: %q", len(f), line)
	}
	state, _, _ := strings.Cut(f[1], " ") // "CANCELLED by 1001"
	nodes, err := strconv.Atoi(f[5])
	if err != nil {
		return Row{}, fmt.Errorf("sacct: nodes of job %s: %w", f[0], err)
	}
	return Row{
		ID: f[0], State: state, Submit: epoch(f[2]), Start: epoch(f[3]), End: epoch(f[4]), Nodes: nodes, NodeList: f[6],
	}, nil
}

// epoch reads seconds since 1970; whatever else sacct writes ("Unknown",
// "None") means that there is no time.
func epoch(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n == 0 {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

// Result returns what an emulated job of a workload printed at its end, nil
// when it printed no result.
func (l *Lab) Result(user, id string) *Result {
	path := filepath.Join(l.Root, "home", user, strings.Replace(workload.Output, "%j", id, 1))
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return parseResult(string(text))
}
