// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"rifling/slurm"
)

// zeroPoint is the number that slurmctld takes for 0 in site_factor
// (NICE_OFFSET of slurm.h).
const zeroPoint = 1 << 31

// farthest bounds nice and site_factor: beyond it lie NO_VAL and INFINITE.
const farthest = zeroPoint - 3

// Update changes one pending job to what u says. It returns nil when slurmctld
// took all of it.
//
// Errors wrap slurm.ErrStarted (2073: a plain job is as it was), slurm.ErrGone,
// slurm.ErrHeld, slurm.ErrDenied, slurm.ErrRejected (the job is as it was),
// slurm.ErrUnsafe (nothing was sent), slurm.ErrAuth, slurm.ErrBusy or
// slurm.ErrUnreachable. After the last two the change may or may not have been
// made unless the connection failed before: read the job again. It is sent
// again only where it certainly did not reach slurmctld.
//
// An array is changed under its own id. From v0.0.40 that touches the record of
// pending tasks only. v0.0.38 tries running tasks as well: these refuse, so the
// answer is slurm.ErrStarted, while the pending tasks have changed (live).
func (c *Client) Update(ctx context.Context, u slurm.Update) error {
	if u.JobID == 0 {
		return fmt.Errorf("update job 0: %w: no job id", slurm.ErrUnsafe)
	}
	if u.Empty() {
		return nil
	}
	r, _, err := c.connected(ctx)
	if err != nil {
		return err
	}
	id := strconv.FormatUint(uint64(u.JobID), 10)
	body, err := updateBody(r, u)
	if err != nil {
		return fmt.Errorf("update job %s: %w", id, err)
	}
	q := request{op: "update job " + id, method: http.MethodPost, path: path("slurm", r.REST, "job", id), body: body}
	a, err := c.call(ctx, q)
	if err != nil {
		return err
	}
	if number, text := a.taskFailure(); number != 0 {
		err := c.classify(q, http.StatusOK, number, text)
		c.count(func(s *Stats) { s.Errors[Kind(err)]++ })
		return err
	}
	return nil
}

// updateBody writes the fields of u as the version wants them. Host lists go as
// strings everywhere: an empty list would change nothing and report no error.
func updateBody(r slurm.Release, u slurm.Update) ([]byte, error) {
	if err := safe(r, u); err != nil {
		return nil, err
	}
	exclude, require := "excluded_nodes", "required_nodes"
	if r.REST < 40 {
		exclude, require = "exclude_nodes", "nodelist"
	}
	body := map[string]any{}
	if u.ExcludedNodes != nil {
		body[exclude] = slurm.CompressHosts(*u.ExcludedNodes)
	}
	if u.RequiredNodes != nil {
		body[require] = slurm.CompressHosts(*u.RequiredNodes)
	}
	if u.SiteFactor != nil {
		body["site_factor"] = zeroPoint + *u.SiteFactor
	}
	if u.Nice != nil {
		body["nice"] = *u.Nice
	}
	return json.Marshal(body)
}

// safe refuses what would end slurmrestd or slurmctld, or do something else
// than it says.
func safe(r slurm.Release, u slurm.Update) error {
	refuse := func(why, hint string) error {
		return slurm.WithHint(fmt.Errorf("%w: %s", slurm.ErrUnsafe, why), "%s", hint)
	}
	early2311 := !r.Before(23, 11) && r.Before(23, 12) && r.Micro < 2
	switch {
	case u.Nice != nil && (r.REST == 39 || r.REST == 40 && early2311):
		return refuse("nice ends slurmrestd", "speak v0.0.38 to this release")
	case u.RequiredNodes != nil && len(*u.RequiredNodes) == 0 && r.Major == 23 && r.Minor == 2 && r.Micro < 2:
		return refuse("clearing the node list ends slurmctld", "fixed in Slurm 23.02.2")
	case u.SiteFactor != nil && !r.HasSiteFactor():
		return refuse(fmt.Sprintf("v0.0.%d has no site_factor", r.REST), "steer the order by nice on this release")
	case u.SiteFactor != nil && !inRange(*u.SiteFactor), u.Nice != nil && !inRange(*u.Nice):
		return refuse("the priority offset is out of range", fmt.Sprintf("it must lie within -%d and %d", farthest, farthest))
	}
	return nil
}

func inRange(n int64) bool { return -farthest <= n && n <= farthest }
