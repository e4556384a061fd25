// SPDX-License-Identifier: Apache-2.0

// Command rifling shows what riflingd does and why, checks the installation,
// and takes back all that was set. It reads riflingd's database and needs no
// running daemon.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Main(ctx, os.Args[1:], os.Stdout, os.Stderr, DefaultEnv())
	stop()
	os.Exit(code)
}
