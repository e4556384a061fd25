// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"rifling/cmd/internal/config"
	"rifling/cycle"
	"rifling/slurm"
	"rifling/slurm/rest"
)

// Slurm is what the verbs ask of slurmrestd.
type Slurm interface {
	cycle.Cluster
	Connect(ctx context.Context) (slurm.Release, error)
	Diag(ctx context.Context) (rest.Diag, error)
	AdminLevel(ctx context.Context) (user, level string, err error)
	Accounting(ctx context.Context) error
	Close()
}

// DefaultEnv is the real world: the host's clock and the configured slurmrestd.
func DefaultEnv() Env {
	return Env{Now: time.Now, Run: runCommand, Asker: currentAsker, Screen: terminal, Connect: func(cfg *config.Config) (Slurm, error) {
		topology, err := readTopology(cfg.Slurm.TopologyFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return rest.New(rest.Options{
			URL: cfg.Slurm.URL, User: cfg.Slurm.User, TokenFile: cfg.Slurm.TokenFile, CAFile: cfg.Slurm.CAFile,
			Version: cfg.Slurm.RESTVersion, Timeout: cfg.Slurm.Timeout, Topology: topology,
			UserAgent: "rifling/" + version,
		})
	}}
}

// readTopology reads topology.conf. Lines that cannot be read are left out:
// the cluster is then known as far as the others tell.
func readTopology(path string) (slurm.Topology, error) {
	if path == "" {
		return slurm.Topology{}, fs.ErrNotExist
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return slurm.Topology{}, slurm.WithHint(fmt.Errorf("read topology: %w", err), "set slurm.topology-file to a file that this user can read")
	}
	topology, _ := slurm.ParseTopology(string(text))
	return topology, nil
}
