// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"rifling/agent"
	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
	"rifling/slurm/rest"
)

// Client returns a client of the slurmrestd that the configuration names. It
// sends nothing yet. A topology file that is not there is no error: leaf
// switches are then unknown.
func (c *Config) Client(userAgent string) (*rest.Client, error) {
	topo, err := c.topology()
	if err != nil {
		return nil, err
	}
	s := c.Slurm
	return rest.New(rest.Options{
		URL: s.URL, User: s.User, TokenFile: s.TokenFile, CAFile: s.CAFile, Version: s.RESTVersion,
		Timeout: s.Timeout, Topology: topo, UserAgent: userAgent,
	})
}

func (c *Config) topology() (slurm.Topology, error) {
	if c.Slurm.TopologyFile == "" {
		return slurm.Topology{}, nil
	}
	text, err := os.ReadFile(c.Slurm.TopologyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return slurm.Topology{}, nil
	}
	if err != nil {
		return slurm.Topology{}, slurm.WithHint(fmt.Errorf("read topology: %w", err),
			"make slurm.topology-file readable for rifling, or set it to \"\"")
	}
	topo, err := slurm.ParseTopology(string(text))
	if err != nil {
		return topo, slurm.WithHint(fmt.Errorf("topology %s: %w", c.Slurm.TopologyFile, err),
			"slurm.topology-file must name Slurm's own topology.conf")
	}
	return topo, nil
}

// PolicyLimits are the guard rails as the policies take them.
func (c *Config) PolicyLimits() policy.Limits {
	l, m := c.Limits, c.Manage
	return policy.Limits{
		Partitions: m.Partitions, OptOut: m.OptOut,
		SkipUsers: m.SkipUsers, SkipAccounts: m.SkipAccounts, SkipQOS: m.SkipQOS,
		SkipPartitions: m.SkipPartitions, SkipConstraints: m.SkipConstraints, MaxOvertake: l.MaxOvertake,
		Depth: l.Depth, SlackNodes: l.SlackNodes, MaxOffset: l.MaxOffset, MaxWait: l.MaxWait,
		MaxChanges: l.MaxChanges, TTL: l.TTL, RequiredNodes: l.ExactNodes, Starvation: l.Starvation, Grace: l.Grace,
		SteerPartitions: c.Steer.Partitions, SteerAccounts: c.Steer.Accounts, SteerQOS: c.Steer.QOS,
	}
}

// Book returns an empty profile book with the configured options.
func (c *Config) Book() (*profile.Book, error) {
	o, p := profile.DefaultOptions(), c.Profile
	o.Groups, o.RegroupEvery, o.MinSamples = p.Groups, p.RegroupEvery, p.MinSamples
	o.CommBoundBelow, o.ComputeBoundAbove = p.CommBoundBelow, p.ComputeBoundAbove
	o.SpreadNetSpeed = p.NetGbit * 1e9 / 8
	o.RateWindow, o.HalfLife = p.RateWindow, p.HalfLife
	if err := o.Validate(); err != nil {
		return nil, slurm.WithHint(fmt.Errorf("configuration, profile: %w", err), "see the section profile in etc/rifling.yaml")
	}
	return profile.NewBook(o), nil
}

// NewPolicy returns the configured policy.
func (c *Config) NewPolicy() (policy.Policy, error) {
	o, err := c.PolicyOptions()
	if err != nil {
		return nil, err
	}
	return policy.New(c.Policy, o)
}

// PolicyOptions are what the configuration says of policies, for any of them.
func (c *Config) PolicyOptions() (policy.Options, error) {
	p := agent.DefaultParams()
	a := c.Agent
	p.Alpha, p.Tau, p.Margin = a.Alpha, a.Tau, a.Margin
	p.Epsilon, p.EpsilonMin, p.EpsilonDecay = a.Epsilon, a.EpsilonMin, a.EpsilonDecay
	if err := p.Validate(); err != nil {
		return policy.Options{}, slurm.WithHint(fmt.Errorf("configuration, agent: %w", err), "see the section agent in etc/rifling.yaml")
	}
	return policy.Options{
		Agent: p, NoPrior: a.Prior != "rule" || a.PriorWeight == 0, PriorWeight: a.PriorWeight, FCFS: c.Order == "fcfs",
	}, nil
}
