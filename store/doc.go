// SPDX-License-Identifier: Apache-2.0

// Package store keeps rifling's history and what it has learnt in one SQLite
// file. The daemon writes through Open; everybody else reads through
// OpenReadOnly, at the same time if need be. Rows are this package's own
// business: callers hand in and get out the values of the other packages.
//
// Instants are whole seconds since the epoch in the file and time.Time in UTC
// outside it. See docs/design/store.md.
package store
