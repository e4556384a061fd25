// SPDX-License-Identifier: Apache-2.0

// Package sacct reads Slurm's accounting, run by run and in bounded memory:
// from the command sacct, from a file that it wrote, or from any other Source
// (slurm/rest has slurmdbd's REST call). Import pages through months of it by
// windows of time and can be killed and repeated. See docs/design/history.md.
package sacct
