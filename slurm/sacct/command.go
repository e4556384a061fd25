// SPDX-License-Identifier: Apache-2.0

package sacct

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"rifling/slurm"
)

// Command reads accounting by running sacct. It may be used by one goroutine
// at a time.
type Command struct {
	// Argv is the command and what comes before sacct's own options; nil means
	// sacct of PATH.
	Argv []string
	// Usage reads the rows of steps too, for gres/gpuutil and gres/gpumem.
	// They are several times as many rows: ask only where the site has them.
	Usage bool

	fields []string // what this sacct has of the columns
}

func (c *Command) argv(args ...string) []string {
	argv := c.Argv
	if len(argv) == 0 {
		argv = []string{"sacct"}
	}
	return append(append([]string{}, argv...), args...)
}

// PastJobs gives the sink every run that waited or ran between the two
// instants, those of all users and all runs of a requeued job.
//
// Errors wrap slurm.ErrTooWide where the database will not serve as wide a
// range, and carry sacct's own words and a hint.
func (c *Command) PastJobs(ctx context.Context, from, to time.Time, sink slurm.PastSink) error {
	if c.fields == nil {
		fields, err := c.available(ctx)
		if err != nil {
			return err
		}
		c.fields = fields
	}
	// A delimiter that nobody could foresee: no name can forge a row.
	salt := make([]byte, 4)
	rand.Read(salt) // it never fails
	delimiter := "\x1f" + hex.EncodeToString(salt) + "\x1f"
	args := []string{
		"--allusers", "--duplicates", "--noconvert", "--parsable2", "--delimiter=" + delimiter,
		"--format=" + strings.Join(c.fields, ","),
		fmt.Sprintf("--starttime=uts%d", from.Unix()), fmt.Sprintf("--endtime=uts%d", to.Unix()),
	}
	if !c.Usage {
		args = append(args, "--allocations")
	}
	return c.read(ctx, args, Format{Delimiter: delimiter, Location: time.UTC}, sink)
}

// read runs sacct and reads its output as it comes.
func (c *Command) read(ctx context.Context, args []string, f Format, sink slurm.PastSink) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, stderr := c.command(ctx, args)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run sacct: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return c.failed(err, "")
	}
	err = Read(out, f, sink)
	if err != nil {
		cancel() // it need not say the rest
	}
	waited := cmd.Wait()
	switch {
	case waited != nil && (err == nil || cmd.ProcessState.Exited()):
		return c.failed(waited, stderr.String()) // why there was nothing to read
	case err == nil && strings.Contains(stderr.String(), "error:"):
		return c.failed(errors.New("it ended well, but said"), stderr.String())
	}
	return err
}

func (c *Command) command(ctx context.Context, args []string) (*exec.Cmd, *tail) {
	argv := c.argv(args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the command is the admin's own setting
	for _, e := range os.Environ() {
		// What a shell sets for its user's own sacct must not change ours.
		if !strings.HasPrefix(e, "SACCT_") && !strings.HasPrefix(e, "SLURM_TIME_FORMAT=") && !strings.HasPrefix(e, "SLURM_CLUSTERS=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "SLURM_TIME_FORMAT=%s", "LC_ALL=C")
	cmd.WaitDelay = 5 * time.Second
	stderr := &tail{}
	cmd.Stderr = stderr
	return cmd, stderr
}

// available asks sacct which of the fields it has.
func (c *Command) available(ctx context.Context) ([]string, error) {
	cmd, stderr := c.command(ctx, []string{"--helpformat"})
	out, err := cmd.Output()
	if err != nil {
		return nil, c.failed(err, stderr.String())
	}
	has := map[string]bool{}
	for _, name := range strings.Fields(string(out)) {
		has[strings.ToLower(name)] = true
	}
	for _, n := range needed {
		if name := columnNames[n]; !has[strings.ToLower(name)] {
			return nil, slurm.WithHint(fmt.Errorf("%s has no field %s", c.argv()[0], name), "is it Slurm's sacct? see `%s --helpformat`", c.argv()[0])
		}
	}
	return standard(has, c.Usage), nil
}

// failed makes an error of how sacct ended and what it said.
func (c *Command) failed(err error, said string) error {
	name, words := c.argv()[0], strings.Join(strings.Fields(said), " ")
	low := strings.ToLower(words)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return slurm.WithHint(fmt.Errorf("run %s: %w", name, err),
			"install Slurm's client commands here, use --from rest, or import a file that sacct wrote elsewhere")
	}
	if words != "" {
		err = fmt.Errorf("%w: %s", err, words)
	}
	err = fmt.Errorf("run %s: %w", name, err)
	switch {
	case strings.Contains(low, "too wide"), strings.Contains(low, "result too large"), strings.Contains(low, "too large for database"):
		return fmt.Errorf("%w: %w", slurm.ErrTooWide, err)
	case strings.Contains(low, "storage is disabled"):
		return slurm.WithHint(err, "this cluster keeps no accounting: AccountingStorageType=accounting_storage/slurmdbd in slurm.conf")
	case strings.Contains(low, "connect"), strings.Contains(low, "slurmdbd"):
		return slurm.WithHint(err, "is slurmdbd up, and does AccountingStorageHost name it? sacctmgr show stats")
	case strings.Contains(low, "access"), strings.Contains(low, "permission"), strings.Contains(low, "privilege"):
		return slurm.WithHint(err, "the user needs AdminLevel=Operator to see the jobs of others (PrivateData)")
	}
	return err
}

// tail keeps the last of what is written to it, which is where an error stands.
type tail struct{ buf bytes.Buffer }

const maxTail = 2 << 10

// Write keeps p, or as much of its end as there is room for.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > maxTail {
		p = p[n-maxTail:]
	}
	if over := t.buf.Len() + len(p) - maxTail; over > 0 {
		t.buf.Next(over)
	}
	t.buf.Write(p)
	return n, nil
}

// String returns what was kept.
func (t *tail) String() string { return t.buf.String() }

// RecordsUsage reports whether this site's accounting records what jobs use of
// their GPUs, as sacctmgr tells it. If that cannot be found out, it does not.
func RecordsUsage(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, "sacctmgr", "--noheader", "--parsable2", "show", "tres", "format=type,name").Output()
	return err == nil && strings.Contains(string(out), "gres|gpuutil")
}
