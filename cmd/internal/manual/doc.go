// SPDX-License-Identifier: Apache-2.0

// Package manual makes the manual pages from the commands' own help and from
// the sample configuration, so that neither can drift from what the programs
// do. Each program has a hidden verb "man DIR", which the packaging calls.
package manual

//go:generate go test -count=1 -run ^(TestConfigurePage|TestTroubleshootPage)$ . -update
