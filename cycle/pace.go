// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"time"

	"rifling/slurm"
)

// Pace returns the cluster with its updates, those that take back included, at
// least gap apart, so that no burst of ours reaches slurmctld. The time passes
// after an update rather than before it: the job has just been read again, and
// that must not grow old.
func Pace(c Cluster, gap time.Duration) Cluster { return paced{c, gap} }

type paced struct {
	Cluster
	gap time.Duration
}

// Update sends the update, and takes its time.
func (p paced) Update(ctx context.Context, u slurm.Update) error {
	err := p.Cluster.Update(ctx, u)
	t := time.NewTimer(p.gap)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return err
}
