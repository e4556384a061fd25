// SPDX-License-Identifier: Apache-2.0

package labrun

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// DaemonOptions says how riflingd runs against a lab. Zero values mean observe
// mode, the policy "rifling", a new empty database, and the lab's slurmrestd on
// TCP.
type DaemonOptions struct {
	Mode     string
	Policy   string
	Database string // path; kept when the daemon stops
	URL      string // of slurmrestd or of a Proxy
	// Config overrides keys, written with dots: "limits.max-wait": "2m".
	Config map[string]any
	Env    []string // KEY=VALUE
	Log    io.Writer
}

// Daemon is a riflingd, started on a lab.
type Daemon struct {
	*Process
	ConfigFile string
	Database   string
	Address    string // of its own HTTP server
	SecretFile string // shared with the collectors

	lab *Lab
	dir string
	opt DaemonOptions
}

// PrepareDaemon writes a configuration for riflingd into a directory of its own
// and starts nothing yet: the rifling command can use it as it is.
func (l *Lab) PrepareDaemon(o DaemonOptions) (*Daemon, error) {
	dir, err := os.MkdirTemp("", "rifling-lab-")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		ConfigFile: filepath.Join(dir, "rifling.yaml"),
		Database:   filepath.Join(dir, "rifling.db"),
		Address:    fmt.Sprintf("127.0.0.1:%d", port),
		SecretFile: filepath.Join(dir, "secret"),
		lab:        l, dir: dir,
	}
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // never fails
	if err := os.WriteFile(d.SecretFile, []byte(hex.EncodeToString(secret)+"\n"), 0o600); err != nil {
		return nil, err
	}
	return d, d.Reconfigure(o)
}

// Reconfigure writes the configuration anew; it holds from the next Start. The
// database stays where it is unless o names another.
func (d *Daemon) Reconfigure(o DaemonOptions) error {
	d.opt = o
	d.Database = cmp.Or(o.Database, d.Database)
	text, err := yaml.Marshal(d.config())
	if err != nil {
		return err
	}
	return os.WriteFile(d.ConfigFile, text, 0o600)
}

// config is the lab's configuration with the overrides over it, nested as
// YAML wants it.
func (d *Daemon) config() map[string]any {
	l, o := d.lab, d.opt
	flat := map[string]any{
		"slurm.url":           cmp.Or(o.URL, l.RESTURL),
		"slurm.user":          l.JWTUser,
		"slurm.token-file":    l.TokenFile,
		"slurm.topology-file": l.Topology,
		"database":            d.Database,
		"mode":                cmp.Or(o.Mode, "observe"),
		"policy":              cmp.Or(o.Policy, "rifling"),
		"listen.address":      d.Address,
		"listen.secret-file":  d.SecretFile,
		"interval":            "1s",
	}
	maps.Copy(flat, o.Config)
	nested := map[string]any{}
	for key, v := range flat {
		at := nested
		parts := strings.Split(key, ".")
		for _, p := range parts[:len(parts)-1] {
			sub, ok := at[p].(map[string]any)
			if !ok {
				sub = map[string]any{}
				at[p] = sub
			}
			at = sub
		}
		at[parts[len(parts)-1]] = v
	}
	return nested
}

// Paced returns overrides that bring the times of rifling's default
// configuration, made for jobs of hours, to a lab where an emulated second
// takes scale of Slurm's seconds (see workload.Job.Script).
func Paced(scale float64) map[string]any {
	if scale >= 1 {
		return map[string]any{}
	}
	of := func(d, least time.Duration) string {
		return max(least, time.Duration(float64(d)*scale)).Round(time.Millisecond).String()
	}
	return map[string]any{
		"limits.max-wait":       of(2*time.Hour, 0),
		"limits.ttl":            of(10*time.Minute, 20*time.Second),
		"limits.starvation":     of(7*24*time.Hour, time.Hour),
		"agent.tau":             of(time.Hour, time.Second),
		"profile.regroup-every": of(time.Hour, 10*time.Second),
	}
}

// StartDaemon starts riflingd and waits until it answers.
func (l *Lab) StartDaemon(ctx context.Context, o DaemonOptions) (*Daemon, error) {
	d, err := l.PrepareDaemon(o)
	if err != nil {
		return nil, err
	}
	if err := d.Start(ctx); err != nil {
		return nil, errors.Join(err, d.Remove())
	}
	return d, nil
}

// Start starts the daemon with the configuration it has, the first time or
// again after it ended. It returns an error with the daemon's last words when
// it ends before it answers.
func (d *Daemon) Start(ctx context.Context) error {
	p, err := startProcess("riflingd", []string{d.lab.Bin("riflingd"), "--config", d.ConfigFile}, d.opt.Env, d.opt.Log)
	if err != nil {
		return err
	}
	d.Process = p
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := p.waitReady(ctx, d.healthy); err != nil {
		p.Kill9()
		return err
	}
	return nil
}

func (d *Daemon) healthy(ctx context.Context) error {
	_, err := d.Get(ctx, "/healthz")
	return err
}

// Get fetches a page of the daemon's own HTTP server.
func (d *Daemon) Get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.Address+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return string(body), err
}

// Rifling runs the rifling command with the daemon's configuration and returns
// what it printed on standard output. The error carries its standard error.
func (d *Daemon) Rifling(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, d.lab.Bin("rifling"), append([]string{"--config", d.ConfigFile}, args...)...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("rifling %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), err
}

// Remove deletes the daemon's directory, with the database if that is there.
func (d *Daemon) Remove() error { return os.RemoveAll(d.dir) }

// freePort returns a TCP port that was free a moment ago. The kernel hands
// these out in turn, so it stays free for long enough.
func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}
