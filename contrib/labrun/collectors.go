// SPDX-License-Identifier: Apache-2.0

package labrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
)

// Collectors are rifling-collector processes, one for each emulated node, as
// each real node would run one.
type Collectors struct {
	procs []*Process
}

// StartCollectors prepares the nodes' emulated counters and starts a collector
// for each node that sends to the daemon. The collectors read them through
// NVML and the kernel's files, as they would read real ones.
func (l *Lab) StartCollectors(ctx context.Context, d *Daemon, log io.Writer) (*Collectors, error) {
	names := l.NodeNames()
	for _, n := range names {
		if _, err := l.Exec(ctx, "emujob", "--prepare", n, "--gpus", strconv.Itoa(l.GPUs)); err != nil {
			return nil, fmt.Errorf("prepare the counters of %s: %w", n, err)
		}
	}
	c := &Collectors{}
	for _, n := range names {
		dir := filepath.Join(l.EmuDir, "nodes", n)
		p, err := startProcess("rifling-collector of "+n, []string{
			l.Bin("rifling-collector"),
			"--node", n,
			"--url", "http://" + d.Address,
			"--secret-file", d.SecretFile,
			"--nvml-library", l.Bin("libnvidia-ml.so.1"),
			"--sysfs", filepath.Join(dir, "sys"),
			"--interval", "1s",
		}, []string{"RIFLING_NVML_STUB_DIR=" + dir}, log)
		if err != nil {
			return nil, errors.Join(err, c.Stop())
		}
		c.procs = append(c.procs, p)
	}
	return c, nil
}

// Stop ends all collectors. A collector that had ended by itself is an error.
func (c *Collectors) Stop() error {
	var errs []error
	for _, p := range c.procs {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}
