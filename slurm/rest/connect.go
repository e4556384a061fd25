// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"rifling/slurm"
)

// Versions are the REST versions that the client speaks, best first. v0.0.39
// is left out for good: its nice aborts slurmrestd, and its update body changed
// between patch releases.
func Versions() []int { return []int{45, 44, 43, 42, 41, 40, 38} }

// newestKnown is the newest Slurm release that the versions above come from.
var newestKnown = slurm.Release{Major: 26, Minor: 5}

// checkVersion refuses a version that the client cannot or must not speak.
func checkVersion(v int) error {
	switch {
	case v == 0 || slices.Contains(Versions(), v):
		return nil
	case v == 39:
		return slurm.WithHint(fmt.Errorf("v0.0.39: %w", slurm.ErrUnsafe), "use v0.0.38 or v0.0.40, which the same Slurm serves")
	}
	return slurm.WithHint(fmt.Errorf("v0.0.%d: %w", v, slurm.ErrUnknownVersion), "known are v0.0.38 and v0.0.40 to v0.0.45")
}

// Connect finds the REST version to speak, from the newest known downwards, or
// checks the one that Options name, and reads Slurm's release. It is called by
// itself before the first request; call it again to find the version anew.
//
// Errors wrap slurm.ErrUnreachable, slurm.ErrAuth, slurm.ErrBusy, or
// slurm.ErrUnknownVersion when no known version answers.
func (c *Client) Connect(ctx context.Context) (slurm.Release, error) {
	versions := Versions()
	if c.opt.Version != 0 {
		versions = []int{c.opt.Version}
	}
	var last error
	for _, v := range versions {
		a, err := c.call(ctx, request{op: fmt.Sprintf("ping v0.0.%d", v), method: http.MethodGet, path: path("slurm", v, "ping")})
		if errors.Is(err, slurm.ErrUnknownVersion) {
			last = err
			continue
		}
		if err != nil {
			return slurm.Release{}, err
		}
		r := a.release
		r.REST = v
		if v == 40 && c.opt.Version == 0 && !r.Before(23, 11) && r.Before(23, 12) && r.Micro < 2 {
			// Slurm 23.11.0 and .1: nice on v0.0.40 ends slurmrestd.
			continue
		}
		jobs, err := c.jobsVersion(ctx, v)
		if err != nil {
			return slurm.Release{}, err
		}
		c.adopt(r, jobs)
		return r, nil
	}
	return slurm.Release{}, c.noVersion(last)
}

// jobsVersion returns the version to read jobs in. v0.0.45 no longer tells
// whether a job asked for whole nodes ("shared" is always empty, and nothing
// came in its place), v0.0.44 of the same slurmrestd does.
func (c *Client) jobsVersion(ctx context.Context, v int) (int, error) {
	if v != 45 || c.opt.Version != 0 {
		return v, nil
	}
	_, err := c.call(ctx, request{op: "ping v0.0.44", method: http.MethodGet, path: path("slurm", 44, "ping")})
	switch {
	case err == nil:
		return 44, nil
	case errors.Is(err, slurm.ErrUnknownVersion):
		return v, nil
	}
	return 0, err
}

func (c *Client) noVersion(last error) error {
	if last == nil {
		last = slurm.ErrUnknownVersion
	}
	return slurm.WithHint(fmt.Errorf("connect to slurmrestd: %w", last),
		"rifling speaks v0.0.38 and v0.0.40 to v0.0.45 (Slurm 22.05 to 26.05): does %s lead to slurmrestd, and does it load one of them (slurmrestd -d list)?", c.opt.URL)
}

// adopt takes r as the release spoken to, and jobs as the version of job reads.
func (c *Client) adopt(r slurm.Release, jobs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release, c.jobsREST = r, jobs
	c.stats.NewerRelease = newestKnown.Before(r.Major, r.Minor)
}

// forget drops the version after slurmrestd said that it does not serve it, as
// happens when Slurm is upgraded under a running daemon.
func (c *Client) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release.REST = 0
	c.stats.Reconnect++
}

// get reads one path below the version's. When the version is gone it is found
// anew, once.
func (c *Client) get(ctx context.Context, api, op string, query map[string][]string, segments ...string) (*answer, error) {
	for again := false; ; again = true {
		r, jobs, err := c.connected(ctx)
		if err != nil {
			return nil, err
		}
		version := r.REST
		if s := segments[0]; api == "slurm" && (s == "jobs" || s == "job") {
			version = jobs
		}
		a, err := c.call(ctx, request{op: op, method: http.MethodGet, path: path(api, version, segments...), query: query})
		if again || api != "slurm" || !errors.Is(err, slurm.ErrUnknownVersion) {
			return a, err
		}
		c.forget()
	}
}
