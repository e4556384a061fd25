// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"time"

	"rifling/cmd/internal/config"
	"rifling/cmd/internal/page"
	"rifling/cmd/internal/wording"
	"rifling/cycle"
	"rifling/store"
)

// statusPage is the status page beside the loop: it is handed what a cycle did
// and reads the rest from the history, so that no look at it waits for a cycle
// and no cycle for a look. A nil one is a page that is switched off.
type statusPage struct {
	*page.Server
	history *store.Store
}

// newStatusPage opens the history for reading. It must be open for writing
// already.
func newStatusPage(c *config.Config) (*statusPage, error) {
	if c.Listen.Page == config.PageOff || c.Listen.Address == "" {
		return nil, nil
	}
	history, err := store.OpenReadOnly(c.Database)
	if err != nil {
		return nil, err
	}
	return &statusPage{history: history}, nil
}

// serve puts the page on all paths that nothing else is on.
func (d *daemon) servePage(mux *http.ServeMux) {
	if d.page == nil {
		return
	}
	c := d.conf
	d.page.Server = page.NewServer(page.Options{
		Version: version, BasePath: c.Listen.BasePath, Loopback: c.Listen.Page == config.PageLoopback,
		Interval: c.Interval, Depth: c.Limits.Depth, Policy: c.Policy, History: d.page.history,
		Now: time.Now, Zone: time.Local, Log: d.log,
	})
	mux.Handle("/", d.page.Handler())
}

// publish shows what a cycle did. It runs in the loop and only hands values on.
func (d *daemon) publish(rep *cycle.Report) {
	if d.page == nil || d.page.Server == nil {
		return
	}
	held := ""
	if h := rep.Held; h != nil {
		held = wording.Sentence(h.Why) + "; it " + h.Ends + "."
	}
	d.page.Pause(held)
	anpr, gpus := d.loop.Book.ANPR(rep.Snapshot)
	d.page.Publish(&page.View{
		Cycle: rep.Cycle, Published: time.Now(), Took: rep.Took, Mode: d.conf.Mode, Snapshot: rep.Snapshot,
		Profiles: rep.Profiles, Groups: d.loop.Book.Groups(), Plan: rep.Plan, Owners: rep.Owners, Results: rep.Results,
		ANPR: anpr, ANPRGPUs: gpus, PutOff: rep.PutOff, Rejected: rep.Rejected,
	})
}

// pageFailed shows why cycles fail.
func (d *daemon) pageFailed(err error) {
	if d.page != nil && d.page.Server != nil {
		d.page.Fail(err)
	}
}

// closePage closes the history that the page reads.
func (d *daemon) closePage() error {
	if d.page == nil {
		return nil
	}
	return d.page.history.Close()
}
