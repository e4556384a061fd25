// SPDX-License-Identifier: Apache-2.0

// Package etc holds the documented sample configuration, from which the manual
// page, the table of keys and the tests are made. The other files of the folder
// are for a site as they are.
package etc

import _ "embed" // for the sample

// Sample is rifling.yaml: every key with its default and its meaning.
//
//go:embed rifling.yaml
var Sample string
