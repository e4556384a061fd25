// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"

	"rifling/cmd/internal/config"
	"rifling/slurm"
)

// Asker is who called the program.
type Asker struct {
	Name string
	UID  int
}

// currentAsker is the user of this process.
func currentAsker() (Asker, error) {
	u, err := user.Current()
	if err != nil {
		return Asker{}, fmt.Errorf("who you are: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	return Asker{Name: u.Username, UID: uid}, err
}

// only is the one user whose jobs the caller may see; "" for those of all:
// root's, the user's who owns the database, and everybody's where the site
// says so.
func (a *app) only(cfg *config.Config) (string, error) {
	if a.env.Asker == nil || cfg.UsersSee == config.SeeAll {
		return "", nil
	}
	me, err := a.env.Asker()
	if err != nil {
		return "", err
	}
	if me.UID == 0 {
		return "", nil
	}
	if info, err := os.Stat(cfg.Database); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == me.UID {
			return "", nil
		}
	}
	return me.Name, nil
}

// mayAsk turns the users that were asked for, none for all, into those whose
// jobs the caller may see.
func (a *app) mayAsk(cfg *config.Config, users []string) ([]string, error) {
	me, err := a.only(cfg)
	if err != nil || me == "" {
		return users, err
	}
	if slices.ContainsFunc(users, func(u string) bool { return u != me }) {
		return nil, notYours(fmt.Errorf("user %s may see the jobs of %s only", me, me))
	}
	return []string{me}, nil
}

func notYours(err error) error {
	return slurm.WithHint(err, "ask as root or as the user of riflingd; the site may set users-see: all in rifling.yaml")
}
