// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"syscall"

	"rifling/slurm"
)

// lockDatabase makes sure that one daemon at a time works on a database: two
// would each take back what the other sets. The kernel drops the lock when the
// process ends, however it ends.
func lockDatabase(path string) (*os.File, error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, slurm.WithHint(fmt.Errorf("lock the database: %w", err),
			"the directory of the database must exist and belong to the daemon's user")
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // the lock's error is the one to tell
		return nil, slurm.WithHint(fmt.Errorf("lock %s: %w", name, err),
			"another riflingd works on this database: stop it first, or give this one a database of its own")
	}
	return f, nil
}
