// SPDX-License-Identifier: Apache-2.0

//go:build lab

package e2e

import (
	"testing"
	"time"

	"rifling/contrib/labrun"
)

// A site may choose the exact node list as its lever. The job is pinned to the
// node that is waited for, runs there, and one that is still pending when
// rifling ends is free again. The user's exclude list stays as it was.
func TestExactNodeList(t *testing.T) {
	s := setScene(t)
	d := daemon(t, labrun.DaemonOptions{Mode: "steer", Config: map[string]any{"limits.exact-nodes": []string{"gpu"}}})
	named := func(f labrun.Fields) bool { return f["ReqNodeList"] != "" && f["ReqNodeList"] != "(null)" }
	f := waitJob(t, s.own, "the node list", named)
	t.Logf("scontrol show job %s: ReqNodeList=%s ExcNodeList=%s", s.own, f["ReqNodeList"], f["ExcNodeList"])
	if got := excluded(t, f); len(got) != 1 || got[0] != s.avoid {
		t.Errorf("exclude list %v, want the user's own alone", got)
	}
	if out, err := d.Rifling(within(t, time.Minute), "explain", s.own); err != nil {
		t.Error(err)
	} else {
		t.Log(out)
	}
	node := f["ReqNodeList"]
	s.free(t, node)
	f = waitJob(t, s.own, "start", func(f labrun.Fields) bool { return f.State() == "RUNNING" })
	if f["NodeList"] != node {
		t.Errorf("the job runs on %s, named was %s", f["NodeList"], node)
	}
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
	if f := job(t, s.later); f.State() == "PENDING" && f["ReqNodeList"] != "(null)" && f["ReqNodeList"] != "" {
		t.Errorf("the waiting job keeps the node list %s after the stop", f["ReqNodeList"])
	}
}
