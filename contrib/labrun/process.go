// SPDX-License-Identifier: Apache-2.0

package labrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program of ours, running as a process group of its own so that
// a Ctrl-C at the terminal reaches only whoever started it, and so that it can
// be ended whole.
type Process struct {
	name string
	cmd  *exec.Cmd
	log  *logBuffer
	done chan struct{}
	err  error // of Wait; read after done is closed
}

// startProcess starts a program with both outputs kept in memory and copied
// to w when w is not nil.
func startProcess(name string, argv, env []string, w io.Writer) (*Process, error) {
	p := &Process{name: name, log: &logBuffer{copyTo: w}, done: make(chan struct{})}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running tells whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ExitCode returns the exit status, -1 while the process runs or when a
// signal ended it.
func (p *Process) ExitCode() int {
	if p.Running() {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// Log returns all that the process has printed so far.
func (p *Process) Log() string { return p.log.String() }

// Stop asks the process to end (SIGTERM), waits, and after ten seconds kills
// it. It returns an error when the process did not end by itself with status 0.
func (p *Process) Stop() error {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		p.Kill9()
		return fmt.Errorf("%s did not stop within 10 s of SIGTERM and was killed", p.name)
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", p.name, p.err, lastLines(p.Log(), 3))
	}
	return nil
}

// Kill9 ends the process group at once, as a crash would, and waits for it.
func (p *Process) Kill9() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *Process) signal(sig syscall.Signal) {
	// An error means that it is gone already.
	_ = syscall.Kill(-p.cmd.Process.Pid, sig)
}

// waitReady polls ready until it returns nil, the process ends, or ctx does.
func (p *Process) waitReady(ctx context.Context, ready func(context.Context) error) error {
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended with status %d: %s", p.name, p.ExitCode(), lastLines(p.Log(), 4))
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not ready: %w", p.name, err), ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// logBuffer keeps what is written to it, safe for many writers.
type logBuffer struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	copyTo io.Writer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.copyTo != nil {
		if _, err := b.copyTo.Write(p); err != nil {
			return 0, err
		}
	}
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Clone(b.buf.String())
}
