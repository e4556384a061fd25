// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"rifling/cmd/internal/config"
	"rifling/profile"
	"rifling/slurm"
	"rifling/store"
)

func (a *app) topCmd() *cobra.Command {
	var every time.Duration
	var once bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch queue, groups and decisions in the terminal",
		Long: "top shows the GPU jobs of riflingd's last cycle, what was decided on them and how\n" +
			"the cluster does, and keeps that up to date. It reads the database only, so it\n" +
			"works while the daemon is slow or away, and says how old its data is.\n\n" +
			"Keys: q quit, s next order, r reverse, t all/waiting/running, / filter, p pause,\n" +
			"arrows and page keys scroll, ? help. Where the output is no terminal, or with\n" +
			"--once, it prints once and ends. NO_COLOR in the environment turns colours off.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 200*time.Millisecond {
				return usageError{fmt.Errorf("--every %s: use 200ms or more", every)}
			}
			cfg, err := a.config(cmd)
			if err != nil {
				return err
			}
			me, err := a.only(cfg)
			if err != nil {
				return err
			}
			r := topReader{path: cfg.Database, me: me}
			defer r.close()
			// What is wrong from the start is said in a line, not on a screen.
			first, err := r.read(cmd.Context(), a.env.Now())
			if err != nil {
				return err
			}
			v := &topView{cfg: cfg, now: a.env.Now, data: first, color: os.Getenv("NO_COLOR") == ""}
			if once || a.env.Screen == nil {
				return v.print(a.out)
			}
			screen, err := a.env.Screen()
			if err != nil {
				return slurm.WithHint(fmt.Errorf("this terminal cannot be used: %w", err), "is TERM set right? rifling top --once prints without it")
			}
			if screen == nil {
				return v.print(a.out)
			}
			return watch(cmd.Context(), screen, v, &r, every)
		},
	}
	cmd.Flags().DurationVar(&every, "every", 5*time.Second, "how often the database is read")
	cmd.Flags().BoolVar(&once, "once", false, "print once and end")
	return cmd
}

// terminal returns the screen of this process; nil when it has none.
func terminal() (tcell.Screen, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil, nil
	}
	s, err := tcell.NewScreen()
	if err != nil {
		return nil, err
	}
	return s, s.Init()
}

// topData is what was read at once.
type topData struct {
	at     time.Time // when, by the host's clock
	status *store.Status
	jobs   []store.Job
	groups []profile.Group
	hidden int // jobs of others, which the caller may not see
}

// topReader reads the database, which may come and go meanwhile.
type topReader struct {
	path string
	me   string // the one user whose jobs are shown; "" for all
	s    *store.Store
}

// topTime bounds one reading, so that a slow disk shows as old data and not as
// a screen that stands still for ever.
const topTime = 30 * time.Second

func (r *topReader) read(ctx context.Context, now time.Time) (_ *topData, err error) {
	ctx, cancel := context.WithTimeout(ctx, topTime)
	defer cancel()
	// Opened anew each time: another file may be there, or a daemon that writes
	// where none did.
	r.close()
	if r.s, err = store.OpenReadOnly(r.path); err != nil {
		return nil, err
	}
	d := &topData{at: now}
	if d.status, err = r.s.Status(ctx); err != nil {
		return nil, err
	}
	if d.groups, _, err = r.s.Groups(ctx); err != nil {
		return nil, err
	}
	if d.jobs, err = r.s.Jobs(ctx, store.Filter{Current: true}); err != nil {
		return nil, err
	}
	if r.me != "" {
		mine := d.jobs[:0]
		for _, j := range d.jobs {
			if j.User == r.me {
				mine = append(mine, j)
			}
		}
		d.hidden, d.jobs = len(d.jobs)-len(mine), mine
	}
	return d, nil
}

func (r *topReader) close() {
	if r.s != nil {
		r.s.Close() //nolint:errcheck,gosec // a reader's
		r.s = nil
	}
}

// reading is what a reading came to.
type reading struct {
	data *topData
	err  error
}

