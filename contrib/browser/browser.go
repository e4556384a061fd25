// SPDX-License-Identifier: Apache-2.0

// Package browser drives a headless Chromium of the machine: it opens pages as
// a person would see them, takes pictures, and tells what went wrong on them.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// ErrNone says that there is no Chromium here.
var ErrNone = errors.New("no chromium on this machine; contrib/setup.sh web brings Debian's")

// Browser is one running Chromium.
type Browser struct {
	ctx   context.Context //nolint:containedctx // chromedp keeps the browser in it
	close []context.CancelFunc
}

// Start starts a Chromium. The error is ErrNone where there is none.
func Start(ctx context.Context) (*Browser, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		return nil, ErrNone
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(path), chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(time.Minute))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to run as root with one
	}
	alloc, stop := chromedp.NewExecAllocator(ctx, options...)
	b, end := chromedp.NewContext(alloc)
	out := &Browser{ctx: b, close: []context.CancelFunc{end, stop}}
	if err := chromedp.Run(b); err != nil {
		out.Close()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return out, nil
}

// Close ends the browser.
func (b *Browser) Close() {
	for _, f := range b.close {
		f()
	}
}

// Tab is one tab. Its faults are gathered from its beginning on.
type Tab struct {
	Ctx   context.Context //nolint:containedctx // chromedp keeps the tab in it
	close context.CancelFunc

	mu     sync.Mutex
	faults []string
}

// Look is how a tab looks at pages.
type Look struct {
	Width, Height int
	Scale         float64 // device pixels for each; 0: 1
	Dark          bool
}

// Tab opens a tab.
func (b *Browser) Tab(l Look) (*Tab, error) {
	ctx, cancel := chromedp.NewContext(b.ctx)
	t := &Tab{Ctx: ctx, close: cancel}
	chromedp.ListenTarget(ctx, t.listen)
	scheme := "light"
	if l.Dark {
		scheme = "dark"
	}
	scale := l.Scale
	if scale == 0 {
		scale = 1
	}
	err := chromedp.Run(ctx, network.Enable(), log.Enable(), runtime.Enable(),
		emulation.SetDeviceMetricsOverride(int64(l.Width), int64(l.Height), scale, l.Width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
	)
	if err != nil {
		cancel()
		return nil, err
	}
	return t, nil
}

// Close closes the tab.
func (t *Tab) Close() { t.close() }

// listen notes what a careful person would see in the developer tools.
func (t *Tab) listen(ev any) {
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		t.fault("exception: " + e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			t.fault("console: " + string(e.Type))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			t.fault(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *page.EventJavascriptDialogOpening:
		t.fault("dialog: " + e.Message)
		go func() { _ = chromedp.Run(t.Ctx, page.HandleJavaScriptDialog(false)) }() // else the tab stands still
	}
}

func (t *Tab) fault(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, s)
}

// Faults returns what went wrong since the last call.
func (t *Tab) Faults() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.faults
	t.faults = nil
	return out
}

// Open goes to a page and waits until it is drawn.
func (t *Tab) Open(url string) error {
	return chromedp.Run(t.Ctx, chromedp.Navigate(url), chromedp.WaitReady("body"))
}

// Do runs actions in the tab.
func (t *Tab) Do(actions ...chromedp.Action) error { return chromedp.Run(t.Ctx, actions...) }

// Eval evaluates an expression of JavaScript into a value.
func (t *Tab) Eval(expression string, into any) error {
	return chromedp.Run(t.Ctx, chromedp.Evaluate(expression, into))
}

// Picture returns the page as PNG: what is in sight, or, where most is more
// than that, as much of the page's height.
func (t *Tab) Picture(most int) ([]byte, error) {
	var png []byte
	err := chromedp.Run(t.Ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		_, _, _, _, _, size, err := page.GetLayoutMetrics().Do(ctx)
		if err != nil {
			return err
		}
		shot := page.CaptureScreenshot().WithCaptureBeyondViewport(true)
		if most > 0 {
			shot = shot.WithClip(&page.Viewport{Width: size.Width, Height: min(size.Height, float64(most)), Scale: 1})
		}
		png, err = shot.Do(ctx)
		return err
	}))
	return png, err
}
