// SPDX-License-Identifier: Apache-2.0

// Package report lays rows out as a table for people, as separated values for
// scripts, or as JSON, in the manner of sacct: fields are chosen by name, each
// with a width. It is pure: the same rows give the same bytes, and text that
// came from users cannot move a terminal's cursor or break a table.
package report
