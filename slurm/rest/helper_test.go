// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

// The releases that the fake server is made to be.
var (
	slurm2205 = slurm.Release{Major: 22, Minor: 5, Micro: 8, REST: 38}
	slurm2411 = slurm.Release{Major: 24, Minor: 11, Micro: 5, REST: 42}
	slurm2605 = slurm.Release{Major: 26, Minor: 5, Micro: 5, REST: 45}
)

// onEach runs a test on each of the releases.
func onEach(t *testing.T, f func(t *testing.T, r slurm.Release)) {
	t.Helper()
	for _, r := range []slurm.Release{slurm2205, slurm2411, slurm2605} {
		t.Run(r.String(), func(t *testing.T) { f(t, r) })
	}
}

// client returns a client for the server that never sleeps for real; naps
// collects the pauses that it would have made.
func client(t testing.TB, srv *slurmtest.Server, o Options) (c *Client, naps *[]time.Duration) {
	t.Helper()
	o.URL = srv.URL
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	naps = &[]time.Duration{}
	c.sleep = func(ctx context.Context, d time.Duration) error {
		*naps = append(*naps, d)
		return ctx.Err()
	}
	c.jitter = func(d time.Duration) time.Duration { return d }
	t.Cleanup(c.Close)
	return c, naps
}

// jwt is a token of the right shape that nobody signed.
func jwt(claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"HS256"}`)) + "." + part([]byte(claims)) + ".c2lnbmF0dXJl"
}

func tokenFile(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func mustSnapshot(t testing.TB, c *Client) *slurm.Snapshot {
	t.Helper()
	s, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	return s
}

// queue is a small cluster with one job of each kind.
func queue(r slurm.Release) *slurmtest.SnapshotBuilder {
	return slurmtest.Snapshot().Release(r).Nodes("gpu[01-08]", 8).Jobs(
		slurmtest.Job(1).GPUs(4).Running("gpu01"),
		slurmtest.Job(2).GPUsPerNode(8).Nodes(2, 2).Exclude("gpu08"),
		slurmtest.Job(3).GPUs(12).Nodes(1, 3).User("bob"),
		slurmtest.Job(4).GPUs(1).Array("1-6%2"),
		slurmtest.Job(5).GPUs(1).Done("COMPLETED"),
	)
}

func release(major, minor, micro int) slurm.Release {
	return slurm.Release{Major: major, Minor: minor, Micro: micro}
}

func ptr[T any](v T) *T { return &v }

func fmtErr(err error) string {
	return fmt.Sprintf("%v [%s] hint: %s", err, Kind(err), slurm.HintOf(err))
}
