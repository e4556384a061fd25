// SPDX-License-Identifier: Apache-2.0

// Package labrun drives a real Slurm lab (contrib/lab) and rifling's own
// programs against it: it brings labs up and down, runs commands inside them
// as ordinary users, submits jobs and reads them back in Slurm's own words,
// starts and kills the daemon and the collectors, and puts a counting,
// fault-injecting proxy in front of slurmrestd. The demo, the comparison and
// the end-to-end tests all stand on it, so what they show was seen on a real
// slurmctld.
package labrun