// watch shows the view until the user has enough. The screen is drawn from
// what was read last; reading never keeps a key waiting.
func watch(ctx context.Context, screen tcell.Screen, v *topView, r *topReader, every time.Duration) error {
	defer screen.Fini()
	ctx, cancel := context.WithCancel(ctx)
	events, stop := make(chan tcell.Event, 16), make(chan struct{})
	go screen.ChannelEvents(events, stop)
	defer close(stop)
	results := make(chan reading, 1)
	busy := false
	read := func() {
		if !busy && !v.paused {
			busy = true
			go func() {
				d, err := r.read(ctx, v.now())
				results <- reading{d, err}
			}()
		}
	}
	defer func() {
		cancel()
		if busy { // before the caller closes what is read from
			<-results
		}
	}()
	tick, clock := time.NewTicker(every), time.NewTicker(time.Second)
	defer tick.Stop()
	defer clock.Stop()
	for {
		v.draw(screen)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			read()
		case <-clock.C: // ages grow
		case res := <-results:
			busy = false
			v.take(res)
		case e, ok := <-events:
			if !ok || e == nil {
				return nil
			}
			if v.handle(e, screen) {
				return nil
			}
		}
	}
}

// take takes over what was read; after an error what was there stays.
func (v *topView) take(r reading) {
	if errors.Is(r.err, context.Canceled) {
		return
	}
	v.err = r.err
	if r.err == nil {
		v.data = r.data
	}
}

// handle acts on a key; it reports whether that was to quit.
func (v *topView) handle(e tcell.Event, screen tcell.Screen) (quit bool) {
	switch e := e.(type) {
	case *tcell.EventResize:
		screen.Sync()
	case *tcell.EventError:
		return true
	case *tcell.EventKey:
		if e.Key() == tcell.KeyCtrlC {
			return true
		}
		if e.Key() == tcell.KeyCtrlL {
			screen.Sync()
			return false
		}
		if v.editing {
			v.edit(e)
			return false
		}
		_, height := screen.Size()
		return v.key(e, max(1, height-topHead-1))
	}
	return false
}

// edit types at the filter.
func (v *topView) edit(e *tcell.EventKey) {
	switch e.Key() {
	case tcell.KeyEnter:
		v.editing = false
	case tcell.KeyEscape:
		v.editing, v.filter = false, ""
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		if r := []rune(v.filter); len(r) > 0 {
			v.filter = string(r[:len(r)-1])
		}
	case tcell.KeyRune:
		v.filter += string(e.Rune())
	}
	v.first = 0
}

func (v *topView) key(e *tcell.EventKey, page int) (quit bool) {
	if v.help {
		v.help = false
		return e.Rune() == 'q' && e.Key() == tcell.KeyRune
	}
	switch e.Key() {
	case tcell.KeyUp:
		v.first--
	case tcell.KeyDown:
		v.first++
	case tcell.KeyPgUp:
		v.first -= page
	case tcell.KeyPgDn:
		v.first += page
	case tcell.KeyHome:
		v.first = 0
	case tcell.KeyEnd:
		v.first = len(v.data.jobs)
	case tcell.KeyEscape:
		v.filter = ""
	case tcell.KeyRune:
		return v.letter(e.Rune())
	}
	return false
}

func (v *topView) letter(r rune) (quit bool) {
	switch r {
	case 'q', 'Q':
		return true
	case 's':
		v.order = (v.order + 1) % len(topOrders)
	case 'r':
		v.reverse = !v.reverse
	case 't':
		v.states = (v.states + 1) % len(topStates)
		v.first = 0
	case '/':
		v.editing = true
	case 'p', ' ':
		v.paused = !v.paused
	case 'k':
		v.first--
	case 'j':
		v.first++
	case '?', 'h':
		v.help = true
	}
	return false
}

// print writes the whole view once, without colours.
func (v *topView) print(w io.Writer) error {
	v.plain = true
	width := 160
	var b strings.Builder
	for _, l := range v.lines(width, topHead+1+max(1, len(v.data.jobs))) {
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// away says that the daemon is silent; "" when it is at work.
func (v *topView) away(cfg *config.Config) string {
	st := v.data.status
	if st.Newest == nil {
		return "riflingd has not finished a cycle yet"
	}
	age := v.now().Sub(lastBeat(st.Newest))
	switch {
	case st.Newest.Stopped():
		return fmt.Sprintf("riflingd was stopped %s ago", about(age))
	case age > staleAfter(cfg):
		return fmt.Sprintf("riflingd seems not to run: its last cycle was %s ago", about(age))
	}
	return ""
}
