// SPDX-License-Identifier: Apache-2.0

// Package page is riflingd's status page: HTML made on the server, without
// scripts, read-only. It shows the View that the loop publishes after each
// cycle and, for what lies further back, the history, which it only reads. See
// docs/design/page.md.
package page
