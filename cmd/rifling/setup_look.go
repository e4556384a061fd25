// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rifling/cmd/internal/config"
	"rifling/slurm"
	"rifling/slurm/rest"
)

// Files of a packaged installation that setup looks for.
const (
	packagedToken  = "/etc/rifling/token"
	packagedSecret = "/etc/rifling/secret"
)

// commandTime bounds one of Slurm's commands: with slurmctld away they wait for
// minutes.
const commandTime = 20 * time.Second

// runCommand runs a program of the host. Its error says what the program said.
func runCommand(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second // for a child that keeps its output open
	err := cmd.Run()
	switch {
	case err == nil:
		return stdout.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: no answer within %s", name, commandTime)
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s is not installed here: %w", name, exec.ErrNotFound)
	}
	said, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
	return stdout.String(), fmt.Errorf("%s: %w: %s", name, err, said)
}

// gpuPart is a partition and what GPUs it has.
type gpuPart struct {
	name    string
	nodes   int // with GPUs
	gpus    int
	byType  map[string]int
	byDeflt bool // Slurm's default partition
}

// siteFacts is what setup found out. An error beside a value says why the value
// is not there.
type siteFacts struct {
	user string

	conf    map[string]string // scontrol show config, keys in lower case
	confErr error

	parts    []gpuPart // all partitions, those without GPUs too
	partsErr error
	nodes    int // with GPUs
	gpus     int

	jobs    int    // in squeue; -1: not known
	level   string // AdminLevel; "" when Slurm does not know the user
	userErr error
	local   bool // the host knows the user

	url, tokenFile string
	release        slurm.Release
	versions       []int // REST versions that answer
	restErr        error
	restd          bool // slurmrestd is installed here

	topology    string // path; "" for none
	topologyErr error
	database    string
	secret      bool
}

// get returns a value of slurm.conf; Slurm's words for nothing are "".
func (f *siteFacts) get(key string) string {
	v := f.conf[strings.ToLower(key)]
	if v == "(null)" || v == "N/A" || v == "none" || v == "(null type)" {
		return ""
	}
	return v
}

// has tells whether one word of a comma-separated value is set.
func (f *siteFacts) has(key, word string) bool {
	return slices.ContainsFunc(strings.Split(f.get(key), ","), func(s string) bool {
		name, _, _ := strings.Cut(strings.TrimSpace(s), "=")
		return strings.EqualFold(name, word)
	})
}

// look asks all that can be asked. Each question stands alone: what one does
// not answer keeps no other from being asked.
func (s *setup) look(ctx context.Context) *siteFacts {
	f := &siteFacts{user: s.user, database: s.database, jobs: -1}
	run := s.env.Run
	text, err := run(ctx, "scontrol", "show", "config")
	f.conf, f.confErr = parseSlurmConfig(text), err
	if err == nil {
		f.partitions(ctx, run)
		f.queue(ctx, run)
		f.slurmUser(ctx, run)
	} else {
		f.partsErr, f.userErr = err, err
	}
	_, err = run(ctx, "getent", "passwd", s.user)
	f.local = err == nil
	f.restd, f.secret = s.exists("/usr/sbin/slurmrestd"), s.exists(packagedSecret)
	s.findTopology(f)
	s.findREST(ctx, f)
	return f
}

func (s *setup) exists(path string) bool {
	_, err := os.Stat(filepath.Join(s.env.Root, path))
	return err == nil
}

// parseSlurmConfig reads the lines KEY = VALUE of scontrol show config.
func parseSlurmConfig(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, "="); ok {
			out[strings.ToLower(strings.TrimSpace(k))] = strings.TrimSpace(v)
		}
	}
	return out
}

// words reads scontrol's one-line form: KEY=VALUE with blanks between them. A
// blank inside a value cuts it, which the keys that setup reads do not have.
func words(line string) map[string]string {
	out := map[string]string{}
	for _, w := range strings.Fields(line) {
		if k, v, ok := strings.Cut(w, "="); ok && out[k] == "" {
			out[k] = v
		}
	}
	return out
}

