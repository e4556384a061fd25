// SPDX-License-Identifier: Apache-2.0

//go:build lab

package e2e

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"testing"
	"time"

	"rifling/contrib/labrun"
	"rifling/contrib/workload"
	"rifling/store"
)

// In observe mode riflingd decides and records, and sends not one POST. How
// long it looks on is $E2E_OBSERVE, 45s by default; in a lab at 40 times speed
// 36m are a day.
func TestObserveSendsNoPost(t *testing.T) {
	span, err := time.ParseDuration(cmp.Or(os.Getenv("E2E_OBSERVE"), "45s"))
	if err != nil {
		t.Fatal(err)
	}
	p := proxy(t, nil)
	d := daemon(t, labrun.DaemonOptions{Mode: "observe", URL: p.URL})
	ctx := within(t, span+2*time.Minute)

	// As many jobs as keep the queue busy for the whole span.
	const meanWork = 20 * time.Minute // emulated
	n := max(40, int(span.Seconds()*compression*float64(theLab.Nodes*theLab.GPUs)/(3.5*meanWork.Seconds())))
	jobs, err := workload.Generate(11, workload.Options{Jobs: n, Nodes: theLab.Nodes, GPUsPerNode: theLab.GPUs, MeanWork: meanWork, Load: 1.6})
	if err != nil {
		t.Fatal(err)
	}
	c := &labrun.Campaign{Lab: theLab, Jobs: jobs, Compression: compression}
	t.Cleanup(func() {
		if err := c.Cancel(context.Background()); err != nil {
			t.Log(err)
		}
	})
	submitting, stop := context.WithTimeout(ctx, span)
	defer stop()
	if err := c.Submit(submitting); err != nil && submitting.Err() == nil {
		t.Fatal(err)
	}
	<-submitting.Done()

	if n := p.Count(http.MethodPost); n != 0 {
		t.Errorf("%d POSTs were sent: %v", n, p.Counts())
	}
	if n := p.Count(http.MethodGet); n == 0 {
		t.Error("no GET came through the proxy, so it proves nothing")
	}
	st, err := store.OpenReadOnly(d.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	seen, err := st.Jobs(ctx, store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	decided := 0
	for i := range seen {
		if dec := seen[i].Decision; dec != nil && dec.Skipped == "" && dec.Action != "leave" {
			decided++
		}
	}
	t.Logf("%d GETs, no POST; %d jobs seen, %d decisions to act were recorded", p.Count(http.MethodGet), len(seen), decided)
	if decided == 0 {
		t.Error("no decision was recorded")
	}
}