// partitions reads which nodes have which GPUs, and which partitions have them.
func (f *siteFacts) partitions(ctx context.Context, run commandFunc) {
	nodes, err := run(ctx, "scontrol", "-o", "show", "nodes")
	if err != nil {
		f.partsErr = err
		return
	}
	parts, err := run(ctx, "scontrol", "-o", "show", "partitions")
	if err != nil {
		f.partsErr = err
		return
	}
	gpus := map[string]map[string]int{} // by node, then type
	for line := range strings.Lines(nodes) {
		w := words(line)
		list, _ := slurm.ParseGRES(w["Gres"]) // what can be read counts
		if total, byType := slurm.GPUs(list); total > 0 && w["NodeName"] != "" {
			gpus[w["NodeName"]] = byType
			f.nodes++
			f.gpus += total
		}
	}
	for line := range strings.Lines(parts) {
		w := words(line)
		if w["PartitionName"] == "" {
			continue
		}
		p := gpuPart{name: w["PartitionName"], byType: map[string]int{}, byDeflt: w["Default"] == "YES"}
		names, _ := slurm.ExpandHosts(w["Nodes"])
		for _, n := range names {
			if len(gpus[n]) > 0 {
				p.nodes++
			}
			for kind, count := range gpus[n] {
				p.byType[kind] += count
				p.gpus += count
			}
		}
		f.parts = append(f.parts, p)
	}
}

// queue counts the jobs, to choose an interval that slurmctld bears.
func (f *siteFacts) queue(ctx context.Context, run commandFunc) {
	text, err := run(ctx, "squeue", "--noheader", "--format=%i")
	if err == nil {
		f.jobs = len(strings.Fields(text))
	}
}

// slurmUser reads what Slurm knows of rifling's user.
func (f *siteFacts) slurmUser(ctx context.Context, run commandFunc) {
	text, err := run(ctx, "sacctmgr", "-nP", "show", "user", "name="+f.user, "format=user,adminlevel")
	if err != nil {
		f.userErr = err
		return
	}
	for line := range strings.Lines(text) {
		name, level, _ := strings.Cut(strings.TrimSpace(line), "|")
		if name == f.user {
			f.level = level
		}
	}
}

// findTopology looks for topology.conf where Slurm reads it: beside slurm.conf.
func (s *setup) findTopology(f *siteFacts) {
	f.topology = config.Default().Slurm.TopologyFile
	if at := f.get("SLURM_CONF"); at != "" {
		f.topology = filepath.Join(filepath.Dir(at), "topology.conf")
	}
	_, f.topologyErr = readTopology(filepath.Join(s.env.Root, f.topology))
}

// findREST tries the addresses that slurmrestd is likely to have, the first
// that serves wins. A slurmrestd that wants a token is taken only with one.
func (s *setup) findREST(ctx context.Context, f *siteFacts) {
	token := s.tokenFile
	if token == "" && s.exists(packagedToken) {
		token = packagedToken
	}
	tries := []string{s.url}
	if s.url == "" {
		tries = []string{config.Default().Slurm.URL}
		if token != "" {
			tries = append(tries, "http://localhost:6820")
			if host := controller(f.conf); host != "" {
				tries = append(tries, "http://"+host+":6820")
			}
		}
	}
	for i, url := range tries {
		release, versions, err := s.tryREST(ctx, url, token)
		if i == 0 || err == nil {
			f.url, f.restErr, f.release, f.versions = url, err, release, versions
		}
		if err == nil {
			break
		}
	}
	if !strings.HasPrefix(f.url, "unix:") {
		f.tokenFile = token
	}
}

// controller returns the host of the first slurmctld.
func controller(conf map[string]string) string {
	host, _, _ := strings.Cut(conf["slurmctldhost[0]"], "(")
	return host
}

// tryREST connects, then asks each version that rifling speaks for itself.
func (s *setup) tryREST(ctx context.Context, url, token string) (slurm.Release, []int, error) {
	connect := func(version int) (slurm.Release, error) {
		cfg := config.Default()
		cfg.Slurm.URL, cfg.Slurm.User, cfg.Slurm.RESTVersion = url, s.user, version
		cfg.Slurm.TopologyFile = ""
		if !strings.HasPrefix(url, "unix:") {
			cfg.Slurm.TokenFile = token
		}
		cluster, err := s.env.Connect(&cfg)
		if err != nil {
			return slurm.Release{}, err
		}
		defer cluster.Close()
		return cluster.Connect(ctx)
	}
	release, err := connect(0)
	if err != nil {
		return release, nil, err
	}
	var versions []int
	for _, v := range rest.Versions() {
		if _, err := connect(v); err == nil {
			versions = append(versions, v)
		}
	}
	return release, versions, nil
}
